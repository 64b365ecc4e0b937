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

/* "": nobody of this client can be in the queue of the mutex, so nobody has to be taken out of it. Otherwise "@@", and whose
 * invitation came to us, if one did. */
static void name_invited(redis_subs *subs, const char *mutex, char *out, size_t size)
{
    const char *invited = simba__redis_subs_invited(subs, mutex);
    snprintf(out, size, "%s%s", invited ? "@@" : "", invited ? invited : "");
}

static void put_renewals(redis_calls *calls, redis_errand *const *errands, size_t count)
{
    simba__buffer *out = &calls->conn.link.out;
    char text[SIMBA_MUTEX_BYTES + 32];
    snprintf(text, sizeof text, "%zu", 2 * count);
    simba__redis_put_count(out, 5 + 4 * count);
    simba__redis_put_word(out, "EVALSHA");
    simba__redis_put_word(out, calls->sha[REDIS_RENEW_ALL]);
    simba__redis_put_word(out, text);
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "simba:{%s}", errands[i]->request->mutex);
        simba__redis_put_word(out, text);
        snprintf(text, sizeof text, "simba:{%s}:grant", errands[i]->request->mutex);
        simba__redis_put_word(out, text);
    }
    redis_numbers n = simba__redis_numbers_of(errands[0]->request);
    simba__redis_put_word(out, n.total);
    simba__redis_put_word(out, n.transition);
    for (size_t i = 0; i < count; i++) {
        n = simba__redis_numbers_of(errands[i]->request);
        snprintf(text, sizeof text, "%s %s", n.token, n.nonce);
        simba__redis_put_word(out, errands[i]->request->id);
        simba__redis_put_word(out, text);
    }
}

static void put(redis_calls *calls, const simba_request *request)
{
    redis_subs *subs = &of(calls)->subs;
    const char *mutex = request->mutex;
    const redis_numbers n = simba__redis_numbers_of(request);
    char here[SIMBA_ID_MAX + 4] = "";
    if (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RELEASE)
        name_invited(subs, mutex, here, sizeof here);
    switch (request->op) {
    case SIMBA_OP_ACQUIRE: {
        const char *queue = request->queue ? "1" : "0";
        const char *args[] = {request->id, n.nonce, n.total, n.transition, queue, here};
        simba__redis_calls_put_script(calls, REDIS_ACQUIRE, mutex, 6, args);
        break;
    }
    case SIMBA_OP_RENEW: {
        const char *args[] = {request->id, n.nonce, n.token, n.total, n.transition};
        simba__redis_calls_put_script(calls, REDIS_RENEW, mutex, 5, args);
        break;
    }
    case SIMBA_OP_RELEASE: {
        const char *args[] = {request->id, n.nonce, n.token, here};
        simba__redis_calls_put_script(calls, REDIS_RELEASE, mutex, 4, args);
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
        simba__redis_calls_put_script(calls, REDIS_LIST_ROW, mutex, 0, NULL);
        break;
    case SIMBA_OP_WRITE_NOTE: {
        char number[24];
        snprintf(number, sizeof number, "%020" PRIu64, request->note_number);
        const char *args[] = {request->id, n.nonce, n.token, number};
        simba__redis_calls_begin_script(calls, REDIS_WRITE_NOTE, mutex, 5);
        for (size_t i = 0; i < sizeof args / sizeof *args; i++)
            simba__redis_put_word(&calls->conn.link.out, args[i]);
        simba__redis_put_bytes(&calls->conn.link.out, request->note, request->note_size);
        break;
    }
    case SIMBA_OP_READ_NOTE:
        simba__redis_calls_put_script(calls, REDIS_READ_NOTE, mutex, 0, NULL);
        break;
    case SIMBA_OP_FORGET:
        simba__redis_calls_put_script(calls, REDIS_FORGET, mutex, 0, NULL);
        break;
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE: /* not offered */
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
    const bool written = reply->outcome == SIMBA_MINE && request->op == SIMBA_OP_WRITE_NOTE;
    if ((holds || written) && calls->options->replicas > 0)
        simba__redis_confirm_hold(&node_of(calls)->confirm, errand);
    else
        simba__redis_requests_complete(errand);
}

/* The time, and the note. */
static bool answer_note(redis_calls *calls, redis_errand *errand, const redisReply *reply)
{
    simba_request *request = errand->request;
    simba_stored_note note;
    if (!simba__redis_is_note(reply, &request->reply.now_ms))
        return false;
    if (!simba__redis_take_note(reply->element[1], &note) ||
        (note.size > 0 && calls->host->noted(calls->host, request, &note) < 0))
        simba__redis_requests_fail(errand, SIMBA_ECORRUPT, "redis %s: simba:{%s}:note is no note",
                                   calls->conn.link.at.where, request->mutex);
    else
        simba__redis_requests_complete(errand);
    return true;
}

static bool answer(redis_calls *calls, redis_errand *errand, const redisReply *reply)
{
    simba_request *request = errand->request;
    int64_t more;
    if (request->op == SIMBA_OP_LIST)
        return simba__redis_list_row(errand, reply);
    if (request->op == SIMBA_OP_EXAMINE)
        return simba__redis_examined(node_of(calls), errand, reply);
    if (request->op == SIMBA_OP_READ_NOTE)
        return answer_note(calls, errand, reply);
    if (!simba__redis_parse(reply, request, &request->reply, &more))
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
                                                .put_renewals = put_renewals,
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
