/* Requests to the API server: a few connections, each of which answers one request after the other; the headers, among them the
 * token, which its file replaces now and then; and what a refusal means. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/kubernetes/kubernetes.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define NS_PER_S (1000 * SIMBA__NS_PER_MS)
#define TOKEN_PERIOD_NS (60 * NS_PER_S)

enum { BEARER = sizeof "Bearer " - 1, WAIT_MOST_S = 60 };

/* --- the token --------------------------------------------------------------------------------------- */

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    simba__free(text);
}

static int set_bearer(kube_store *store, const char *token)
{
    char *text = simba__malloc(BEARER + strlen(token) + 1);
    if (!text)
        return SIMBA_ENOMEM;
    strcpy(stpcpy(text, "Bearer "), token);
    free_secret(store->bearer);
    store->bearer = text;
    return 0;
}

/* Without the lock. */
static bool read_token(simba_job *job, simba_local until)
{
    kube_store *store = SIMBA__OF_ITEM(job, kube_store, token);
    if (until.ns != INT64_MAX)
        return false; /* a file may be slow: on a thread of the client's own */
    if (simba__kube_read_token(store->options.token_file, &store->token_read, &store->token_error) < 0)
        store->token_read = NULL;
    return true;
}

static void token_read(simba_job *job)
{
    kube_store *store = SIMBA__OF_ITEM(job, kube_store, token);
    char *token = store->token_read;
    store->reads_token = false;
    store->token_read = NULL;
    if (token && (!store->bearer || strcmp(token, store->bearer + BEARER) != 0)) {
        store->token_refused = set_bearer(store, token) < 0;
    } else if (!token) {
        store->host->log(store->host, SIMBA_LOG_WARN, "%s; going on with the token read before",
                         store->token_error.text);
    }
    free_secret(token);
    if (!store->closing)
        store->host->timer_set(store->host, &store->token_due,
                               (simba_local){store->host->now(store->host).ns + TOKEN_PERIOD_NS});
    simba__kube_token_is(store);
    simba__kube_closes(store);
}

static void start_reading(kube_store *store)
{
    if (store->reads_token || store->closing)
        return;
    store->reads_token = true;
    store->host->work(store->host, &store->token);
}

static void token_due(simba_timer *timer, simba_local now)
{
    (void)now;
    start_reading(SIMBA__OF_ITEM(timer, kube_store, token_due));
}

bool simba__kube_renew_token(kube_store *store)
{
    if (!store->options.token_file || store->token_refused)
        return false;
    store->token_refused = !store->reads_token; /* unless the file has another one */
    start_reading(store);
    return true;
}

/* --- sending ----------------------------------------------------------------------------------------- */

const char *simba__kube_path(const kube_store *store, const char *name, const char *more,
                             char ret_path[KUBE_TARGET_SIZE])
{
    snprintf(ret_path, KUBE_TARGET_SIZE, "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s%s",
             store->options.space, name ? "/" : "", name ? name : "", more);
    return ret_path;
}

static void call_done(simba__http_call *http, const simba__http_answer *answer, const simba_error *error)
{
    kube_call *call = SIMBA__OF_ITEM(http, kube_call, http);
    simba__json body = {0};
    if (answer)
        simba__json_read(answer->body, answer->length, &body);
    if (answer && answer->head.status == 429) {
        const int64_t s = answer->head.retry_after_s;
        simba_host *host = call->store->host;
        call->store->wait_until.ns = host->now(host).ns + (s < 1 ? 1 : s > WAIT_MOST_S ? WAIT_MOST_S : s) * NS_PER_S;
    }
    if (answer && answer->head.status != 401)
        call->store->token_refused = false;
    call->over(call, answer ? answer->head.status : 0, body, error);
}

