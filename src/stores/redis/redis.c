/* redis:// and the other Redis schemes: a store of leases in a Redis server, shared with Simba on the JVM.
 *
 * What is stored for a mutex M. The braces are Redis Cluster's rule for keys that belong together: it hashes the text between
 * the first "{" and the first "}" after it. A "}" inside M only shortens that text, the same way for all keys; only a name that
 * begins with "}" has no such text, and a cluster refuses it.
 *
 *   simba:{M}            string  shared with the JVM: the owner's id; ends with the lease
 *   simba:{M}:contender  zset    shared: who waits, by the second at which they began to. Our scores have a fraction
 *   simba:{M}:grant      hash    ours, ends 32 days after the lock: token, nonce ('' after a release), id, transition; revoked (a
 *                                token); next, next_until (who was invited, and until when nobody else may take it); standby_until
 *   simba:{M}:note       hash    ours: token, number, at, bytes
 *
 * A request is one script (lua/NAME.lua says its keys, arguments and answers), because Redis runs one at a time:
 *
 *   ACQUIRE        acquire   takes a mutex that is free, or for whose invited waiter nobody need wait any longer; else it enters
 *                            the queue, if the contender hears of its invitation
 *   RENEW          renew     moves the ends of the lock and of the grant
 *   RELEASE        release   deletes the lock, and invites the first waiter that hears
 *   FORCE_RELEASE  force     the same, and tells the owner
 *   READ           read      the owner, the queue and the note; also READ_NOTE, and a row of a LIST
 *   WRITE_NOTE     note      under the live grant, unless a later write came before
 *   FORGET         forget    deletes the grant and the note; tokens come from the clock, and so go on
 *   PREPARE        upgrade   brings what an earlier simba stored into this form; this one refuses it (WRONGTYPE), and so does that
 *
 * Who wakes whom:
 *
 *   simba:{M}:ID     "released@@OWNER": ID is invited, and nobody else may take the mutex for 100 ms. Shared with the JVM.
 *                    "standby@@NEXT", to ours alone: ask when those are over, should NEXT not come.
 *   simba:{M}        "acquired@@ID", shared: for observers
 *   simba:{M}@@      "released", "noted": ours, for observers
 *   simba:@@revoked  "revoked NONCE M": ours, for whoever holds any mutex
 *
 * No wake-up is lost: a contender that was refused first subscribes to its channel, and asks again when that is confirmed. Only
 * then does it queue, in the script that finds the mutex taken. If the mutex was freed before, it is granted; if later, the
 * invitation is heard. A waiter that hears but does not act delays the others by 100 ms, since one of ours stands by. A JVM
 * contender tells only the first in the queue of its release, and that one may be dead: so while it has the mutex, waiters and
 * observers look at it four times a second. Messages are only reasons to ask: anybody can publish.
 *
 * In a cluster of version 7.0 or later our messages are published by shard (SPUBLISH), which reach the servers of the slot alone;
 * PUBLISH is for JVM contenders, and for whom nobody heard by shard. All databases of a server share their channels: in
 * database 2 it is "released/2".
 *
 * A server that has just started may have forgotten leases. It grants nothing new until it has run for one lease of the
 * contender that asks, and a second, since its uptime is in whole seconds. Renewals, refusals and the queue go on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "stores/schemes.h"
#include "util/clock.h"
#include "util/digits.h"
#include "util/error.h"

#define KEPT_MS INT64_C(2764800000) /* how much longer than the lock a grant is kept: KEPT of the scripts */

/* --- what a request says ------------------------------------------------------------------------------ */

size_t simba__redis_keys(redis_script script, const char *mutex, char ret_keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE])
{
    static const char *const suffixes[REDIS_SCRIPTS][REDIS_KEYS_MOST] = {
        [REDIS_ACQUIRE] = {"", ":grant", ":contender"},
        [REDIS_RENEW] = {"", ":grant"},
        [REDIS_RELEASE] = {"", ":grant", ":contender"},
        [REDIS_FORCE] = {"", ":grant", ":contender"},
        [REDIS_READ] = {"", ":grant", ":contender", ":note"},
        [REDIS_NOTE] = {"", ":grant", ":note"},
        [REDIS_FORGET] = {"", ":grant", ":note"},
        [REDIS_UPGRADE] = {"", ":grant", ":note"},
    };
    const size_t length = strnlen(mutex, SIMBA_MUTEX_BYTES);
    size_t count = 0;
    for (; count < REDIS_KEYS_MOST && suffixes[script][count]; count++) {
        char *end = stpcpy(ret_keys[count], "simba:{");
        memcpy(end, mutex, length);
        strcpy(stpcpy(end + length, "}"), suffixes[script][count]);
    }
    return count;
}

