/* Procedures, and the connections on which they make their calls.
 *
 * A client has four connections for requests, and each answers one call at a time. All of them go to the same server. When that server is
 * away, silent, or answers with errors, they go to the next one, in an order that is shuffled once: a call that finds its connection at
 * another server leaves it. When all were tried in vain, calls fail, and names are looked up again.
 *
 * With a user, the first call waits for a token. etcd forgets tokens, and then the store logs in again; calls that were under way with
 * the same token only wait for the new one. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/saturate.h"
#include "util/text.h"

enum { PAUSE_MS = 50, LOG_INS_MOST = 2, LOG_IN_PAUSE_MS = 1000 };

static etcd_op *of(simba__http_call *call)
{
    return (etcd_op *)(void *)call;
}

int64_t simba__etcd_patience_ns(const etcd_store *store)
{
    return simba__etcd_live_patience_ns(&store->session.live);
}

int64_t simba__etcd_now_ms(const etcd_store *store)
{
    return store->host->epoch_us(store->host) / 1000;
}

/* --- procedures --------------------------------------------------------------------------------------------- */

static void on_done(simba__http_call *call, const simba__http_answer *got, const simba_error *error);

void *simba__etcd_op_new(etcd_store *store, size_t size, simba_request *request)
{
    etcd_op *op = simba__calloc(1, size);
    if (!op) {
        if (request)
            store->host->fail(store->host, request, SIMBA_ENOMEM, "etcd: out of memory");
        return NULL;
    }
    op->store = store;
    op->call.done = on_done;
    op->call.body_most = ETCD_ANSWER_MOST;
    simba__list_append(&store->calls.ops, &op->item);
    if (request)
        simba__etcd_op_take(op, request);
    return op;
}

void simba__etcd_op_take(etcd_op *op, simba_request *request)
{
    op->request = request;
    op->expired = false;
    request->backend_data = op;
}

void simba__etcd_op_end(etcd_op *op)
{
    simba__etcd_call_drop(op);
    simba__list_remove(&op->later);
    simba__list_remove(&op->item);
    if (op->fini)
        op->fini(op);
    if (op->body.data)
        explicit_bzero(op->body.data, op->body.length); /* a password may be in it */
    simba__buffer_free(&op->body);
    simba__free(op);
}

void simba__etcd_complete(etcd_op *op, simba_outcome outcome, const simba_owner *owner)
{
    simba_request *request = op->request;
    if (!request)
        return;
    op->request = NULL;
    request->reply = (simba_reply){.outcome = outcome, .now_ms = simba__etcd_now_ms(op->store)};
    if (owner)
        request->reply.owner = *owner;
    op->store->host->complete(op->store->host, request);
}

void simba__etcd_fail(etcd_op *op, int code, const char *format, ...)
{
    const char *where = op->store->options.where;
    simba_request *request = op->request;
    char text[240];
    va_list args;
    if (!request)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    op->request = NULL;
    op->store->host->fail(op->store->host, request, code, "etcd %.*s: %s", simba__text_cut(where, 60), where, text);
}

void simba__etcd_finish(etcd_op *op, simba_outcome outcome, const simba_owner *owner)
{
    simba__etcd_complete(op, outcome, owner);
    simba__etcd_op_end(op);
}

bool simba__etcd_good(etcd_op *op, const etcd_answer *answer)
{
    if (answer->code == 0 && !(op->expired && !op->stays))
        return true;
    simba__etcd_fail(op, answer->code ? answer->code : SIMBA_ETIMEDOUT, "%s",
                     answer->code ? answer->fault.text : "no answer in time");
    simba__etcd_op_end(op);
    return false;
}

void simba__etcd_malformed(etcd_op *op)
{
    simba__etcd_fail(op, SIMBA_ESTORE, "the server's answer makes no sense; is it an etcd?");
    simba__etcd_op_end(op);
}

/* --- servers ------------------------------------------------------------------------------------------------ */

static etcd_store *store_of(simba__http *http)
{
    return http->owner;
}

static const simba__target *target(const etcd_calls *calls)
{
    return &calls->resolver.targets[calls->order[calls->server % calls->resolver.count]];
}

static bool can_save_lease(const etcd_store *store)
{
    return !simba__etcd_live_is_past(&store->session.live, store->host->now(store->host));
}

/* The first packet of a connection may be lost, and the kernel repeats it only after a second. While the lease can be saved, an attempt
 * gets four times what the last one took. */
