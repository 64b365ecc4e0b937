/* A server's connection for requests.
 *
 * A flush sends all calls that were submitted, in one write; the client submits renewals first. The server answers in that
 * order, so the list of what was sent says whose an answer is. A call whose request has run out of time stays in the list until
 * its answer has come. The client hands over only so many requests at a time, so nothing stands in a queue here: what is
 * submitted while there is no connection goes out when it is up, or fails with it.
 *
 * While four calls or more are under way, the next ones are kept back until they are as many as those, or sixteen: so the calls of
 * many threads go out in few writes, and the server reads them together. Answers make the connection look again, and a renewal
 * takes all along. 64 threads do three times as much.
 *
 * A script goes out by its SHA-1. A server that does not know it (NOSCRIPT, after a restart) gets the same call once more with
 * the script's text, which also loads it.
 *
 * replicas=N: a grant, a renewal or a note counts once N replicas have it. A write that has any of them ends with WAIT, which
 * answers how many replicas have everything that was written on its connection before it. Meanwhile the server answers nothing else
 * on the connection, not even renewals: so a WAIT is short. The calls that it is about are HELD until then. If too few replicas
 * have confirmed, they fail as unavailable. The contender asks again under the same nonce, so that the same grant is confirmed
 * later; or it gives up, and its release ends the grant. Nothing else gives a grant back: that could free one that was
 * confirmed meanwhile.
 *
 * Silence: the connection is given up when the first call has had no answer for `timeout`; and at once when a renewal has run
 * out of time and nothing at all has come since it was sent. TCP repeats lost bytes after pauses that double: after an outage
 * the connection may stay stuck for as long as the outage took, and all renewals with it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

enum {
    WAIT_MS = 50,     /* how long a WAIT may take */
    HOPS_MOST = 7,    /* how often servers of a cluster may send a call on */
    GATHER_FROM = 4,  /* while fewer are unanswered, nothing waits to be sent with others */
    GATHER_MOST = 16, /* so many are sent in any case */
};

static redis_call *of_item(simba__list_item *item)
{
    return item ? SIMBA__OF_ITEM(item, redis_call, item) : NULL;
}

/* --- calls -------------------------------------------------------------------------------------------- */

redis_call *simba__redis_call_new(simba_request *request, void (*put)(redis_call *call, simba__buffer *out),
                                  void (*over)(redis_call *call, const redisReply *reply, const simba_error *error),
                                  void *user)
{
    redis_call *call = simba__malloc(sizeof *call);
    if (call)
        *call = (redis_call){.request = request, .put = put, .over = over, .user = user};
    return call;
}

/* Move it to another stage, and to the end of the list of that stage. */
static void move(redis_call *call, redis_stage to)
{
    static const bool allowed[][REDIS_HELD + 1] = {
        [REDIS_IN_HAND] = {[REDIS_WAITING] = true, [REDIS_SENT] = true, [REDIS_HELD] = true},
        [REDIS_WAITING] = {[REDIS_IN_HAND] = true, [REDIS_SENT] = true},
        [REDIS_SENT] = {[REDIS_IN_HAND] = true},
        [REDIS_HELD] = {[REDIS_IN_HAND] = true},
    };
    redis_node *node = call->node;
    simba__list *const lists[] = {NULL, &node->waiting, &node->sent, &node->held};
    SIMBA__ASSERT(allowed[call->stage][to]);
    simba__list_remove(&call->item);
    call->stage = to;
    if (lists[to])
        simba__list_append(lists[to], &call->item);
}

void simba__redis_call_submit(redis_node *node, redis_call *call)
{
    call->node = node;
    move(call, REDIS_WAITING);
}

void simba__redis_call_hold(redis_call *call)
{
    move(call, REDIS_HELD);
}

void simba__redis_call_free(redis_call *call)
{
    SIMBA__ASSERT(call->stage == REDIS_IN_HAND);
    simba__free(call);
}

void simba__redis_call_fail(redis_call *call, int code, const char *format, ...)
{
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    call->over(call, NULL, &error);
}

/* Fail all calls of a list. What they lead to may submit new ones, which stay. */
static void fail_all(simba__list *list, const simba_error *why)
{
    for (size_t count = list->count; count > 0 && list->first; count--) {
        redis_call *call = of_item(list->first);
        move(call, REDIS_IN_HAND);
        call->over(call, NULL, why);
    }
}