void simba__redis_put_script(redis_call *call, simba__buffer *out, redis_script script, const char *mutex, size_t argc)
{
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
    const size_t count = simba__redis_keys(script, mutex, keys);
    const redis_script_text *text = &simba__redis_scripts[script];
    simba__redis_put_count(out, 3 + count + argc);
    simba__redis_put_word(out, call->by_text ? "EVAL" : "EVALSHA");
    simba__redis_put_word(out, call->by_text ? text->text : text->sha);
    simba__redis_put_bytes(out, &"01234"[count], 1);
    for (size_t i = 0; i < count; i++)
        simba__redis_put_word(out, keys[i]);
}

static void put_number(simba__buffer *out, uint64_t number)
{
    char text[SIMBA__DIGITS_SIZE];
    simba__redis_put_bytes(out, text, simba__digits(text, number, 1));
}

/* id and nonce; with a token, these three. */
static void put_who(simba__buffer *out, const simba_request *request, bool token)
{
    simba__redis_put_word(out, request->id);
    put_number(out, request->nonce);
    if (token)
        put_number(out, request->token);
}

static void put_lease(simba__buffer *out, const simba_request *request)
{
    const uint64_t lease_ms = (uint64_t)(request->ttl_ms + request->transition_ms);
    put_number(out, lease_ms);
    put_number(out, lease_ms + (uint64_t)KEPT_MS);
}

/* How to publish, and what goes behind our words in another database than 0. */
static const char *tell(const redis_node *node)
{
    const bool shards = node->store->options.kind == REDIS_CLUSTER && node->commands.has_shards;
    return shards ? "SPUBLISH" : "PUBLISH";
}

static void put_tell(simba__buffer *out, const redis_node *node)
{
    char db[24] = "";
    if (node->store->options.login.db != 0)
        snprintf(db, sizeof db, "/%ld", node->store->options.login.db);
    simba__redis_put_word(out, tell(node));
    simba__redis_put_word(out, db);
}

void simba__redis_put_request(redis_call *call, simba__buffer *out)
{
    redis_node *node = call->node;
    redis_store *store = node->store;
    const simba_request *request = call->request;
    const char *mutex = request->mutex;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        call->hears = request->queue ? simba__redis_hears(store, request) : '0';
        store->acquires = true;
        simba__redis_put_script(call, out, REDIS_ACQUIRE, mutex, 8);
        put_who(out, request, false);
        put_lease(out, request);
        put_number(out, (uint64_t)request->transition_ms);
        simba__redis_put_bytes(out, &call->hears, 1);
        put_number(out, (uint64_t)simba__redis_node_young(node, request->ttl_ms + request->transition_ms));
        simba__redis_put_word(out, tell(node));
        break;
    case SIMBA_OP_RENEW:
        simba__redis_put_script(call, out, REDIS_RENEW, mutex, 5);
        put_who(out, request, true);
        put_lease(out, request);
        break;
    case SIMBA_OP_RELEASE:
        simba__redis_put_script(call, out, REDIS_RELEASE, mutex, 6);
        put_who(out, request, true);
        put_number(out, simba__redis_left(store, request));
        put_tell(out, node);
        break;
    case SIMBA_OP_FORCE_RELEASE:
        simba__redis_put_script(call, out, REDIS_FORCE, mutex, 2);
        put_tell(out, node);
        break;
    case SIMBA_OP_READ:
    case SIMBA_OP_READ_NOTE:
    case SIMBA_OP_LIST: /* a row of it */
    case SIMBA_OP_EXAMINE:
        simba__redis_put_script(call, out, REDIS_READ, mutex, 0);
        break;
    case SIMBA_OP_WRITE_NOTE:
        simba__redis_put_script(call, out, REDIS_NOTE, mutex, 8);
        put_who(out, request, true);
        put_number(out, request->note_number);
        simba__redis_put_bytes(out, request->note, request->note_size);
        put_number(out, (uint64_t)KEPT_MS);
        put_tell(out, node);
        break;
    case SIMBA_OP_FORGET:
        simba__redis_put_script(call, out, REDIS_FORGET, mutex, 2);
        put_tell(out, node);
        break;
    case SIMBA_OP_PREPARE: /* a mutex of it */
        simba__redis_put_script(call, out, REDIS_UPGRADE, mutex, 1);
        put_number(out, (uint64_t)KEPT_MS);
        break;
    }
}