static int64_t connect_timeout_ns(const etcd_store *store)
{
    enum { TIMES = 4, PARTS = 5 };
    const int64_t most = simba__etcd_patience_ns(store);
    const int64_t usual = simba__max64(store->calls.connect_ns * TIMES, most / PARTS);
    return can_save_lease(store) && store->calls.connect_ns > 0 ? simba__min64(usual, most) : most;
}

static void attempt(simba__http *http)
{
    etcd_store *store = store_of(http);
    simba__link *link = &http->link;
    const simba__target *to = target(&store->calls);
    link->at = *to->host;
    link->tls_name = to->host->host;
    snprintf(link->at.host, sizeof link->at.host, "%s", to->address);
    link->connect_timeout_ns = connect_timeout_ns(store);
    /* While the lease can be saved, or some server was not tried yet, a pause is one of 15 to 25 ms. */
    if (can_save_lease(store) || store->calls.failures < store->calls.resolver.count)
        link->failures = 0;
    simba__link_found(link);
}

static void on_find(simba__http *http)
{
    etcd_calls *calls = &store_of(http)->calls;
    const size_t count = calls->resolver.count;
    if (count == 0 || (calls->failures > 0 && calls->failures % count == 0))
        simba__resolver_start(&calls->resolver); /* `resolved` goes on */
    else
        attempt(http);
}

static void seek(simba__http *http)
{
    const simba__resolver *resolver = &store_of(http)->calls.resolver;
    if (!http->owner || !simba__link_seeks(&http->link))
        return;
    if (resolver->count > 0)
        attempt(http);
    else
        simba__link_fail(&http->link, SIMBA_EUNAVAILABLE, "etcd %s: cannot connect: %s", store_of(http)->options.where,
                         resolver->cause);
}

static void resolved(simba__resolver *resolver)
{
    etcd_store *store = (etcd_store *)(void *)((char *)resolver - offsetof(etcd_store, calls.resolver));
    etcd_calls *calls = &store->calls;
    simba_host *host = store->host;
    if (store->closing) {
        host->closed(host);
        return;
    }
    for (size_t i = 0; i < resolver->count; i++) {
        const size_t other = host->random(host) % (i + 1);
        calls->order[i] = calls->order[other];
        calls->order[other] = (uint8_t)i;
    }
    for (size_t i = 0; i < ETCD_CONNECTIONS; i++)
        seek(&calls->https[i]);
    seek(&store->session.http);
    seek(&store->stream.http);
}

/* Requests name all servers, so the one is left out. */
static const char *cause_of(const simba__link *link)
{
    const char *text = link->error.text;
    const size_t names = strlen("etcd ") + strlen(link->at.where) + strlen(": ");
    return strlen(text) > names && strncmp(text, "etcd ", 5) == 0 ? text + names : text;
}

bool simba__etcd_is_elsewhere(const etcd_store *store, const simba__http *http)
{
    const simba__link *link = &http->link;
    if (store->calls.resolver.count == 0)
        return false;
    const simba__target *to = target(&store->calls);
    return link->at.port != to->host->port || strcmp(link->at.host, to->address) != 0;
}

/* Several connections notice the same server: only the first one that does turns all of them. */
static void turn(simba__http *http)
{
    etcd_store *store = store_of(http);
    if (!simba__etcd_is_elsewhere(store, http))
        store->calls.server++;
}

void simba__etcd_turn_from(etcd_store *store, simba__http *http)
{
    (void)store;
    turn(http);
    simba__http_leave(http);
}

static void on_down(simba__http *http)
{
    etcd_calls *calls = &store_of(http)->calls;
    snprintf(calls->cause, sizeof calls->cause, "%s", cause_of(&http->link));
    calls->failures++;
    turn(http);
}

static void on_up(simba__http *http)
{
    etcd_calls *calls = &store_of(http)->calls;
    calls->connect_ns = http->link.host->now(http->link.host).ns - http->link.begun_at.ns;
    snprintf(calls->server_name, sizeof calls->server_name, "%s", http->link.at.where);
}

const simba__http_events simba__etcd_events = {.find = on_find, .up = on_up, .down = on_down};

static void looked_up(simba__links *all)
{
    (void)all;
}

/* --- calls -------------------------------------------------------------------------------------------------- */

/* One that rests, and is connected, if there is any. */
static simba__http *choose(etcd_store *store)
{
    simba__http *best = &store->calls.https[0];
    for (size_t i = 0; i < ETCD_CONNECTIONS; i++) {
        simba__http *http = &store->calls.https[i];
        const bool is_up = http->link.state == SIMBA__LINK_UP;
        if (http->calls.count < best->calls.count ||
            (http->calls.count == best->calls.count && is_up && best->link.state != SIMBA__LINK_UP))
            best = http;
    }
    if (simba__etcd_is_elsewhere(store, best))
        simba__http_leave(best);
    return best;
}