void simba__redis_call_expire(redis_call *call)
{
    redis_node *node = call->node;
    const simba_request *request = call->request;
    if (call->stage != REDIS_SENT) {
        move(call, REDIS_IN_HAND);
        simba__redis_call_fail(call, SIMBA_ETIMEDOUT, "redis %s: no answer in time", node->commands.link.at.where);
        return;
    }
    call->expired = true;
    if (request->op == SIMBA_OP_RENEW && call->answers == node->answers) {
        node->stuck = true; /* the timer gives it up: the caller is not prepared for other requests to fail now */
        node->store->host->timer_set(node->store->host, &node->commands.link.timer,
                                     node->store->host->now(node->store->host));
    }
    if (node->store->topology->lost)
        node->store->topology->lost(node);
}

/* --- sending ------------------------------------------------------------------------------------------ */

static void put_wait(redis_call *call, simba__buffer *out)
{
    char replicas[24];
    char ms[24];
    snprintf(replicas, sizeof replicas, "%ld", call->node->store->options.replicas);
    snprintf(ms, sizeof ms, "%d", WAIT_MS);
    simba__redis_put(out, 3, (const char *const[]){"WAIT", replicas, ms});
}

static void put_asking(redis_call *call, simba__buffer *out)
{
    (void)call;
    simba__redis_put(out, 1, (const char *const[]){"ASKING"});
}

static void send_call(redis_call *call, simba_local now)
{
    redis_node *node = call->node;
    simba__link *link = &node->commands.link;
    call->sent_at = now;
    call->answers = node->answers;
    if (!node->sent.first)
        link->host->timer_set(link->host, &link->timer, (simba_local){now.ns + node->store->options.timeout_ns});
    move(call, REDIS_SENT);
    call->put(call, &link->out);
}

/* WAIT or ASKING. Out of memory: then the connection is given up, with all that waits for the answer. */
static void send_own(redis_node *node, void (*put)(redis_call *call, simba__buffer *out), simba_local now)
{
    redis_call *call = simba__redis_call_new(NULL, put, NULL, NULL);
    if (!call) {
        node->commands.link.out.failed = true;
        return;
    }
    call->node = node;
    send_call(call, now);
}

static bool needs_replicas(const redis_call *call)
{
    const simba_request *request = call->request;
    return request &&
           (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW || request->op == SIMBA_OP_WRITE_NOTE);
}

static void send_waiting(redis_node *node)
{
    const simba_local now = node->store->host->now(node->store->host);
    bool waits = false;
    while (node->waiting.first) {
        redis_call *call = of_item(node->waiting.first);
        waits |= needs_replicas(call);
        if (call->asking)
            send_own(node, put_asking, now); /* an error of it is one of the next command, too */
        send_call(call, now);
    }
    if (waits && node->store->options.replicas > 0)
        send_own(node, put_wait, now);
}

static bool renews(const redis_node *node)
{
    for (simba__list_item *item = node->waiting.first; item; item = item->next) {
        const simba_request *request = of_item(item)->request;
        if (request && request->op == SIMBA_OP_RENEW)
            return true;
    }
    return false;
}

static bool gathers(const redis_node *node)
{
    const size_t sent = node->sent.count;
    const size_t enough = sent < GATHER_FROM ? 0 : sent < GATHER_MOST ? sent : GATHER_MOST;
    return node->waiting.count < enough && !renews(node);
}

void simba__redis_node_flush(redis_node *node)
{
    simba__link *link = &node->commands.link;
    if (link->state == SIMBA__LINK_CLOSED && node->waiting.first)
        simba__link_open(link);
    if ((link->state == SIMBA__LINK_CONNECTING || link->state == SIMBA__LINK_WAITING) && renews(node))
        simba__link_hurry(link);
    if (link->state == SIMBA__LINK_WAITING) {
        const simba_error why = link->error;
        fail_all(&node->waiting, &why);
    }
    if (simba__redis_conn_ready(&node->commands) && !node->stuck && !gathers(node))
        send_waiting(node);
    simba__link_flush(link);
}