/* --- what becomes of it ------------------------------------------------------------------------------- */

/* Tell those who listen what the answer says; not if it comes too late, because the contender may have stopped since. */
static void tell_listeners(redis_call *call)
{
    redis_node *node = call->node;
    const simba_request *request = call->request;
    const simba_reply *reply = &request->reply;
    const bool mine = reply->outcome == SIMBA_MINE;
    if (request->op == SIMBA_OP_RELEASE)
        simba__redis_unqueued(node->store, request);
    if (call->expired)
        return;
    if (request->op == SIMBA_OP_ACQUIRE && mine) {
        simba__redis_left(node->store, request);
        simba__redis_unqueued(node->store, request);
    } else if (request->op == SIMBA_OP_ACQUIRE && request->queue) {
        simba__redis_refused(node->store, call);
    }
    if (mine && (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW))
        simba__redis_holds(node);
    else if (reply->owner.id[0] && reply->owner.token == 0)
        simba__redis_foreign(node->store, request, reply);
}

static void fail(redis_call *call, int code, const char *text)
{
    simba_host *host = call->node->store->host;
    simba_request *request = call->request;
    request->backend_data = NULL;
    simba__redis_call_free(call);
    host->fail(host, request, code, "%s", text);
}

static void complete(redis_call *call)
{
    simba_host *host = call->node->store->host;
    simba_request *request = call->request;
    request->backend_data = NULL;
    simba__redis_call_free(call);
    host->complete(host, request);
}

/* None of the scripts answers like that, so the next bytes may mean anything. */
static void give_up(redis_call *call)
{
    simba__link *link = &call->node->commands.link;
    char text[200];
    snprintf(text, sizeof text, "redis %s: an answer that none of the scripts gives", link->at.where);
    fail(call, SIMBA_ECORRUPT, text);
    simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: connection given up over an odd answer", link->at.where);
}

static void take_row(redis_call *call, const redisReply *reply)
{
    simba_host *host = call->node->store->host;
    simba_request *request = call->request;
    redis_row row;
    char text[256];
    const int rc = simba__redis_parse_row(reply, &row);
    if (rc == SIMBA_ESTORE) {
        give_up(call);
        return;
    }
    if (request->op == SIMBA_OP_READ) {
        request->reply = row.reply;
        tell_listeners(call);
        complete(call);
        return;
    }
    request->reply.now_ms = row.reply.now_ms;
    if (rc < 0 || (row.note.size > 0 && host->noted(host, request, &row.note) < 0)) {
        snprintf(text, sizeof text, "redis %s: simba:{%s}:note is no note", call->node->commands.link.at.where,
                 request->mutex);
        fail(call, SIMBA_ECORRUPT, text);
    } else {
        complete(call);
    }
}

/* The text is made once per connection: with the numbers of each refusal it would be another error, and be logged anew. */
static void refuse_young(redis_call *call)
{
    redis_node *node = call->node;
    const simba_request *request = call->request;
    const int64_t until_ms = simba__redis_node_young(node, request->ttl_ms + request->transition_ms);
    const int64_t wait_ms = until_ms - request->reply.now_ms;
    if (node->young[0] == '\0')
        snprintf(node->young, sizeof node->young,
                 "redis %s: started %lld s ago and may have forgotten leases: waiting %lld s; ?restart-wait=no",
                 node->commands.link.at.where, (long long)node->commands.uptime_s, (long long)(wait_ms / 1000 + 1));
    if (!call->expired && wait_ms > 0)
        simba__redis_ask_after(node->store, request, wait_ms);
    fail(call, SIMBA_EUNAVAILABLE, node->young);
}

