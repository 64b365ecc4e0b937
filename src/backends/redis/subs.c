/* See subs.h. waiters.c decides what to subscribe to and whom to tell; this file does it on the connections.
 *
 * scripts.c has the names of the channels. A client that holds any mutex also hears of every grant that is forced away,
 * which is rare.
 *
 * After a subscription the client sends a PING with the name of the mutex. Its echo says that the subscription is in
 * force; messages before the echo may have been missed. */
#include "backends/redis/subs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/waiters.h"
#include "backends/redis/writer.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

enum { CHANNEL_SIZE = SIMBA_MUTEX_BYTES + SIMBA_ID_MAX + 32 };

static const char revocations[] = "simba:@@revoked";

typedef struct redis_watch {
    simba__node entry;  /* in the table */
    simba_topic *topic; /* NULL: the client does not watch it */
    redis_node *node;   /* the node that has the mutex */
    simba__list_item idle, looks, due;
    redis_waiters waiters;
    char mutex[];
} redis_watch;

/* --- the table -------------------------------------------------------------------------------------- */

static redis_watch *of_entry(simba__node *entry)
{
    return entry ? SIMBA__OF_NODE(entry, redis_watch, entry) : NULL;
}

static redis_watch *first(const redis_subs *self)
{
    return of_entry(simba__table_first(&self->watches));
}

static redis_watch *after(const redis_subs *self, const redis_watch *watch)
{
    return of_entry(simba__table_next(&self->watches, &watch->entry));
}

static bool is_of(const simba__node *entry, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(entry, const redis_watch, entry)->mutex, mutex) == 0;
}

/* NULL: there is none. */
static redis_watch *find(const redis_subs *self, const char *mutex)
{
    return of_entry(simba__table_find(&self->watches, simba__hash(mutex), is_of, mutex));
}

/* Have the chores done at this time, or earlier. */
static void set_chores(redis_subs *self, simba_local at)
{
    if (self->chores.index == 0 || at.ns < self->chores.at.ns)
        self->host->timer_set(self->host, &self->chores, at);
}

/* Put it at the end of the list unless it is in there; or take it out. */
static void set_in(simba__list *list, simba__list_item *item, bool in)
{
    if (!in)
        simba__list_remove(item);
    else if (!item->list)
        simba__list_append(list, item);
}

/* Put the watch into the lists that its state calls for. */
static void sort_in(redis_subs *self, redis_watch *watch)
{
    const redis_waiters *w = &watch->waiters;
    const bool is_idle = !simba__redis_waiters_watched(w);
    set_in(&self->idle, &watch->idle, is_idle);
    set_in(&self->looks, &watch->looks, w->will_look);
    set_in(&self->due, &watch->due, w->interest == REDIS_DUE);
    if (is_idle)
        set_chores(self, SIMBA__OF_ITEM(self->idle.first, redis_watch, idle)->waiters.idle_until);
    if (w->will_look)
        set_chores(self, w->look_at);
}

/* Find the watch or make an idle one. NULL: out of memory. */
static redis_watch *make(redis_subs *self, const char *mutex)
{
    redis_watch *watch = find(self, mutex);
    if (watch || !simba__table_reserve(&self->watches))
        return watch;
    watch = simba__calloc(1, sizeof *watch + strlen(mutex) + 1);
    if (!watch)
        return NULL;
    strcpy(watch->mutex, mutex);
    watch->node = self->nodes->topology->route(self->nodes, mutex);
    simba__redis_waiters_init(&watch->waiters, self->host->now(self->host));
    simba__table_add(&self->watches, &watch->entry, simba__hash(mutex));
    sort_in(self, watch);
    return watch;
}

static void drop(redis_subs *self, redis_watch *watch)
{
    simba__list_remove(&watch->idle);
    simba__list_remove(&watch->looks);
    simba__list_remove(&watch->due);
    simba__table_remove(&self->watches, &watch->entry);
    simba__redis_waiters_fini(&watch->waiters);
    simba__free(watch);
}

/* --- doing ------------------------------------------------------------------------------------------ */

/* `command`: SUBSCRIBE or UNSUBSCRIBE. In a cluster, messages of this version come by shard; those of JVM contenders
 * and earlier versions do not. */
