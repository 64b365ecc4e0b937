/* The client's one lease, and the connection that keeps it alive.
 *
 * The client chooses the lease's ID, so a grant whose answer was lost is asked for again. liveness.h says what to ask next and what
 * an answer proves; host->session tells holders for how long they may hold. When etcd says that the lease is dead, the session
 * has ended: all contenders go, and the next lease has another ID. Until etcd says so, nobody knows, and the client's clock counts.
 *
 * The answer to a put may be lost, and etcd may carry the put out after its contender has gone: a kernel goes on sending for a closed
 * connection for more than a minute. The lease would keep such a key for
 * ever. So for a while after a lost answer each keep-alive is followed by a look at the keys of the lease. */
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/clock.h"

#define MS SIMBA__NS_PER_MS

enum { PAUSE_MS = 50, REFUSED_MS = 1000, CLOSE_MS = 1000, DOUBT_MS = 120000 };

static void step(etcd_store *store);

static void set_timer(etcd_store *store)
{
    const simba_local next = simba__etcd_live_next(&store->session.live);
    if (next.ns != INT64_MAX)
        store->host->timer_set(store->host, &store->session.timer, next);
}

/* Lease IDs are numbers above 0. */
static void begin(etcd_store *store)
{
    etcd_session *session = &store->session;
    simba_host *host = store->host;
    session->lease = (int64_t)(host->random(host) >> 1 | 1);
    session->leased = false;
    session->doubts = (simba_local){0};
    simba__etcd_live_begin(&session->live, store->options.session_ms, host->now(host));
}

void simba__etcd_session_end(etcd_store *store)
{
    etcd_session *session = &store->session;
    simba_host *host = store->host;
    const bool was = session->leased;
    if (session->sweep)
        simba__etcd_op_end(session->sweep);
    session->sweep = NULL;
    simba__etcd_call_drop(session->op);
    begin(store);
    if (was) {
        session->anew = true;
        host->log(host, SIMBA_LOG_INFO, "etcd %s: the lease has ended", store->options.where);
        simba__etcd_contenders_drop(store);
        host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_LOST});
    }
    set_timer(store);
}

/* The lease lives. */
static void proven(etcd_store *store)
{
    etcd_session *session = &store->session;
    simba_host *host = store->host;
    host->session(host, session->live.proven, session->live.ttl_ms);
    if (session->leased)
        return;
    session->leased = true;
    if (session->live.ttl_ms < store->options.session_ms)
        host->log(host, SIMBA_LOG_WARN, "etcd %s: the server grants a lease of %lld ms, not %lld", store->options.where,
                  (long long)session->live.ttl_ms, (long long)store->options.session_ms);
    simba__etcd_contenders_leased(store);
    if (session->anew)
        host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_BACK});
    session->anew = false;
}

/* --- keys that nobody knows --------------------------------------------------------------------------------- */

static void on_keys(etcd_op *op, const etcd_answer *answer);

static void read_keys(etcd_op *op)
{
    op->body.length = 0;
    simba__json_put(&op->body, "{'ID':'%lld','keys':true}", (long long)op->store->session.lease);
    simba__etcd_call(op, "/v3/lease/timetolive", on_keys);
}

static void end_sweep(etcd_op *op)
{
    op->store->session.sweep = NULL;
    simba__etcd_op_end(op);
}

static void on_swept(etcd_op *op, const etcd_answer *answer)
{
    if (answer->code == 0)
        read_keys(op); /* there may be more */
    else
        end_sweep(op);
}

/* Meanwhile a contender may put the same key, and lead by it; and this deletion may come late itself. So it only deletes what is as old
 * as the list of keys. */
static void on_keys(etcd_op *op, const etcd_answer *answer)
{
    etcd_store *store = op->store;
    const simba__json keys = simba__json_get(answer->json, "keys");
    char key[ETCD_KEY_MAX + 1];
    size_t length;
    uint64_t revision, term;
    bool found = false;
    for (simba__json element = {0}; answer->code == 0 && !found && simba__json_next(keys, &element);)
        found = simba__json_base64(element, key, sizeof key, &length) && strlen(key) == length &&
                !simba__etcd_is_ours(store, key);
    if (!found || !simba__etcd_read_header(answer->json, &revision, &term)) {
        end_sweep(op);
        return;
    }
    store->host->log(store->host, SIMBA_LOG_INFO, "etcd %s: removing %s, which was put after its contender had gone",
                     store->options.where, key);
    op->body.length = 0;
    simba__etcd_put_delete(&op->body, key, "LESS", revision + 1);
    simba__etcd_call(op, "/v3/kv/txn", on_swept);
}