static void request_over(redis_call *call, const redisReply *reply, const simba_error *error)
{
    redis_node *node = call->node;
    simba_request *request = call->request;
    const bool is_written =
        request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW || request->op == SIMBA_OP_WRITE_NOTE;
    if (error) {
        if (request->op == SIMBA_OP_RELEASE) /* also if it was never written */
            simba__redis_left(node->store, request);
        fail(call, error->code, error->text);
        return;
    }
    if (!reply) { /* the replicas confirm it */
        complete(call);
        return;
    }
    if (request->op == SIMBA_OP_READ || request->op == SIMBA_OP_READ_NOTE) {
        take_row(call, reply);
        return;
    }
    const int outcome = simba__redis_parse(reply, request, &request->reply);
    if (outcome < 0) {
        give_up(call);
    } else if (outcome == REDIS_TOO_YOUNG) {
        refuse_young(call);
    } else {
        tell_listeners(call);
        if (outcome == SIMBA_MINE && is_written && node->store->options.replicas > 0 && !call->expired)
            simba__redis_call_hold(call);
        else
            complete(call);
    }
}

/* --- servers ------------------------------------------------------------------------------------------ */

redis_node *simba__redis_node_serving(redis_node *first)
{
    while (first && !first->serves)
        first = first->next;
    return first;
}

redis_node *simba__redis_node_for(redis_store *store, const char *mutex)
{
    redis_node *any = mutex ? NULL : simba__redis_node_serving(store->first);
    return any ? any : store->topology->route(store, mutex ? mutex : "");
}

void simba__redis_moved(redis_store *store)
{
    simba__list all = {0};
    for (redis_node *node = store->first; node; node = node->next)
        while (node->waiting.first) {
            redis_call *call = SIMBA__OF_ITEM(node->waiting.first, redis_call, item);
            simba__list_append(&all, &call->item);
            call->stage = REDIS_IN_HAND;
        }
    while (all.first) {
        redis_call *call = SIMBA__OF_ITEM(all.first, redis_call, item);
        simba__list_remove(&call->item);
        /* A call without a mutex is about its server, as long as that is one. */
        simba__redis_call_submit(call->request || !call->node->serves
                                     ? simba__redis_node_for(store, call->request ? call->request->mutex : NULL)
                                     : call->node,
                                 call);
    }
    simba__redis_pushes_moved(store);
}

static int single_init(redis_store *store)
{
    redis_node *node = simba__redis_node_new(store, &store->options.endpoints[0]);
    if (!node)
        return SIMBA_ENOMEM;
    node->serves = true;
    return 0;
}

static redis_node *single_route(redis_store *store, const char *mutex)
{
    (void)mutex;
    return store->first;
}

static const redis_topology single = {.init = single_init, .route = single_route};

/* --- the table ---------------------------------------------------------------------------------------- */

/* A lookup has ended. If the store is closing and waits for no other, it is closed. */
static void look_whether_closed(simba__links *links)
{
    redis_store *store = SIMBA__OF_ITEM(links, redis_store, conns.links);
    if (store->closing && links->lookups == 0 && !store->closed) {
        store->closed = true;
        links->host->closed(links->host);
    }
}

/* Worker threads look names up. If the URL has only addresses, the store needs none. */
static unsigned workers_for(const redis_options *options)
{
    simba__address address;
    const simba__endpoint *at = &options->endpoints[0];
    if (options->kind != REDIS_SINGLE)
        return 2;
    return at->port == 0 || simba__address_parse(at->host, at->port, &address) ? 0 : 1;
}

static int redis_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    static const redis_topology *const topologies[] = {
        [REDIS_SINGLE] = &single, [REDIS_SENTINEL] = &simba__redis_sentinel, [REDIS_CLUSTER] = &simba__redis_cluster};
    redis_store *store = instance;
    const redis_options *options = &store->options;
    int rc = simba__redis_options_parse(url, &store->options, err);
    if (rc < 0)
        return rc;
    host->workers = workers_for(options);
    store->host = host;
    store->topology = topologies[options->kind];
    store->conns =
        (redis_conns){.links = {.host = host, .kind = "redis", .hello = "PING\r\n", .looked_up = look_whether_closed},
                      .options = options};
    if (options->tls)
        rc = simba__tls_context_new(&options->files, err, &store->conns.links.tls);
    if (rc < 0)
        return rc;
    rc = simba__redis_pushes_init(store);
    if (rc == 0)
        rc = store->topology->init(store);
    return rc < 0 ? simba__fail(err, rc, "out of memory") : 0;
}