static void put_channel(const char *command, const redis_watch *watch, const char *suffix, const char *id)
{
    char channel[CHANNEL_SIZE];
    char by_shard[16];
    simba__buffer *out = &watch->node->pushes.link.out;
    snprintf(channel, sizeof channel, "simba:{%s}%s%s", watch->mutex, suffix, id);
    simba__redis_put(out, 2, (const char *const[]){command, channel});
    if (watch->node->all->conns.options->kind != REDIS_CLUSTER || watch->node->has_no_shards)
        return;
    snprintf(by_shard, sizeof by_shard, "S%s", command);
    simba__redis_put(out, 2, (const char *const[]){by_shard, channel});
}

static void put_news(const char *command, const redis_watch *watch)
{
    put_channel(command, watch, "@@", "");
    put_channel(command, watch, "", "");
}

static void put_waiter(const char *command, const redis_watch *watch, const char *id)
{
    put_channel(command, watch, ":", id);
    put_channel(command, watch, "@@", id);
}

static void put_all(const char *command, const redis_watch *watch)
{
    put_channel(command, watch, "@@@@", "");
    if (watch->waiters.observed)
        put_news(command, watch);
    for (const redis_waiter *waiter = watch->waiters.first; waiter; waiter = waiter->next)
        put_waiter(command, watch, waiter->id);
}

/* Have the commands sent. */
static void send_soon(redis_subs *self)
{
    self->host->wake(self->host);
}

static void queue_up(const redis_watch *watch)
{
    redis_waiter *waiter = simba__redis_waiters_queue_up(watch->waiters.first);
    for (; waiter; waiter = simba__redis_waiters_queue_up(waiter->next))
        simba__redis_commands_tell(&watch->node->commands, REDIS_REJOIN, watch->mutex, 1,
                                   (const char *const[]){waiter->id});
}

/* Carry out the actions of an event. `id` and `nonce`: the contender that the event was about, if there was one. */
static void act_for(redis_subs *self, redis_watch *watch, unsigned actions, const char *id, uint64_t nonce)
{
    const simba_push changed = {.kind = SIMBA_PUSH_CHANGED};
    const simba_push released = {.kind = SIMBA_PUSH_RELEASED};
    const simba_push noted = {.kind = SIMBA_PUSH_NOTED};
    sort_in(self, watch);
    if (actions & REDIS_SUBSCRIBE)
        put_all("SUBSCRIBE", watch);
    if (actions & REDIS_SUBSCRIBE_NEWS)
        put_news("SUBSCRIBE", watch);
    if (actions & REDIS_UNSUBSCRIBE_NEWS)
        put_news("UNSUBSCRIBE", watch);
    if (actions & REDIS_SUBSCRIBE_ID)
        put_waiter("SUBSCRIBE", watch, id);
    if (actions & REDIS_CONFIRM)
        simba__redis_put(&watch->node->pushes.link.out, 2, (const char *const[]){"PING", watch->mutex});
    if (actions & REDIS_UNSUBSCRIBE)
        put_all("UNSUBSCRIBE", watch);
    if (actions & REDIS_UNSUBSCRIBE_ID)
        put_waiter("UNSUBSCRIBE", watch, id);
    if (actions & REDIS_QUEUE_UP)
        queue_up(watch);
    if (actions & ~(unsigned)(REDIS_TELL_CHANGED | REDIS_TELL_RELEASED | REDIS_TELL_ID | REDIS_TELL_NOTED))
        send_soon(self);
    if (actions & REDIS_TELL_CHANGED)
        self->host->push(self->host, watch->topic, &changed);
    if (actions & REDIS_TELL_RELEASED)
        self->host->push(self->host, watch->topic, &released);
    if (actions & REDIS_TELL_NOTED)
        self->host->push(self->host, watch->topic, &noted);
    if (actions & REDIS_TELL_ID)
        self->host->push_to(self->host, watch->mutex, nonce, &changed);
}

static void act(redis_subs *self, redis_watch *watch, unsigned actions)
{
    act_for(self, watch, actions, "", 0);
}

/* --- messages --------------------------------------------------------------------------------------- */

static void hear_standby(redis_subs *self, redis_watch *watch, const char *text)
{
    const simba_local now = self->host->now(self->host);
    if (strncmp(text, "standby ", 8) == 0)
        act(self, watch, simba__redis_waiters_standby(&watch->waiters, now, self->host->random(self->host)));
}