static void sweep(etcd_store *store)
{
    etcd_session *session = &store->session;
    if (session->sweep || store->host->now(store->host).ns >= session->doubts.ns)
        return;
    session->sweep = simba__etcd_op_new(store, sizeof *session->sweep, NULL);
    if (!session->sweep)
        return;
    session->sweep->stays = true;
    read_keys(session->sweep);
}

void simba__etcd_session_doubt(etcd_store *store)
{
    etcd_session *session = &store->session;
    session->doubts.ns = store->host->now(store->host).ns + (2 * session->live.ttl_ms + DOUBT_MS) * MS;
}

/* --- questions ---------------------------------------------------------------------------------------------- */

/* An attempt at all servers was in vain. */
static void unanswered(etcd_store *store, int code, const char *why)
{
    etcd_session *session = &store->session;
    simba_host *host = store->host;
    const int64_t pause_ms = code == SIMBA_EPERM ? REFUSED_MS : PAUSE_MS;
    if (code == SIMBA_EPERM)
        host->log(host, SIMBA_LOG_WARN, "etcd %s: the lease cannot be kept alive: %s", store->options.where, why);
    simba__etcd_live_unanswered(&session->live, (simba_local){host->now(host).ns + pause_ms * MS});
    set_timer(store);
    simba__etcd_contenders_unavailable(store, code, why);
}

static void on_granted(etcd_op *op, const etcd_answer *answer)
{
    etcd_store *store = op->store;
    etcd_session *session = &store->session;
    const simba_local now = store->host->now(store->host);
    int64_t id = 0;
    int64_t ttl = 0;
    if (answer->fault.code == ETCD_PRECONDITION && strstr(answer->fault.text, "already exists")) {
        simba__etcd_live_granted(&session->live, 0, now);
    } else if (answer->code) {
        unanswered(store, answer->code, answer->fault.text);
        return;
    } else if (!simba__json_int(simba__json_get(answer->json, "ID"), &id) || id != session->lease ||
               !simba__json_int(simba__json_get(answer->json, "TTL"), &ttl) || ttl < 1 ||
               ttl > ETCD_TTL_MAX_MS / 1000) {
        unanswered(store, SIMBA_ESTORE, "the server's answer makes no sense; is it an etcd?");
        return;
    } else {
        simba__etcd_live_granted(&session->live, ttl * 1000, now);
        proven(store);
    }
    step(store);
}

/* No TTL: there is no such lease. */
static void on_alive(etcd_op *op, const etcd_answer *answer)
{
    etcd_store *store = op->store;
    etcd_session *session = &store->session;
    const simba__json result = simba__json_get(answer->json, "result");
    uint64_t revision, term;
    int64_t ttl = 0;
    if (answer->code) {
        unanswered(store, answer->code, answer->fault.text);
        return;
    }
    if (!simba__etcd_read_header(result, &revision, &term) || !simba__json_int(simba__json_get(result, "TTL"), &ttl) ||
        ttl > ETCD_TTL_MAX_MS / 1000) {
        unanswered(store, SIMBA_ESTORE, "the server's answer makes no sense; is it an etcd?");
        return;
    }
    if (ttl <= 0) {
        simba__etcd_session_end(store);
        return;
    }
    simba__etcd_live_alive(&session->live, ttl * 1000, term, store->host->now(store->host));
    simba__etcd_contenders_removed(store);
    step(store);
}

static void on_term(etcd_op *op, const etcd_answer *answer)
{
    etcd_store *store = op->store;
    uint64_t revision, term;
    if (answer->code) {
        unanswered(store, answer->code, answer->fault.text);
        return;
    }
    if (!simba__etcd_read_header(answer->json, &revision, &term)) {
        unanswered(store, SIMBA_ESTORE, "the server's answer makes no sense; is it an etcd?");
        return;
    }
    if (simba__etcd_live_term(&store->session.live, term, store->host->now(store->host)))
        proven(store);
    sweep(store);
    step(store);
}

