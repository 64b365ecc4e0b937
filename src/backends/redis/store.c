/* See store.h. */
#include "backends/redis/store.h"

#include <inttypes.h>
#include <stdio.h>

#include "backends/redis/examine.h"
#include "backends/redis/reply.h"
#include "backends/redis/writer.h"

static redis_node *node_of(const redis_commands *commands)
{
    return commands->owner;
}

static redis_store *store_of(redis_nodes *nodes)
{
    return (redis_store *)(void *)((char *)nodes - offsetof(redis_store, nodes));
}

static redis_store *of(const redis_commands *commands)
{
    return store_of(node_of(commands)->all);
}

/* --- what a request says ------------------------------------------------------------------------------ */

/* Name the contender of this client that was invited to the mutex: "@@" and its id, or "@@" if none was. "": no
 * contender of this client can be in the queue of the mutex, so the script has none to take out. */
static void name_invited(redis_subs *subs, const char *mutex, char *out, size_t size)
{
    const char *invited = simba__redis_subs_invited(subs, mutex);
    out[0] = '\0';
    if (invited)
        snprintf(out, size, "@@%s", invited);
}

static void put(redis_commands *commands, const simba_request *request)
{
    redis_subs *subs = &of(commands)->subs;
    const char *mutex = request->mutex;
    const redis_numbers n = simba__redis_numbers_of(request);
    char here[SIMBA_ID_MAX + 4] = "";
    if (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RELEASE)
        name_invited(subs, mutex, here, sizeof here);
    switch (request->op) {
    case SIMBA_OP_ACQUIRE: {
        const char *queue = request->queue ? "1" : "0";
        const char *args[] = {request->id, n.nonce, n.total, n.transition, queue, here};
        const bool plain = request->queue && here[0] == '\0'; /* the last two are what the script expects anyway */
        simba__redis_subs_named(subs, mutex);
        simba__redis_commands_put_script(commands, REDIS_ACQUIRE, mutex, plain ? 4 : 6, args);
        of(commands)->acquires = true;
        break;
    }
    case SIMBA_OP_RENEW: {
        const char *args[] = {request->id, n.head, n.total, n.transition};
        simba__redis_commands_put_script(commands, REDIS_RENEW, mutex, 4, args);
        break;
    }
    case SIMBA_OP_RELEASE: {
        const char *args[] = {request->id, n.head, here};
        simba__redis_commands_put_script(commands, REDIS_RELEASE, mutex, here[0] ? 3 : 2, args);
        simba__redis_subs_left(subs, request);
        break;
    }
    case SIMBA_OP_FORCE_RELEASE:
        simba__redis_commands_put_script(commands, REDIS_FORCE_RELEASE, mutex, 0, NULL);
        break;
    case SIMBA_OP_READ:
        simba__redis_commands_put_script(commands, REDIS_READ, mutex, 0, NULL);
        break;
    case SIMBA_OP_LIST: /* one row of a list, see list.c */
        simba__redis_commands_put_script(commands, REDIS_LIST_ROW, mutex, 0, NULL);
        break;
    case SIMBA_OP_WRITE_NOTE: {
        char number[24];
        snprintf(number, sizeof number, "%020" PRIu64, request->note_number);
        const char *args[] = {request->id, n.nonce, n.token, number};
        simba__redis_commands_begin_script(commands, REDIS_WRITE_NOTE, mutex, 5);
        for (size_t i = 0; i < sizeof args / sizeof *args; i++)
            simba__redis_put_word(&commands->conn.link.out, args[i]);
        simba__redis_put_bytes(&commands->conn.link.out, request->note, request->note_size);
        break;
    }
    case SIMBA_OP_READ_NOTE:
        simba__redis_commands_put_script(commands, REDIS_READ_NOTE, mutex, 0, NULL);
        break;
    case SIMBA_OP_FORGET:
        simba__redis_commands_put_script(commands, REDIS_FORGET, mutex, 0, NULL);
        break;
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE: /* not offered */
        simba__redis_put(&commands->conn.link.out, 1, (const char *const[]){"INFO"});
        break;
    }
}

/* --- what becomes of it ------------------------------------------------------------------------------- */

/* Tell those who wait and watch what the answer says; not if it comes too late, because the contender may have stopped since. */
static void answered(redis_commands *commands, const simba_request *request, bool holds)
{
    redis_subs *subs = &of(commands)->subs;
    const simba_reply *reply = &request->reply;
    const redis_errand *errand = request->backend_data;
    if (errand->expired)
        return;
    if (holds && request->op == SIMBA_OP_ACQUIRE)
        simba__redis_subs_left(subs, request);
    else if (request->op == SIMBA_OP_ACQUIRE && request->queue)
        simba__redis_subs_waits(subs, request);
    if (holds)
        simba__redis_subs_holds(node_of(commands));
    else if (reply->owner.id[0] && reply->owner.token == 0)
        simba__redis_subs_foreign(subs, request->mutex, reply);
}