/* The text behind the word, if the message is about our database. NULL: it is not, or it is another word. */
static const char *behind(const redis_subs *self, const char *text, const char *word)
{
    char first[48];
    const long db = self->nodes->conns.options->login.db;
    const int length =
        db == 0 ? snprintf(first, sizeof first, "%s", word) : snprintf(first, sizeof first, "%s/%ld", word, db);
    return strncmp(text, first, (size_t)length) == 0 ? text + length : NULL;
}

/* Anybody can publish. So a message is never passed on: it only makes us ask the store, whose answer counts. */
static void hear_release(redis_subs *self, redis_watch *watch, const char *text)
{
    const char *rest = behind(self, text, "released");
    if (rest && *rest == '\0')
        act(self, watch, simba__redis_waiters_news(&watch->waiters));
}

static void hear_note(redis_subs *self, redis_watch *watch, const char *text)
{
    const char *rest = behind(self, text, "noted");
    if (rest && *rest == '\0')
        act(self, watch, simba__redis_waiters_noted(&watch->waiters));
}

static void hear_grant(redis_subs *self, redis_watch *watch, const char *text)
{
    if (strncmp(text, "acquired@@", 10) == 0)
        act(self, watch, simba__redis_waiters_news(&watch->waiters));
}

/* " NONCE MUTEX" */
static void hear_revocation(redis_subs *self, const char *text)
{
    const char *rest = behind(self, text, "revoked");
    const char *end;
    if (!rest || *rest != ' ' || rest[1] < '0' || rest[1] > '9')
        return;
    const uint64_t nonce = simba__redis_nonce_read(rest + 1, &end);
    const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    if (*end == ' ' && strlen(end + 1) <= SIMBA_MUTEX_BYTES)
        self->host->push_to(self->host, end + 1, nonce, &push);
}

static void hear_invitation(redis_subs *self, redis_watch *watch, const char *id, const char *text)
{
    if (strncmp(text, "released@@", 10) == 0)
        act(self, watch, simba__redis_waiters_invitation(&watch->waiters, id));
}

static redis_watch *find_named(redis_subs *self, const char *from, size_t length)
{
    char mutex[SIMBA_MUTEX_BYTES + 1];
    if (length >= sizeof mutex)
        return NULL;
    memcpy(mutex, from, length);
    mutex[length] = '\0';
    return find(self, mutex);
}

/* A mutex and an id may each have "}:" in them: then only our table knows where one ends and the other begins. */
static void hear(redis_subs *self, const char *channel, const char *text)
{
    static const char prefix[] = "simba:{";
    if (strcmp(channel, revocations) == 0)
        hear_revocation(self, text);
    if (strncmp(channel, prefix, sizeof prefix - 1) != 0)
        return;
    const char *name = channel + sizeof prefix - 1;
    const size_t length = strlen(name);
    redis_watch *watch;
    for (const char *at = strstr(name, "}@@"); at; at = strstr(at + 1, "}@@")) {
        watch = find_named(self, name, (size_t)(at - name));
        if (watch && at[3] == '\0')
            hear_release(self, watch, text);
        else if (watch && strcmp(at + 3, "@@") == 0)
            hear_note(self, watch, text);
        else if (watch)
            hear_standby(self, watch, text);
    }
    if (length > 1 && name[length - 1] == '}' && (watch = find_named(self, name, length - 1)) != NULL)
        hear_grant(self, watch, text);
    for (const char *at = strstr(name, "}:"); at; at = strstr(at + 1, "}:")) {
        watch = find_named(self, name, (size_t)(at - name));
        if (watch)
            hear_invitation(self, watch, at + 2, text);
    }
}

