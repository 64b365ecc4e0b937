/* Requests to the API server: a few connections, each of which answers one request after the other; the headers, among them the
 * token, which its file replaces now and then; and what a refusal means. */
#include <stdio.h>
#include <string.h>

#include "core/timing.h"
#include "stores/kubernetes/kubernetes.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/random.h"

#define NS_PER_S (1000 * SIMBA__NS_PER_MS)
#define TOKEN_PERIOD_NS (60 * NS_PER_S)

enum { WAIT_MOST_S = 60 };

/* --- the token --------------------------------------------------------------------------------------- */

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    simba__free(text);
}

/* Without the lock. */
static bool read_token(simba_job *job, simba_local until)
{
    kube_store *store = SIMBA__OF_ITEM(job, kube_store, token);
    if (until.ns != INT64_MAX)
        return false; /* a file may be slow: on a thread of the client's own */
    simba__kube_read_token(store->options.token_file, &store->token_read, &store->token_error);
    return true;
}

static void token_read(simba_job *job)
{
    kube_store *store = SIMBA__OF_ITEM(job, kube_store, token);
    char *token = store->token_read;
    store->reads_token = false;
    store->token_read = NULL;
    if (!token)
        store->host->log(store->host, SIMBA_LOG_WARN, "%s; going on with the token read before",
                         store->token_error.text);
    if (token) {
        free_secret(store->bearer);
        store->bearer = token;
    }
    store->token_is_fresh = true;
    if (!store->closing)
        store->host->timer_set(store->host, &store->token_due,
                               (simba_local){store->host->now(store->host).ns + TOKEN_PERIOD_NS});
    simba__kube_closes(store);
}

static void start_reading(kube_store *store)
{
    if (store->reads_token || store->closing || !store->options.token_file)
        return;
    store->reads_token = true;
    store->host->work(store->host, &store->token);
}

static void token_due(simba_timer *timer, simba_local now)
{
    (void)now;
    start_reading(SIMBA__OF_ITEM(timer, kube_store, token_due));
}

/* --- requests ---------------------------------------------------------------------------------------- */

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
    kube_store *store = call->store;
    const int status = answer ? answer->head.status : 0;
    simba__json body = {0};
    if (answer)
        simba__json_read(answer->body, answer->length, &body);
    if (status == 429) {
        const int64_t s = answer->head.retry_after_s;
        store->wait_until.ns = store->host->now(store->host).ns + (s < 1             ? 1
                                                                   : s > WAIT_MOST_S ? WAIT_MOST_S
                                                                                     : s) *
                                                                      NS_PER_S;
    }
    /* What ended this connection has perhaps ended those that were idle meanwhile: the next request makes a new one. */
    for (size_t i = 0; error && i < KUBE_CONNECTIONS; i++)
        if (store->connections[i].link.state == SIMBA__LINK_UP && store->connections[i].calls.count == 0)
            simba__http_close(&store->connections[i]);
    call->over(call, status, body, error);
    if (status == 401)
        start_reading(store);
    else if (answer)
        store->token_is_fresh = false;
}

int simba__kube_send(kube_store *store, simba__http *http, kube_call *call, const char *method, const char *path,
                     const simba__buffer *body)
{
    const char *headers[12] = {"Accept", "application/json", "User-Agent", "simba"};
    size_t n = 4;
    if (store->bearer) {
        headers[n++] = "Authorization";
        headers[n++] = store->bearer;
    }
    if (body) {
        headers[n++] = "Content-Type";
        headers[n++] = strcmp(method, "PATCH") == 0 ? "application/merge-patch+json" : "application/json";
    }
    if (body && body->failed)
        return SIMBA_ENOMEM;
    call->store = store;
    call->http.done = call_done;
    if (call->http.silence_ns == 0)
        call->http.silence_ns = store->options.timeout_ns;
    if (call->http.body_most == 0)
        call->http.body_most = KUBE_OBJECT_MOST;
    return simba__http_send(http, &call->http, method, path, headers, body ? body->data : NULL,
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

simba_error simba__kube_refusal(const kube_store *store, const char *what, int status, simba__json body,
                                const simba_error *error)
{
    /* A token that was taken until now may have been replaced. */
    const bool is_old = status == 401 && store->options.token_file && !store->token_is_fresh;
    const int code = is_old || status == 429 || status >= 500 ? SIMBA_EUNAVAILABLE
                     : status == 401 || status == 403         ? SIMBA_EPERM
                                                              : SIMBA_ESTORE;
    char message[2048];
    simba_error refusal;
    if (error)
        return *error;
    simba__json_text(simba__json_get(body, "message"), message, sizeof message);
    simba__error_set(&refusal, code, "kubernetes %s: %s is answered by %d%s%.160s", store->options.at.where, what,
                     status, message[0] ? ": " : "", message);
    return refusal;
}

simba_local simba__kube_again_at(kube_store *store, unsigned failures, int64_t first_ms, int64_t most_ms)
{
    simba_host *host = store->host;
    uint64_t seed = host->random(host);
    const int64_t grown_ms = first_ms << (failures < 16 ? failures : 16);
    const int64_t ms = grown_ms < most_ms ? grown_ms : most_ms;
    const simba_local at =
        simba__local_add(host->now(host), simba__random_range(&seed, ms / 2, ms + 1) * SIMBA__NS_PER_MS);
    return at.ns > store->wait_until.ns ? at : store->wait_until;
}

/* --- life -------------------------------------------------------------------------------------------- */

/* The server, or somebody on the way, closes connections that nobody uses. They need not come back before somebody does. */
static void conn_down(simba__http *http)
{
    if (http->calls.count == 0)
        simba__http_close(http);
}

int simba__kube_calls_init(kube_store *store)
{
    static const simba__http_events events = {.down = conn_down};
    store->token = (simba_job){.run = read_token, .done = token_read};
    store->token_due.fire = token_due;
    store->token_is_fresh = true;
    int rc = store->host->timer_add(store->host, &store->token_due);
    for (size_t i = 0; rc == 0 && i < KUBE_CONNECTIONS; i++) {
        simba__http *http = &store->connections[i];
        rc = simba__http_init(http, &store->links, &events, store, store->options.connect_timeout_ns);
        http->link.at = store->options.at;
    }
    if (rc == 0 && store->options.token_file)
        store->host->timer_set(store->host, &store->token_due,
                               (simba_local){store->host->now(store->host).ns + TOKEN_PERIOD_NS});
    return rc;
}

void simba__kube_closes(kube_store *store)
{
    if (!store->closing || store->closed || store->label.busy)
        return;
    store->host->timer_clear(store->host, &store->token_due);
    for (size_t i = 0; i < KUBE_CONNECTIONS; i++)
        simba__http_close(&store->connections[i]);
    if (store->reads_token || store->links.lookups > 0)
        return;
    store->closed = true;
    store->host->closed(store->host);
}

void simba__kube_calls_fini(kube_store *store)
{
    for (size_t i = 0; i < KUBE_CONNECTIONS; i++)
        if (store->connections[i].link.host)
            simba__http_fini(&store->connections[i]);
    free_secret(store->bearer);
}