static void redis_submit(void *instance, simba_request *request)
{
    redis_store *store = instance;
    if (request->op == SIMBA_OP_LIST || request->op == SIMBA_OP_EXAMINE || request->op == SIMBA_OP_PREPARE) {
        simba__redis_walk(store, request);
        return;
    }
    redis_call *call = simba__redis_call_new(request, simba__redis_put_request, request_over, NULL);
    request->backend_data = call;
    if (call)
        simba__redis_call_submit(simba__redis_node_for(store, request->mutex), call);
    else
        store->host->fail(store->host, request, SIMBA_ENOMEM, "redis: out of memory");
}

static void redis_expire(void *instance, simba_request *request)
{
    (void)instance;
    if (request->op == SIMBA_OP_LIST || request->op == SIMBA_OP_EXAMINE || request->op == SIMBA_OP_PREPARE)
        simba__redis_walk_expire(request);
    else
        simba__redis_call_expire(request->backend_data);
}

static void redis_flush(void *instance)
{
    redis_store *store = instance;
    for (redis_node *node = store->first; node; node = node->next) {
        simba__redis_node_flush(node);
        /* Once, behind the requests that are under way. Some proxies hang up over a question that they do not know, so it is not
         * repeated on the next connection. */
        if (store->acquires && !store->asked_durability && simba__redis_conn_ready(&node->commands)) {
            store->asked_durability = true;
            simba__redis_ask_durability(node);
            simba__redis_node_flush(node);
        }
    }
}

static int redis_watch(void *instance, simba_watch *watch)
{
    return simba__redis_watch(instance, watch);
}

static void redis_unwatch(void *instance, simba_watch *watch)
{
    simba__redis_unwatch(instance, watch);
}

static void redis_woken(void *instance)
{
    redis_flush(instance);
    simba__redis_pushes_woken(instance);
}

static void redis_close(void *instance)
{
    redis_store *store = instance;
    const simba_error why = {.code = SIMBA_ECANCELED, .text = "redis: the client closes"};
    store->closing = true;
    for (redis_node *node = store->first; node; node = node->next)
        simba__redis_node_close(node, &why);
    if (store->topology->close)
        store->topology->close(store);
    simba__redis_pushes_close(store);
    look_whether_closed(&store->conns.links);
}

static void redis_fini(void *instance)
{
    redis_store *store = instance;
    simba__redis_pushes_fini(store);
    if (store->topology && store->topology->fini)
        store->topology->fini(store);
    while (store->first) {
        redis_node *node = store->first;
        store->first = node->next;
        simba__redis_node_free(node);
    }
    simba__tls_context_free(store->conns.links.tls);
    simba__redis_options_free(&store->options);
}

static int redis_accepts(const simba_url *url, const char *mutex, simba_error *err)
{
    if (!strstr(simba_url_scheme(url), "+cluster") || mutex[0] != '}')
        return 0;
    return simba__fail(
        err, SIMBA_EINVAL,
        "a mutex name that begins with \"}\" cannot be used in a Redis Cluster: its keys would lie apart");
}

/* A cluster has many servers, so it names none. */
static const char *redis_server(void *instance)
{
    const redis_store *store = instance;
    return store->options.kind == REDIS_SENTINEL ? store->first->commands.link.at.where : "";
}

static const char *const schemes[] = {SIMBA__SCHEMES_redis, NULL};
static const char *const keys[] = {"db",
                                   "connect-timeout",
                                   "timeout",
                                   "replicas",
                                   "restart-wait",
                                   "ca",
                                   "cert",
                                   "key",
                                   "verify",
                                   "sentinel-user",
                                   "sentinel-password-file",
                                   NULL};

const simba_backend simba__backend_redis = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(redis_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_QUEUE | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE |
            SIMBA_CAP_PREPARE | SIMBA_CAP_NOTE | SIMBA_CAP_CALLS,
    /* Some 5 ms of a server's time, so that a fleet that wants too much delays renewals by no more than 5 ms a client; and still 50,000
     * requests a second at a round trip of 5 ms. */
    .window = 256,
    .workers = 2,
    .init = redis_init,
    .submit = redis_submit,
    .expire = redis_expire,
    .flush = redis_flush,
    .watch = redis_watch,
    .unwatch = redis_unwatch,
    .woken = redis_woken,
    .close = redis_close,
    .fini = redis_fini,
    .accepts = redis_accepts,
    .server = redis_server,
};