/* --- answers ------------------------------------------------------------------------------------------ */

static void take_wait(redis_node *node, const redisReply *reply)
{
    const simba__link *link = &node->commands.link;
    const long wanted = node->store->options.replicas;
    const bool enough = reply->type == REDIS_REPLY_INTEGER && reply->integer >= wanted;
    simba_error why;
    if (reply->type == REDIS_REPLY_INTEGER)
        simba__error_set(&why, SIMBA_EUNAVAILABLE, "redis %s: %lld of %ld replicas confirmed it", link->at.where,
                         reply->integer, wanted);
    else
        simba__error_set(&why, SIMBA_EUNAVAILABLE, "redis %s: replicas cannot be waited for: %.40s", link->at.where,
                         reply->type == REDIS_REPLY_ERROR ? reply->str : "an odd answer");
    if (enough && node->short_of_replicas)
        link->host->log(link->host, SIMBA_LOG_INFO, "redis %s: %ld replicas confirm grants again", link->at.where,
                        wanted);
    node->short_of_replicas = !enough;
    for (size_t count = node->held.count; count > 0; count--) {
        redis_call *call = of_item(node->held.first);
        move(call, REDIS_IN_HAND);
        call->over(call, NULL, enough ? NULL : &why);
    }
}

static bool begins_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}

/* MOVED or ASK: another server has the slot, for good or while it moves. */
static void send_on(redis_call *call, const char *text)
{
    redis_node *node = call->node;
    simba_host *host = node->store->host;
    const char *where = node->commands.link.at.where;
    call->hops++;
    call->by_text = false;
    call->asking = begins_with(text, "ASK ");
    host->wake(host); /* to send it */
    if (call->hops > HOPS_MOST)
        simba__redis_call_fail(call, SIMBA_EUNAVAILABLE,
                               "redis %s: sent from one server of the cluster to the other: %.80s", where, text);
    else if (!node->store->topology->redirect(call, text))
        simba__redis_call_fail(call, SIMBA_ESTORE, "redis %s: %.80s", where, text);
}

static void take_error(redis_call *call, const char *text)
{
    redis_node *node = call->node;
    simba__link *link = &node->commands.link;
    const unsigned life = link->life;
    const bool cluster = node->store->options.kind == REDIS_CLUSTER;
    const bool elsewhere = cluster && (begins_with(text, "MOVED ") || begins_with(text, "ASK "));
    const bool unknown = call->request && begins_with(text, "NOSCRIPT") && !call->by_text;
    simba_error error;
    bool drop = false;
    if (call->expired && (elsewhere || unknown)) {
        /* It was not carried out, and nobody wants it any more. */
        simba__redis_call_fail(call, SIMBA_ETIMEDOUT, "redis %s: no answer in time", link->at.where);
    } else if (elsewhere) {
        send_on(call, text);
    } else if (unknown) {
        call->by_text = true;
        simba__redis_call_submit(node, call);
        link->host->wake(link->host);
    } else {
        simba__redis_error(&link->at, text, &error, &drop);
        call->over(call, NULL, &error);
        if (cluster && begins_with(text, "CLUSTERDOWN"))
            node->store->topology->lost(node);
    }
    if (drop && link->life == life)
        simba__link_fail(link, error.code, "%s", error.text);
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_node *node = conn->owner;
    redis_call *call = of_item(node->sent.first);
    node->answers++;
    if (!call && reply->type == REDIS_REPLY_ERROR) {
        simba__redis_conn_refused(conn, reply->str);
    } else if (!call) {
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: an answer that nobody asked for",
                         conn->link.at.where);
    } else if (call->over) {
        move(call, REDIS_IN_HAND);
        if (reply->type == REDIS_REPLY_ERROR)
            take_error(call, reply->str);
        else
            call->over(call, reply, NULL);
    } else {
        const bool is_wait = call->put == put_wait;
        move(call, REDIS_IN_HAND);
        simba__redis_call_free(call);
        if (is_wait)
            take_wait(node, reply);
    }
    if (node->waiting.first && !gathers(node))
        node->store->host->wake(node->store->host);
}

/* --- the fate of the connection ----------------------------------------------------------------------- */