static void hear_pong(redis_node *node, const char *mutex)
{
    redis_subs *self = node->all->subs;
    redis_watch *watch = find(self, mutex);
    if (watch && watch->node == node)
        act(self, watch, simba__redis_waiters_confirmed(&watch->waiters));
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

/* The map of the slots is out of date. When the new one has come, the client subscribes at the new servers. */
static void look_for_slots(redis_node *node)
{
    if (node->all->topology->lost)
        node->all->topology->lost(node);
}

/* Servers before 7.0 do not know sharded pub/sub, and a server may not permit it to our user. Then publishers fall back
 * on PUBLISH, which every server knows. */
static void on_error(redis_conn *conn, const char *text)
{
    redis_node *node = conn->owner;
    const bool cluster = conn->options->kind == REDIS_CLUSTER;
    if (cluster && (strncmp(text, "MOVED ", 6) == 0 || strncmp(text, "CLUSTERDOWN", 11) == 0))
        look_for_slots(node);
    else if (cluster && (strncmp(text, "ERR unknown command", 19) == 0 || strstr(text, "'ssubscribe'")))
        node->has_no_shards = true;
    else
        simba__redis_conn_refused(conn, text);
}

/* A server that gives a slot away ends the subscriptions to its channels; the client ends those that nobody needs. */
static void on_unsubscribed(redis_node *node, const char *channel)
{
    static const char prefix[] = "simba:{";
    redis_subs *self = node->all->subs;
    if (strncmp(channel, prefix, sizeof prefix - 1) != 0)
        return;
    const char *name = channel + sizeof prefix - 1;
    for (const char *at = strchr(name, '}'); at; at = strchr(at + 1, '}')) {
        const redis_watch *watch = find_named(self, name, (size_t)(at - name));
        if (watch && watch->node == node && watch->waiters.hearing != REDIS_DEAF) {
            look_for_slots(node);
            return;
        }
    }
}

static bool is_message(const char *kind)
{
    return strcmp(kind, "message") == 0 || strcmp(kind, "smessage") == 0;
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_node *node = conn->owner;
    redis_subs *self = node->all->subs;
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(conn, reply->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && is_text(reply->element[0]) &&
               is_text(reply->element[1]) && strcmp(reply->element[0]->str, "sunsubscribe") == 0) {
        on_unsubscribed(node, reply->element[1]->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && is_text(reply->element[0]) &&
               is_text(reply->element[1]) && is_text(reply->element[2])) {
        if (is_message(reply->element[0]->str))
            hear(self, reply->element[1]->str, reply->element[2]->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_text(reply->element[1])) {
        hear_pong(node, reply->element[1]->str);
    } else if (is_text(reply)) {
        hear_pong(node, reply->str); /* the form of a pong while nothing is subscribed */
    }
}

/* --- the fate of the connection ----------------------------------------------------------------------- */

/* Send this event to every watch on this node. */
static void each(const redis_node *node, unsigned (*event)(redis_waiters *w))
{
    redis_subs *self = node->all->subs;
    for (redis_watch *watch = first(self); watch; watch = after(self, watch))
        if (watch->node == node)
            act(self, watch, event(&watch->waiters));
}

static void on_up(redis_conn *conn)
{
    ((redis_node *)conn->owner)->has_no_shards = false; /* until the server says otherwise */
    simba__redis_put(&conn->link.out, 2, (const char *const[]){"SUBSCRIBE", revocations});
    each(conn->owner, simba__redis_waiters_up);
}

static void on_down(redis_conn *conn)
{
    each(conn->owner, simba__redis_waiters_down);
    /* A lost connection comes back, and callers get the error. A refusal is for a person to look at, so it is a
     * warning. */
    const bool away = simba__is_transient(conn->link.error.code);
    if (conn->link.failures == 1)
        conn->link.host->log(conn->link.host, away ? SIMBA_LOG_INFO : SIMBA_LOG_WARN, "%s; no pushes until it is back",
                             conn->link.error.text);
}

const redis_conn_events simba__redis_subs_events = {.up = on_up, .answer = on_answer, .down = on_down};

static void send_all(redis_subs *self)
{
    for (redis_node *node = self->nodes->first; node; node = node->next)
        simba__link_flush(&node->pushes.link);
}

/* --- chores ------------------------------------------------------------------------------------------- */

static void on_chores(simba_timer *timer, simba_local now)
{
    redis_subs *self = (redis_subs *)(void *)((char *)timer - offsetof(redis_subs, chores));
    for (simba__list_item *item = self->looks.first, *next; item; item = next) {
        redis_watch *watch = SIMBA__OF_ITEM(item, redis_watch, looks);
        next = item->next;
        if (watch->waiters.look_at.ns > now.ns)
            set_chores(self, watch->waiters.look_at);
        else
            act(self, watch, simba__redis_waiters_look(&watch->waiters));
    }
    while (self->idle.first) {
        redis_watch *watch = SIMBA__OF_ITEM(self->idle.first, redis_watch, idle);
        if (watch->waiters.idle_until.ns > now.ns) {
            set_chores(self, watch->waiters.idle_until);
            break;
        }
        act(self, watch, simba__redis_waiters_moved(&watch->waiters));
        drop(self, watch);
    }
    send_all(self);
}

void simba__redis_subs_woken(redis_subs *self)
{
    while (self->due.first) {
        redis_watch *watch = SIMBA__OF_ITEM(self->due.first, redis_watch, due);
        act(self, watch, simba__redis_waiters_woken(&watch->waiters));
    }
    send_all(self);
}

/* --- who waits here ----------------------------------------------------------------------------------- */

void simba__redis_subs_waits(redis_subs *self, const simba_request *request)
{
    redis_watch *watch = make(self, request->mutex);
    if (watch)
        act_for(self, watch, simba__redis_waiters_waits(&watch->waiters, request->id, request->nonce), request->id,
                request->nonce);
}

void simba__redis_subs_left(redis_subs *self, const simba_request *request)
{
    redis_watch *watch = find(self, request->mutex);
    const bool granted = request->op == SIMBA_OP_ACQUIRE;
    if (watch)
        act_for(self, watch, simba__redis_waiters_left(&watch->waiters, request->id, request->nonce, granted),
                request->id, request->nonce);
}

void simba__redis_subs_foreign(redis_subs *self, const char *mutex, const simba_reply *reply)
{
    redis_watch *watch = find(self, mutex);
    const int64_t left_ms = reply->owner.transition_at_ms - reply->now_ms;
    const simba_local now = self->host->now(self->host);
    if (watch)
        act(self, watch, simba__redis_waiters_foreign(&watch->waiters, now, left_ms, reply->place));
}

void simba__redis_subs_holds(redis_node *node)
{
    if (node->pushes.link.state == SIMBA__LINK_CLOSED)
        simba__link_open(&node->pushes.link);
}

const char *simba__redis_subs_invited(redis_subs *self, const char *mutex)
{
    const redis_watch *watch = find(self, mutex);
    return watch ? simba__redis_waiters_invited(&watch->waiters) : NULL;
}

void simba__redis_subs_named(redis_subs *self, const char *mutex)
{
    redis_watch *watch = find(self, mutex);
    if (watch)
        simba__redis_waiters_named(&watch->waiters);
}

/* --- the store's side --------------------------------------------------------------------------------- */

int simba__redis_subs_init(redis_subs *self, redis_nodes *nodes)
{
    self->nodes = nodes;
    self->host = nodes->conns.links.host;
    self->chores.fire = on_chores;
    return self->host->timer_add(self->host, &self->chores);
}

static void listen_for(redis_subs *self, redis_watch *watch)
{
    redis_conn *pushes = &watch->node->pushes;
    if (pushes->link.state == SIMBA__LINK_CLOSED)
        simba__link_open(&pushes->link);
    else if (pushes->link.state == SIMBA__LINK_UP)
        act(self, watch, simba__redis_waiters_up(&watch->waiters));
}

void simba__redis_subs_moved(redis_subs *self)
{
    for (redis_watch *watch = first(self); watch; watch = after(self, watch)) {
        redis_node *node = self->nodes->topology->route(self->nodes, watch->mutex);
        if (node == watch->node)
            continue;
        act(self, watch, simba__redis_waiters_moved(&watch->waiters));
        watch->node = node;
        if (watch->topic)
            listen_for(self, watch);
    }
    send_soon(self);
}

bool simba__redis_subs_needs(const redis_node *node)
{
    const redis_subs *self = node->all->subs;
    for (const redis_watch *watch = first(self); watch; watch = after(self, watch))
        if (watch->node == node && watch->topic)
            return true;
    return false;
}

int simba__redis_subs_watch(redis_subs *self, simba_topic *topic)
{
    redis_watch *watch = make(self, topic->mutex);
    if (!watch)
        return SIMBA_ENOMEM;
    watch->topic = topic;
    topic->backend_data = watch;
    act(self, watch, simba__redis_waiters_watch(&watch->waiters, topic->observed));
    listen_for(self, watch);
    send_soon(self);
    return 0;
}

void simba__redis_subs_unwatch(redis_subs *self, simba_topic *topic)
{
    redis_watch *watch = topic->backend_data;
    topic->backend_data = NULL;
    watch->topic = NULL;
    act(self, watch, simba__redis_waiters_unwatch(&watch->waiters, self->host->now(self->host)));
}

void simba__redis_subs_close(redis_subs *self)
{
    self->host->timer_clear(self->host, &self->chores);
}

void simba__redis_subs_fini(redis_subs *self)
{
    for (redis_watch *watch = first(self), *next; watch; watch = next) {
        next = after(self, watch);
        drop(self, watch);
    }
    simba__table_fini(&self->watches);
}