static redis_answer read_reply(redis_commands *commands, simba_request *request, const redisReply *reply)
{
    int64_t more;
    simba_reply row;
    bool fine;
    bool counts = false; /* it counts once replicas have it */
    switch (request->op) {
    case SIMBA_OP_LIST:
        fine = simba__redis_parse(reply, request, &row, &more);
        break;
    case SIMBA_OP_EXAMINE:
        fine = reply->type == REDIS_REPLY_STRING;
        break;
    case SIMBA_OP_READ_NOTE:
        fine = simba__redis_is_note(reply, &request->reply.now_ms);
        break;
    default:
        fine = simba__redis_parse(reply, request, &request->reply, &more);
        if (!fine)
            break;
        request->reply.place = request->op == SIMBA_OP_ACQUIRE ? more : 0;
        const bool mine = request->reply.outcome == SIMBA_MINE;
        const bool holds = mine && (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW);
        counts = holds || (mine && request->op == SIMBA_OP_WRITE_NOTE);
        answered(commands, request, holds);
    }
    return (redis_answer){.kind = !fine ? REDIS_SAID_ODDITY : counts ? REDIS_SAID_GRANTED : REDIS_SAID_DONE};
}

/* The answer is the time and the note. */
static void finish_note(redis_commands *commands, redis_errand *errand, const redisReply *reply)
{
    simba_request *request = errand->request;
    simba_stored_note note;
    if (!simba__redis_take_note(reply->element[1], &note) ||
        (note.size > 0 && commands->host->noted(commands->host, request, &note) < 0))
        simba__redis_errand_fail(errand, SIMBA_ECORRUPT, "redis %s: simba:{%s}:note is no note",
                                 commands->conn.link.at.where, request->mutex);
    else
        simba__redis_errand_complete(errand);
}

static void finish(redis_commands *commands, redis_errand *errand, const redisReply *reply)
{
    switch (errand->request->op) {
    case SIMBA_OP_LIST:
        simba__redis_list_row(errand, reply);
        break;
    case SIMBA_OP_EXAMINE:
        simba__redis_examined(node_of(commands), errand, reply);
        break;
    case SIMBA_OP_READ_NOTE:
        finish_note(commands, errand, reply);
        break;
    default:
        simba__redis_errand_complete(errand);
    }
}

static bool redirect(redis_commands *commands, redis_errand *errand, const char *error)
{
    return node_of(commands)->all->topology->redirect(node_of(commands), errand, error);
}

/* --- the fate of a server ----------------------------------------------------------------------------- */

/* Once, behind the requests that are under way. Some proxies hang up over a question that they do not know, so it is not repeated
 * on the next connection. */
static bool ask_durability(redis_store *self, redis_node *node)
{
    if (!self->acquires || self->asked_durability || !simba__redis_commands_ready(&node->commands))
        return false;
    self->asked_durability = true;
    simba__redis_ask_durability(node);
    return true;
}

static void up(redis_commands *commands)
{
    ask_durability(of(commands), node_of(commands));
    simba__redis_lists_up(&of(commands)->lists, node_of(commands));
}

static void down(redis_commands *commands, const simba_error *error)
{
    simba__redis_lists_down(&of(commands)->lists, node_of(commands), error);
}

static void lost(redis_commands *commands)
{
    redis_node *node = node_of(commands);
    if (node->all->topology->lost)
        node->all->topology->lost(node);
}

static const redis_commands_events commands_events = {
    .up = up, .down = down, .lost = lost, .put = put, .read = read_reply, .finish = finish, .redirect = redirect};

static void moved(redis_nodes *nodes)
{
    redis_store *self = store_of(nodes);
    simba__redis_nodes_reroute(nodes);
    simba__redis_subs_moved(&self->subs);
    simba__redis_lists_moved(&self->lists);
}

/* --- lifetime ----------------------------------------------------------------------------------------- */

/* A lookup has ended. If the store is closing and waits for no other, it is closed. */
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
        .conns = {.links = {.host = host,
                            .kind = "redis",
                            .tls = tls,
                            .hello = "PING\r\n",
                            .looked_up = look_whether_closed},
                  .options = &self->options},
        .topology = topology,
        .commands_events = &commands_events,
        .push_events = &simba__redis_subs_events,
        .subs = &self->subs,
        .moved = moved,
    };
    const int rc = simba__redis_subs_init(&self->subs, &self->nodes);
    simba__redis_lists_init(&self->lists, &self->nodes);
    return rc == 0 ? topology->init(&self->nodes) : rc;
}

void simba__redis_store_submit(void *instance, simba_request *request)
{
    redis_store *self = instance;
    simba_host *host = self->nodes.conns.links.host;
    redis_errand *errand = simba__redis_errand_begin(host, REDIS_FOR_REQUEST, request);
    if (!errand)
        host->fail(host, request, SIMBA_ENOMEM, "redis: out of memory");
    else if (request->op == SIMBA_OP_LIST)
        simba__redis_list_begin(&self->lists, errand);
    else
        simba__redis_commands_submit(&simba__redis_node_for(&self->nodes, request)->commands, errand);
}

void simba__redis_store_expire(void *instance, simba_request *request)
{
    redis_errand *errand = request->backend_data;
    (void)instance;
    if (request->op == SIMBA_OP_LIST) {
        simba__redis_list_expire(errand);
        return;
    }
    const char *where = simba__redis_commands_expire(errand);
    if (errand->stage == REDIS_IN_HAND)
        simba__redis_errand_fail(errand, SIMBA_ETIMEDOUT, "redis %s: no answer in time", where);
}

void simba__redis_store_flush(void *instance)
{
    redis_store *self = instance;
    for (redis_node *node = self->nodes.first; node; node = node->next) {
        simba__redis_commands_flush(&node->commands);
        if (ask_durability(self, node))
            simba__link_flush(&node->commands.conn.link);
    }
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
    simba__tls_context_free(self->nodes.conns.links.tls);
    simba__redis_options_free(&self->options);
}
