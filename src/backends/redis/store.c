/* See store.h. */
#include "backends/redis/store.h"

#include <inttypes.h>
#include <stdio.h>

#include "backends/redis/command.h"
#include "backends/redis/examine.h"
#include "backends/redis/reply.h"

static redis_node *node_of(const redis_calls *calls)
{
    return calls->owner;
}

static redis_store *store_of(redis_nodes *nodes)
{
    return (redis_store *)(void *)((char *)nodes - offsetof(redis_store, nodes));
}

static redis_store *of(const redis_calls *calls)
{
    return store_of(node_of(calls)->all);
}

/* --- what a request says ------------------------------------------------------------------------------ */

static void put(redis_calls *calls, const simba_request *request)
{
    redis_subs *subs = &of(calls)->subs;
    const char *mutex = request->mutex;
    char nonce[24];
    char token[24];
    char ttl[24];
    char transition[24];
    snprintf(nonce, sizeof nonce, "%" PRIu64, request->nonce);
    snprintf(token, sizeof token, "%" PRIu64, request->token);
    snprintf(ttl, sizeof ttl, "%" PRId64, request->ttl_ms);
    snprintf(transition, sizeof transition, "%" PRId64, request->transition_ms);
    switch (request->op) {
    case SIMBA_OP_ACQUIRE: {
        const char *queue = request->queue ? "1" : "0";
        const char *args[] = {request->id, nonce, ttl, transition, queue, simba__redis_subs_invited(subs, mutex)};
        simba__redis_calls_put_script(calls, REDIS_ACQUIRE, mutex, 6, args);
        break;
    }
    case SIMBA_OP_RENEW: {
        const char *args[] = {request->id, nonce, token, ttl, transition};
        simba__redis_calls_put_script(calls, REDIS_RENEW, mutex, 5, args);
        break;
    }
    case SIMBA_OP_RELEASE: {
        const char *args[] = {request->id, nonce, token};
        simba__redis_calls_put_script(calls, REDIS_RELEASE, mutex, 3, args);
        simba__redis_subs_left(subs, request);
        break;
    }
    case SIMBA_OP_FORCE_RELEASE:
        simba__redis_calls_put_script(calls, REDIS_FORCE_RELEASE, mutex, 0, NULL);
        break;
    case SIMBA_OP_READ:
        simba__redis_subs_observed(subs, mutex);
        simba__redis_calls_put_script(calls, REDIS_READ, mutex, 0, NULL);
        break;
    case SIMBA_OP_LIST: /* one row of one, see list.c */
        simba__redis_calls_put_script(calls, REDIS_READ, mutex, 0, NULL);
        break;
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE: /* not offered */
    case SIMBA_OP_WRITE_NOTE:
    case SIMBA_OP_READ_NOTE:
    case SIMBA_OP_FORGET:
        simba__redis_put(&calls->conn.link.out, 1, (const char *const[]){"INFO"});
        break;
    }
}

static void may_grant(redis_calls *calls)
{
    if (calls->options->replicas > 0)
        simba__redis_confirm_soon(&node_of(calls)->confirm);
}

/* --- what becomes of it ------------------------------------------------------------------------------- */

static void answered(redis_calls *calls, redis_errand *errand)
{
    const simba_request *request = errand->request;
    redis_subs *subs = &of(calls)->subs;
    const simba_reply *reply = &request->reply;
    const bool holds =
        reply->outcome == SIMBA_MINE && (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW);
    if (holds && request->op == SIMBA_OP_ACQUIRE)
        simba__redis_subs_left(subs, request);
    else if (request->op == SIMBA_OP_ACQUIRE && request->queue)
        simba__redis_subs_waits(subs, request);
    if (holds)
        simba__redis_subs_holds(node_of(calls));
    else if (reply->owner.id[0] && reply->owner.token == 0)
        simba__redis_subs_foreign(subs, request->mutex, reply);
    if (holds && calls->options->replicas > 0)
        simba__redis_confirm_hold(&node_of(calls)->confirm, errand);
    else
        simba__redis_requests_complete(errand);
}

static bool answer(redis_calls *calls, redis_errand *errand, const redisReply *reply)
{
    simba_request *request = errand->request;
    int64_t more;
    if (request->op == SIMBA_OP_LIST)
        return simba__redis_list_row(errand, reply);
    if (request->op == SIMBA_OP_EXAMINE)
        return simba__redis_examined(node_of(calls), errand, reply);
    if (!simba__redis_parse(reply, &request->reply, &more))
        return false;
    request->reply.place = request->op == SIMBA_OP_ACQUIRE ? more : 0;
    answered(calls, errand);
    return true;
}