int simba__kube_send(kube_store *store, simba__http *http, kube_call *call, const char *method, const char *path,
                     const simba__buffer *body)
{
    const char *type = strcmp(method, "PATCH") == 0 ? "application/merge-patch+json" : "application/json";
    const char *headers[12] = {"Accept", "application/json", "User-Agent", "simba"};
    char target[KUBE_TARGET_SIZE + 256];
    size_t n = 4;
    if (store->bearer) {
        headers[n++] = "Authorization";
        headers[n++] = store->bearer;
    }
    if (body) {
        headers[n++] = "Content-Type";
        headers[n++] = type;
    }
    if (body && body->failed)
        return SIMBA_ENOMEM;
    snprintf(target, sizeof target, "%s%s", store->options.prefix, path);
    call->store = store;
    call->http.done = call_done;
    if (call->http.silence_ns == 0)
        call->http.silence_ns = store->options.timeout_ns;
    if (call->http.body_most == 0)
        call->http.body_most = KUBE_OBJECT_MOST;
    return simba__http_send(http, &call->http, method, target, headers, body ? body->data : NULL,
                            body ? body->length : 0);
}

/* One that has nothing to do, or else the one with the least. A broken one comes last: its next attempt may be far off. */
simba__http *simba__kube_connection(kube_store *store, bool hurries)
{
    simba__http *best = NULL;
    size_t best_cost = 0;
    for (size_t i = 0; i < KUBE_CONNECTIONS; i++) {
        simba__http *http = &store->connections[i];
        const simba__link_state state = http->link.state;
        const size_t cost = 4 * http->calls.count + (state == SIMBA__LINK_UP        ? 0
                                                     : state == SIMBA__LINK_WAITING ? 1000
                                                                                    : 1);
        if (!best || cost < best_cost) {
            best = http;
            best_cost = cost;
        }
    }
    if (hurries)
        simba__link_hurry(&best->link);
    return best;
}

/* --- refusals ---------------------------------------------------------------------------------------- */

int simba__kube_refusal(kube_store *store, const char *what, int status, simba__json body, simba_error *ret_error)
{
    const int code = status == 401 || status == 403   ? SIMBA_EPERM
                     : status == 429 || status >= 500 ? SIMBA_EUNAVAILABLE
                                                      : SIMBA_ESTORE;
    char message[160] = "";
    char whole[2048];
    if (simba__json_text(simba__json_get(body, "message"), whole, sizeof whole))
        snprintf(message, sizeof message, ": %s", whole);
    simba__error_set(ret_error, code, "kubernetes %s: %s is answered by %d%s", store->options.at.where, what, status,
                     message);
    return code;
}

/* --- life -------------------------------------------------------------------------------------------- */

/* The server, or somebody on the way, closes connections that nobody uses. They need not come back before somebody does. */
static void conn_down(simba__http *http)
{
    if (http->calls.count == 0)
        simba__http_close(http);
}

static const simba__http_events conn_events = {.down = conn_down};

int simba__kube_calls_init(kube_store *store)
{
    store->token = (simba_job){.run = read_token, .done = token_read};
    store->token_due.fire = token_due;
    int rc = store->host->timer_add(store->host, &store->token_due);
    for (size_t i = 0; rc == 0 && i < KUBE_CONNECTIONS; i++) {
        simba__http *http = &store->connections[i];
        rc = simba__http_init(http, &store->links, &conn_events, store, store->options.connect_timeout_ns);
        http->link.at = store->options.at;
        http->link.tls_name = store->options.tls_name;
    }
    if (rc == 0 && store->options.token)
        rc = set_bearer(store, store->options.token);
    if (rc == 0 && store->options.token_file)
        store->host->timer_set(store->host, &store->token_due,
                               (simba_local){store->host->now(store->host).ns + TOKEN_PERIOD_NS});
    return rc;
}

void simba__kube_calls_close(kube_store *store)
{
    store->host->timer_clear(store->host, &store->token_due);
    for (size_t i = 0; i < KUBE_CONNECTIONS; i++)
        simba__http_close(&store->connections[i]);
}

bool simba__kube_calls_ended(const kube_store *store)
{
    return !store->reads_token && store->links.lookups == 0;
}

void simba__kube_calls_fini(kube_store *store)
{
    for (size_t i = 0; i < KUBE_CONNECTIONS; i++)
        if (store->connections[i].link.host)
            simba__http_fini(&store->connections[i]);
    free_secret(store->bearer);
}