static void deliver(etcd_op *op, etcd_answer *answer)
{
    op->calls = false;
    answer->unsure = op->unsure;
    op->answered(op, answer);
}

static void deliver_failure(etcd_op *op, int code, const char *text)
{
    etcd_answer answer = {.code = code, .fault = {.code = -1}};
    snprintf(answer.fault.text, sizeof answer.fault.text, "%s", text);
    deliver(op, &answer);
}

void simba__etcd_op_later(etcd_op *op, int64_t ms)
{
    etcd_calls *calls = &op->store->calls;
    simba_host *host = op->store->host;
    const simba_local at = {host->now(host).ns + ms * SIMBA__NS_PER_MS};
    if (!op->later.list || at.ns < op->later_at.ns)
        op->later_at = at;
    simba__list_append(&calls->later, &op->later);
    if (calls->timer.index == 0 || at.ns < calls->timer.at.ns)
        host->timer_set(host, &calls->timer, at);
}

/* The call is made then, or when there is a token. */
static void park_for(etcd_op *op, int64_t ms)
{
    simba__list_append(&op->store->calls.parked, &op->parked);
    simba__etcd_op_later(op, ms);
}

static void send_call(etcd_op *op)
{
    etcd_store *store = op->store;
    if (op != store->calls.login && !simba__etcd_is_logged_in(store)) {
        park_for(op, LOG_IN_PAUSE_MS);
        return;
    }
    const char *const headers[] = {"Content-Type", "application/json", store->calls.token ? "Authorization" : NULL,
                                   store->calls.token, NULL};
    op->by = op->http ? op->http : choose(store);
    op->token_no = store->calls.token_no;
    op->call.silence_ns = simba__etcd_patience_ns(store);
    if (op->body.failed ||
        simba__http_send(op->by, &op->call, "POST", op->path, op == store->calls.login ? NULL : headers, op->body.data,
                         op->body.length) < 0)
        park_for(op, PAUSE_MS);
}

void simba__etcd_call(etcd_op *op, const char *path, etcd_answered *answered)
{
    SIMBA__ASSERT(!op->calls);
    op->path = path;
    op->answered = answered;
    op->calls = true;
    op->unsure = false;
    op->tries = op->log_ins = 0;
    send_call(op);
}

void simba__etcd_call_drop(etcd_op *op)
{
    simba__list_remove(&op->parked);
    simba__http_cancel(&op->call);
    op->calls = false;
}

/* A parked call is made, or fails. */
static void unpark(etcd_op *op, int code, const char *why)
{
    simba__list_remove(&op->parked);
    if (code)
        deliver_failure(op, code, why);
    else if (op->body.failed)
        deliver_failure(op, SIMBA_ENOMEM, "out of memory");
    else
        send_call(op);
}

static void unpark_all(etcd_store *store, int code, const char *why)
{
    simba__list all = {0};
    while (store->calls.parked.first)
        simba__list_append(&all, store->calls.parked.first);
    while (all.first)
        unpark(SIMBA__OF_ITEM(all.first, etcd_op, parked), code, why);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    etcd_store *store = (etcd_store *)(void *)((char *)timer - offsetof(etcd_store, calls.timer));
    simba__list due = {0};
    int64_t at = INT64_MAX;
    for (simba__list_item *item = store->calls.later.first, *next; item; item = next) {
        const int64_t ns = SIMBA__OF_ITEM(item, etcd_op, later)->later_at.ns;
        next = item->next;
        if (ns <= now.ns)
            simba__list_append(&due, item);
        else
            at = simba__min64(at, ns);
    }
    if (at != INT64_MAX)
        store->host->timer_set(store->host, timer, (simba_local){at});
    while (due.first) {
        etcd_op *op = SIMBA__OF_ITEM(due.first, etcd_op, later);
        simba__list_remove(&op->later);
        if (op->parked.list)
            unpark(op, 0, NULL);
        else if (op->woken)
            op->woken(op);
    }
}

/* Try again, at another server if there is one. False: enough were tried. */
static bool try_again(etcd_op *op, bool at_once)
{
    etcd_store *store = op->store;
    if (op->expired && !op->stays)
        return false;
    if (op->tries++ > store->calls.resolver.count)
        return false;
    if (at_once)
        send_call(op);
    else
        park_for(op, PAUSE_MS);
    return true;
}

