/* See ears.h. */
#include "backends/redis/ears.h"

#include <stdio.h>
#include <string.h>

#include "backends/redis/writer.h"
#include "util/hash.h"
#include "util/mem.h"

enum { IDLE_MOST = 64, CHANNEL_SIZE = SIMBA_MUTEX_BYTES + SIMBA_ID_MAX + 32 };

typedef struct ear {
    simba__node entry; /* in the table, by its channel */
    simba__ring idle;
    redis_node *node;
    uint64_t nonce;
    bool is_idle;
    bool subscribed; /* or about to be */
    const char *id;  /* behind the mutex */
    char *channel;   /* behind the id */
    char mutex[];
} ear;

static ear *of_entry(simba__node *entry)
{
    return entry ? SIMBA__OF_NODE(entry, ear, entry) : NULL;
}

static bool is_of(const simba__node *entry, const void *channel)
{
    return strcmp(SIMBA__OF_NODE(entry, const ear, entry)->channel, channel) == 0;
}

static ear *find(const redis_ears *self, const char *channel)
{
    return of_entry(simba__table_find(&self->table, simba__hash(channel), is_of, channel));
}

static void name_channel(char out[CHANNEL_SIZE], const simba_request *request)
{
    snprintf(out, CHANNEL_SIZE, "simba:{%s}@@@%s", request->mutex, request->id);
}

void simba__redis_ears_init(redis_ears *self, redis_nodes *nodes)
{
    self->nodes = nodes;
    simba__ring_init(&self->idle);
}

static void put(const ear *e, const char *command)
{
    simba__redis_put(&e->node->pushes.link.out, 2, (const char *const[]){command, e->channel});
}

static bool is_up(const ear *e)
{
    return e->node->pushes.link.state == SIMBA__LINK_UP;
}

static void subscribe(const redis_ears *self, ear *e)
{
    simba_host *host = self->nodes->conns.links.host;
    if (e->node->pushes.link.state == SIMBA__LINK_CLOSED)
        simba__link_open(&e->node->pushes.link);
    if (e->subscribed || !is_up(e))
        return;
    e->subscribed = true;
    put(e, "SUBSCRIBE");
    host->wake(host); /* send it before the turn ends */
}

static void set_idle(redis_ears *self, ear *e, bool is_idle)
{
    if (e->is_idle != is_idle)
        self->idle_count += is_idle ? 1 : (size_t)-1;
    e->is_idle = is_idle;
    simba__ring_set(&self->idle, &e->idle, is_idle);
}

static void drop(redis_ears *self, ear *e)
{
    if (e->subscribed && is_up(e))
        put(e, "UNSUBSCRIBE");
    set_idle(self, e, false);
    simba__table_remove(&self->table, &e->entry);
    simba__free(e);
}

void simba__redis_ears_fini(redis_ears *self)
{
    for (simba__node *entry = simba__table_first(&self->table), *next; entry; entry = next) {
        next = simba__table_next(&self->table, entry);
        simba__table_remove(&self->table, entry);
        simba__free(of_entry(entry));
    }
    simba__table_fini(&self->table);
}

static ear *make(redis_ears *self, const simba_request *request, const char *channel)
{
    const size_t mutex_size = strlen(request->mutex) + 1;
    const size_t id_size = strlen(request->id) + 1;
    ear *e = simba__table_reserve(&self->table)
                 ? simba__calloc(1, sizeof *e + mutex_size + id_size + strlen(channel) + 1)
                 : NULL;
    if (!e)
        return NULL; /* then only the linger ends the hold */
    memcpy(e->mutex, request->mutex, mutex_size);
    e->id = memcpy(e->mutex + mutex_size, request->id, id_size);
    e->channel = strcpy(e->mutex + mutex_size + id_size, channel);
    simba__table_add(&self->table, &e->entry, simba__hash(channel));
    return e;
}

void simba__redis_ears_listen(redis_ears *self, redis_node *node, const simba_request *request)
{
    char channel[CHANNEL_SIZE];
    name_channel(channel, request);
    ear *e = find(self, channel);
    if (!e)
        e = make(self, request, channel);
    if (!e)
        return;
    if (e->node != node)
        e->subscribed = false;
    e->node = node;
    e->nonce = request->nonce;
    set_idle(self, e, false);
    subscribe(self, e);
}

void simba__redis_ears_rest(redis_ears *self, const simba_request *request)
{
    char channel[CHANNEL_SIZE];
    name_channel(channel, request);
    ear *e = find(self, channel);
    if (!e || e->nonce != request->nonce)
        return;
    set_idle(self, e, true);
    if (self->idle_count > IDLE_MOST)
        drop(self, SIMBA__OF_RING(simba__ring_first(&self->idle), ear, idle));
}

void simba__redis_ears_up(redis_ears *self, const redis_node *node)
{
    for (simba__node *entry = simba__table_first(&self->table); entry; entry = simba__table_next(&self->table, entry))
        if (of_entry(entry)->node == node)
            subscribe(self, of_entry(entry));
}

void simba__redis_ears_down(redis_ears *self, const redis_node *node)
{
    for (simba__node *entry = simba__table_first(&self->table); entry; entry = simba__table_next(&self->table, entry))
        if (of_entry(entry)->node == node)
            of_entry(entry)->subscribed = false;
}

void simba__redis_ears_moved(redis_ears *self)
{
    for (simba__node *entry = simba__table_first(&self->table); entry; entry = simba__table_next(&self->table, entry)) {
        ear *e = of_entry(entry);
        redis_node *node = self->nodes->topology->route(self->nodes, e->mutex);
        if (node == e->node)
            continue;
        e->node = node;
        e->subscribed = false;
        subscribe(self, e);
    }
}

static void ask_whether_wanted(const ear *e)
{
    simba__redis_commands_tell(&e->node->commands, REDIS_WISHED, e->mutex, 1, (const char *const[]){e->id});
}

/* Contenders that began to wait before the subscription was in force have told nobody. So ask the server whether any
 * waits. */
void simba__redis_ears_confirmed(redis_ears *self, const char *channel)
{
    const ear *e = find(self, channel);
    if (e && !e->is_idle)
        ask_whether_wanted(e);
}

void simba__redis_ears_answered_again(redis_ears *self, const redis_node *node)
{
    for (simba__node *entry = simba__table_first(&self->table); entry; entry = simba__table_next(&self->table, entry)) {
        const ear *e = of_entry(entry);
        if (e->node == node && e->subscribed && !e->is_idle)
            ask_whether_wanted(e);
    }
}

/* Anybody can publish. The worst that a false message can do is that a holder gives its mutex back too soon. Contenders of one
 * id share a channel, and the message says which of them it means. */
void simba__redis_ears_heard(redis_ears *self, const char *channel, const char *text)
{
    static const char word[] = "wanted ";
    const ear *e = strncmp(text, word, sizeof word - 1) == 0 ? find(self, channel) : NULL;
    simba_host *host = self->nodes->conns.links.host;
    const char *end;
    if (!e)
        return;
    const uint64_t nonce = simba__redis_nonce_read(text + sizeof word - 1, &end);
    if (end[0] == '\0')
        host->push_to(host, e->mutex, nonce, &(simba_push){.kind = SIMBA_PUSH_WANTED});
}