static bool redirected(redis_calls *calls, redis_errand *errand, const char *error)
{
    redis_node *node = node_of(calls);
    return node->all->topology->redirected && node->all->topology->redirected(node, errand, error);
}

/* --- the fate of a server ----------------------------------------------------------------------------- */

static void up(redis_calls *calls)
{
    simba__redis_lists_up(&of(calls)->lists, node_of(calls));
}

static void down(redis_calls *calls, const simba_error *error)
{
    simba__redis_confirm_lost(&node_of(calls)->confirm, error);
    simba__redis_lists_down(&of(calls)->lists, node_of(calls), error);
}

static void lost(redis_calls *calls)
{
    redis_node *node = node_of(calls);
    if (node->all->topology->lost)
        node->all->topology->lost(node);
}

static const redis_calls_events calls_events = {.up = up,
                                                .down = down,
                                                .lost = lost,
                                                .put = put,
                                                .may_grant = may_grant,
                                                .answer = answer,
                                                .redirected = redirected};

static void moved(redis_nodes *nodes)
{
    redis_store *self = store_of(nodes);
    simba__redis_nodes_reroute(nodes);
    simba__redis_subs_moved(&self->subs);
    simba__redis_lists_moved(&self->lists);
}

/* --- lifetime ----------------------------------------------------------------------------------------- */

/* Something has ended, perhaps the last that the end had to wait for. */
static void look_whether_closed(simba__links *links)
{
    redis_store *self = (redis_store *)(void *)((char *)links - offsetof(redis_store, nodes.conns.links));
    if (self->closing && links->lookups == 0 && !self->closed) {
        self->closed = true;
        links->host->closed(links->host);
    }
}

int simba__redis_store_init(redis_store *self, simba_host *host, simba__tls_context *tls,
                            const redis_topology *topology)
{
    self->nodes = (redis_nodes){
        .conns = {.links = {.host = host, .kind = "redis", .tls = tls, .looked_up = look_whether_closed},
                  .options = &self->options},
        .errands = &self->requests,
        .topology = topology,
        .calls_events = &calls_events,
        .push_events = &simba__redis_subs_events,
        .subs = &self->subs,
        .moved = moved,
    };
    simba__redis_requests_init(&self->requests, host);
    const int rc = simba__redis_subs_init(&self->subs, &self->nodes);
    simba__redis_lists_init(&self->lists, &self->nodes, &self->requests);
    return rc == 0 ? topology->init(&self->nodes) : rc;
}

void simba__redis_store_submit(void *instance, simba_request *request)
{
    redis_store *self = instance;
    redis_errand *errand = simba__redis_requests_begin(&self->requests, request);
    if (!errand)
        self->nodes.conns.links.host->fail(self->nodes.conns.links.host, request, SIMBA_ENOMEM, "redis: out of memory");
    else if (request->op == SIMBA_OP_LIST)
        simba__redis_list_begin(&self->lists, errand);
    else
        simba__redis_calls_submit(&simba__redis_node_for(&self->nodes, request)->calls, errand);
}

void simba__redis_store_cancel(void *instance, simba_request *request)
{
    (void)instance;
    simba__redis_requests_cancel(request);
}

void simba__redis_store_flush(void *instance)
{
    redis_store *self = instance;
    for (redis_node *node = self->nodes.first; node; node = node->next)
        simba__redis_calls_flush(&node->calls);
}

int simba__redis_store_watch(void *instance, simba_topic *topic)
{
    return simba__redis_subs_watch(&((redis_store *)instance)->subs, topic);
}

void simba__redis_store_unwatch(void *instance, simba_topic *topic)
{
    simba__redis_subs_unwatch(&((redis_store *)instance)->subs, topic);
}

void simba__redis_store_woken(void *instance)
{
    simba__redis_store_flush(instance);
    simba__redis_subs_woken(&((redis_store *)instance)->subs);
}

void simba__redis_store_close(void *instance)
{
    redis_store *self = instance;
    const simba_error why = {.code = SIMBA_ECANCELED, .text = "redis: the client closes"};
    self->closing = true;
    simba__redis_nodes_close(&self->nodes, &why);
    simba__redis_subs_close(&self->subs);
    look_whether_closed(&self->nodes.conns.links);
}

void simba__redis_store_fini(void *instance)
{
    redis_store *self = instance;
    simba__redis_subs_fini(&self->subs);
    simba__redis_nodes_fini(&self->nodes);
    simba__redis_requests_fini(&self->requests);
    simba__tls_context_free(self->nodes.conns.links.tls);
    simba__redis_options_free(&self->options);
}