/* --- answers ------------------------------------------------------------------------------------------------ */

/* What to tell the client. Codes that are not here mean that nobody knows whether etcd has carried the request out, or will. */
static int code_of(const etcd_fault *fault)
{
    switch (fault->code) {
    case ETCD_DENIED:
    case ETCD_UNAUTHENTICATED:
        return SIMBA_EPERM;
    case ETCD_INVALID:
    case ETCD_NOT_FOUND:
    case ETCD_PRECONDITION:
    case ETCD_OUT_OF_RANGE:
    case ETCD_UNIMPLEMENTED:
        return SIMBA_ESTORE;
    case ETCD_EXHAUSTED:
        return strstr(fault->text, "space") ? SIMBA_ESTORE : SIMBA_EUNAVAILABLE;
    default:
        return SIMBA_EUNAVAILABLE;
    }
}

/* A server that answers so does not work, or is none: nobody knows what it has done, and the next one may do better. */
static bool is_sick(const etcd_answer *answer)
{
    return answer->code == SIMBA_EUNAVAILABLE || answer->fault.code < 0;
}

static void on_refusal(etcd_op *op, const simba__http_head *head, etcd_answer *answer)
{
    etcd_store *store = op->store;
    const unsigned token_no = store->calls.token_no;
    simba__etcd_read_fault(answer->json, &answer->fault);
    answer->code = head->status >= 500 || answer->fault.code >= 0 ? code_of(&answer->fault) : SIMBA_ESTORE;
    if (op != store->calls.login && simba__etcd_refuses_token(store, head->status, &answer->fault, op->token_no) &&
        (op->token_no != token_no || op->log_ins++ < LOG_INS_MOST)) {
        send_call(op);
        return;
    }
    if (answer->code == SIMBA_ESTORE && answer->fault.code < 0)
        snprintf(answer->fault.text, sizeof answer->fault.text, "%s",
                 head->status == 404 ? "there is no JSON gateway at this port; simba needs etcd 3.4 or later with it"
                                     : "the server's answer makes no sense; is it an etcd?");
    if (is_sick(answer)) {
        op->unsure = true;
        simba__etcd_turn_from(store, op->by);
        if (try_again(op, false))
            return;
    }
    deliver(op, answer);
}

static void on_done(simba__http_call *call, const simba__http_answer *got, const simba_error *error)
{
    etcd_op *op = of(call);
    etcd_answer answer = {0};
    if (!got) {
        op->unsure |= call->sent;
        if (!try_again(op, true))
            deliver_failure(op, error->code, op->store->calls.cause[0] ? op->store->calls.cause : error->text);
        return;
    }
    const bool is_json = simba__json_read(got->body, got->length, &answer.json);
    if (!is_json || got->head.status != 200 || simba__json_get(answer.json, "error").at) {
        on_refusal(op, &got->head, &answer);
        return;
    }
    op->store->calls.failures = 0;
    answer.date_s = got->head.date_s;
    deliver(op, &answer);
}

/* --- log-in ------------------------------------------------------------------------------------------------- */

static void on_logged_in(etcd_op *op, const etcd_answer *answer)
{
    etcd_store *store = op->store;
    simba_host *host = store->host;
    char token[1024];
    char why[160];
    int code = answer->code;
    snprintf(why, sizeof why, "%s", answer->fault.text);
    if (code == SIMBA_ESTORE && answer->fault.code == ETCD_PRECONDITION) {
        host->log(host, SIMBA_LOG_WARN, "etcd %s: the URL names a user, and %s", store->options.where, why);
        store->calls.no_auth = true;
        code = 0;
    } else if (code == 0 && simba__json_text(simba__json_get(answer->json, "token"), token, sizeof token) && token[0]) {
        store->calls.token = simba__strdup(token);
        code = store->calls.token ? 0 : SIMBA_ENOMEM;
    } else if (code == SIMBA_ESTORE && answer->fault.code == ETCD_INVALID) {
        code = SIMBA_EPERM;
    } else if (code == 0) {
        code = SIMBA_ESTORE;
        snprintf(why, sizeof why, "the log-in has no token");
    }
    explicit_bzero(token, sizeof token);
    store->calls.login = NULL;
    if (code) /* each costs the server a slow hash */
        store->calls.login_at = (simba_local){host->now(host).ns + LOG_IN_PAUSE_MS * SIMBA__NS_PER_MS};
    simba__etcd_op_end(op);
    unpark_all(store, code, why);
    simba__etcd_stream_flush(store);
}