static void step(etcd_store *store)
{
    etcd_session *session = &store->session;
    etcd_op *op = session->op;
    simba_host *host = store->host;
    const simba_local now = host->now(host);
    const etcd_question question = session->lease ? simba__etcd_live_due(&session->live, now) : ETCD_ASK_NOTHING;
    char key[ETCD_FOLDER_MAX + 1];
    if (question == ETCD_ASK_NOTHING) {
        if (session->lease)
            set_timer(store);
        return;
    }
    simba__etcd_live_asked(&session->live, question, now);
    op->body.length = 0;
    op->body.failed = false;
    switch (question) {
    case ETCD_ASK_NOTHING:
        break;
    case ETCD_ASK_GRANT:
        simba__json_put(&op->body, "{'TTL':'%lld','ID':'%lld'}", (long long)(store->options.session_ms / 1000),
                        (long long)session->lease);
        simba__etcd_call(op, "/v3/lease/grant", on_granted);
        break;
    case ETCD_ASK_ALIVE:
        simba__json_put(&op->body, "{'ID':'%lld'}", (long long)session->lease);
        simba__etcd_call(op, "/v3/lease/keepalive", on_alive);
        break;
    case ETCD_ASK_TERM: /* no note has this key, and who may write notes may read it */
        snprintf(key, sizeof key, "simba-notes/%s", store->options.prefix);
        simba__json_put(&op->body, "{");
        simba__etcd_put_key(&op->body, key);
        simba__json_put(&op->body, ",'count_only':true}");
        simba__etcd_call(op, "/v3/kv/range", on_term);
        break;
    }
}

void simba__etcd_session_want(etcd_store *store)
{
    if (store->session.lease)
        return;
    begin(store);
    store->host->timer_set(store->host, &store->session.timer, store->session.live.next_at);
}

void simba__etcd_session_ask(etcd_store *store)
{
    simba_host *host = store->host;
    simba__etcd_live_hurry(&store->session.live, host->now(host));
    set_timer(store);
}

/* --- its end ------------------------------------------------------------------------------------------------ */

static void on_revoked(etcd_op *op, const etcd_answer *answer)
{
    etcd_store *store = op->store;
    (void)answer;
    store->host->timer_clear(store->host, &store->session.timer);
    simba__etcd_calls_close(store);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    etcd_store *store = (etcd_store *)(void *)((char *)timer - offsetof(etcd_store, session.timer));
    (void)now;
    if (store->session.closing)
        simba__etcd_calls_close(store); /* etcd does not answer: the lease ends by itself */
    else
        step(store);
}

void simba__etcd_session_close(void *instance)
{
    etcd_store *store = instance;
    etcd_session *session = &store->session;
    simba_host *host = store->host;
    const bool leased = session->live.has_lease;
    session->closing = true;
    simba__etcd_stream_close(store);
    simba__etcd_calls_end(store);
    session->op = session->sweep = NULL;
    host->timer_clear(host, &session->timer);
    etcd_op *op = leased ? simba__etcd_op_new(store, sizeof *op, NULL) : NULL;
    if (!op) {
        simba__etcd_calls_close(store);
        return;
    }
    op->stays = true;
    simba__json_put(&op->body, "{'ID':'%lld'}", (long long)session->lease);
    host->timer_set(host, &session->timer, (simba_local){host->now(host).ns + CLOSE_MS * MS});
    simba__etcd_call(op, "/v3/lease/revoke", on_revoked);
}

int simba__etcd_session_init(etcd_store *store)
{
    etcd_session *session = &store->session;
    simba_host *host = store->host;
    session->timer.fire = on_timer;
    session->live.ttl_ms = store->options.session_ms;
    session->op = simba__etcd_op_new(store, sizeof *session->op, NULL);
    if (!session->op)
        return SIMBA_ENOMEM;
    session->op->stays = true;
    session->op->http = &session->http;
    const int rc = simba__http_init(&session->http, &store->calls.links, &simba__etcd_events, store,
                                    simba__etcd_patience_ns(store));
    return rc < 0 ? rc : host->timer_add(host, &session->timer);
}