static void on_up(redis_conn *conn)
{
    redis_node *node = conn->owner;
    redis_store *store = node->store;
    node->young[0] = '\0';
    if (conn->uninformed && store->options.restart_wait && !store->said_uninformed) {
        store->said_uninformed = true;
        store->host->log(store->host, SIMBA_LOG_WARN,
                         "redis %s: this user may not ask how long the server runs (INFO), so a server that has just "
                         "restarted is not waited for; permit +info, or say ?restart-wait=no",
                         conn->link.at.where);
    }
    send_waiting(node);
}

/* A call of ours without an owner is just forgotten. */
static void drop_own(simba__list *list)
{
    for (simba__list_item *item = list->first, *next; item; item = next) {
        redis_call *call = of_item(item);
        next = item->next;
        if (call->over)
            continue;
        move(call, REDIS_IN_HAND);
        simba__redis_call_free(call);
    }
}

static void fail_calls(redis_node *node, const simba_error *why)
{
    node->stuck = false;
    drop_own(&node->sent);
    fail_all(&node->sent, why);
    fail_all(&node->held, why);
    fail_all(&node->waiting, why);
}

static void on_down(redis_conn *conn)
{
    redis_node *node = conn->owner;
    const simba_error why = conn->link.error;
    if (conn->link.failures == 1)
        conn->link.host->log(conn->link.host, SIMBA_LOG_DEBUG, "%s", why.text); /* callers get it, too */
    fail_calls(node, &why);
    if (node->store->topology->lost)
        node->store->topology->lost(node);
}

static void on_tick(redis_conn *conn, simba_local now)
{
    redis_node *node = conn->owner;
    simba__link *link = &conn->link;
    const redis_call *first = of_item(node->sent.first);
    const int64_t timeout_ns = node->store->options.timeout_ns;
    if (node->stuck)
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: no answer in time, so connecting anew", link->at.where);
    else if (first && now.ns - first->sent_at.ns >= timeout_ns)
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: no answer for %lld ms", link->at.where,
                         (long long)(timeout_ns / SIMBA__NS_PER_MS));
    else if (first)
        link->host->timer_set(link->host, &link->timer, (simba_local){first->sent_at.ns + timeout_ns});
}

static const redis_conn_events command_events = {.up = on_up, .answer = on_answer, .down = on_down, .tick = on_tick};

/* --- nodes -------------------------------------------------------------------------------------------- */

redis_node *simba__redis_node_new(redis_store *store, const simba__endpoint *at)
{
    redis_node *node = simba__calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->store = store;
    int rc = simba__redis_conn_init(&node->commands, &store->conns, &command_events, node);
    if (rc == 0)
        rc = simba__redis_conn_init(&node->pushes, &store->conns, &simba__redis_push_events, node);
    if (rc < 0) {
        simba__free(node);
        return NULL;
    }
    /* A cluster's version says how to publish. Some proxies hang up over a question that they do not know. */
    node->pushes.informs = store->options.kind == REDIS_CLUSTER;
    node->commands.informs = store->options.restart_wait || node->pushes.informs;
    node->pushes.listens = true;
    node->commands.link.at = node->pushes.link.at = *at;
    node->next = store->first;
    store->first = node;
    return node;
}

/* Not by our own clock, which goes on while this machine sleeps. */
int64_t simba__redis_node_young(const redis_node *node, int64_t lease_ms)
{
    const redis_conn *conn = &node->commands;
    if (!node->store->options.restart_wait || conn->uninformed)
        return 0;
    const int64_t until_ms = conn->time_ms - conn->uptime_s * 1000 + 1000 + lease_ms;
    return until_ms > conn->time_ms ? until_ms : 0;
}

void simba__redis_node_close(redis_node *node, const simba_error *why)
{
    simba__redis_conn_close(&node->commands);
    simba__redis_conn_close(&node->pushes);
    node->commands.link.error = *why;
    fail_calls(node, why);
}

bool simba__redis_node_idle(const redis_node *node)
{
    return !node->sent.first && !node->waiting.first && !node->held.first;
}

void simba__redis_node_free(redis_node *node)
{
    simba__redis_conn_fini(&node->commands);
    simba__redis_conn_fini(&node->pushes);
    simba__free(node);
}