bool simba__etcd_is_logged_in(etcd_store *store)
{
    etcd_calls *calls = &store->calls;
    const simba_local now = store->host->now(store->host);
    if (!store->options.user || calls->token || calls->no_auth)
        return true;
    if (calls->login)
        return false;
    if (now.ns >= calls->login_at.ns)
        calls->login = simba__etcd_op_new(store, sizeof *calls->login, NULL);
    if (!calls->login)
        return false; /* whoever wants it asks again */
    calls->login->stays = true;
    simba__json_put(&calls->login->body, "{'name':%s,'password':%s}", store->options.user, store->options.password);
    simba__etcd_call(calls->login, "/v3/auth/authenticate", on_logged_in);
    return false;
}

static void forget_token(etcd_calls *calls)
{
    if (calls->token)
        explicit_bzero(calls->token, strlen(calls->token));
    simba__free(calls->token);
    calls->token = NULL;
}

bool simba__etcd_refuses_token(etcd_store *store, int status, const etcd_fault *fault, unsigned token_no)
{
    etcd_calls *calls = &store->calls;
    /* 3.4 gives some of these errors the codes of others. "user name is empty": auth was turned on since. */
    if (!store->options.user ||
        (status != 401 && fault->code != ETCD_UNAUTHENTICATED && !strstr(fault->text, "invalid auth token") &&
         !strstr(fault->text, "revision of auth store") && !strstr(fault->text, "user name is empty")))
        return false;
    if (token_no == calls->token_no) {
        forget_token(calls);
        calls->no_auth = false;
        calls->token_no++;
    }
    return true;
}

/* --- ends --------------------------------------------------------------------------------------------------- */

/* A call that was sent keeps its request until the server has answered, or has been silent for too long. */
void simba__etcd_expire(void *instance, simba_request *request)
{
    etcd_store *store = instance;
    etcd_op *op = request->backend_data;
    SIMBA__ASSERT(op->request == request);
    op->expired = true;
    if (op->calls && !op->parked.list && op->call.sent)
        return;
    simba__etcd_fail(op, store->calls.failures > 0 ? SIMBA_EUNAVAILABLE : SIMBA_ETIMEDOUT, "%s%s",
                     store->calls.failures > 0 ? "not connected: " : "no answer in time",
                     store->calls.failures > 0 ? store->calls.cause : "");
    if (!op->stays)
        simba__etcd_op_end(op);
}

int simba__etcd_calls_init(etcd_store *store, simba__tls_context *tls)
{
    etcd_calls *calls = &store->calls;
    simba_host *host = store->host;
    calls->links =
        (simba__links){.host = host, .kind = "etcd", .tls = tls, .hello = SIMBA__HTTP_HELLO, .looked_up = looked_up};
    calls->resolver = (simba__resolver){
        .host = host, .hosts = store->options.hosts, .host_count = store->options.host_count, .resolved = resolved};
    calls->timer.fire = on_timer;
    for (size_t i = 0; i < ETCD_CONNECTIONS; i++)
        if (simba__http_init(&calls->https[i], &calls->links, &simba__etcd_events, store,
                             simba__etcd_patience_ns(store)) < 0)
            return SIMBA_ENOMEM;
    return host->timer_add(host, &calls->timer);
}

void simba__etcd_calls_end(etcd_store *store)
{
    while (store->calls.ops.first) {
        etcd_op *op = SIMBA__OF_ITEM(store->calls.ops.first, etcd_op, item);
        if (op->request)
            store->host->fail(store->host, op->request, SIMBA_ECLOSED, "etcd: the store closes");
        op->request = NULL;
        simba__etcd_op_end(op);
    }
    store->calls.login = NULL;
}

void simba__etcd_calls_close(etcd_store *store)
{
    simba_host *host = store->host;
    simba__etcd_calls_end(store);
    host->timer_clear(host, &store->calls.timer);
    for (size_t i = 0; i < ETCD_CONNECTIONS; i++)
        simba__http_close(&store->calls.https[i]);
    simba__http_close(&store->session.http);
    simba__resolver_give_up(&store->calls.resolver);
    store->closing = true;
    if (!store->calls.resolver.at_work)
        host->closed(host);
}

void simba__etcd_calls_fini(etcd_store *store)
{
    forget_token(&store->calls);
    for (size_t i = 0; i < ETCD_CONNECTIONS; i++)
        if (store->calls.https[i].owner)
            simba__http_fini(&store->calls.https[i]);
    if (store->session.http.owner)
        simba__http_fini(&store->session.http);
    simba__tls_context_free(store->calls.links.tls);
}
