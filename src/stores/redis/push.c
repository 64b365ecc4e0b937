/* A server's connection for pushes: subscribes for those who wait and watch here, and tells the client of what is heard.
 * waiters.c decides what to subscribe to and whom to tell. The store connects when it first needs to hear anything of a server;
 * one connection serves all. A client that holds any mutex also hears of every grant that is forced away, which is rare.
 *
 * Anybody can publish. So a message is never passed on: it only makes the client ask the store, whose answer counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "stores/redis/waiters.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

enum { CHANNEL_SIZE = SIMBA_MUTEX_BYTES + SIMBA_ID_MAX + 32 };

static const char revocations[] = "simba:@@revoked";
static const char prefix[] = "simba:{";

/* What is listened to: the invitations of a contender, or the news of a mutex. */
typedef struct redis_channel {
    simba__node entry;  /* in the table */
    redis_node *node;   /* the server that has the mutex */
    simba_watch *watch; /* NULL: the client does not watch it */
    simba__list_item idle, looks, due;
    redis_listener listener;
    const char *id; /* "": the news of the mutex */
    char mutex[];   /* and the id behind it */
} redis_channel;

/* --- the table ---------------------------------------------------------------------------------------- */

typedef struct redis_key {
    const char *mutex;
    const char *id;
} redis_key;

static uint64_t hash_of(const redis_key *key)
{
    return simba__hash(key->mutex) * 31 + simba__hash(key->id);
}

static bool is_of(const simba__node *entry, const void *sought)
{
    const redis_channel *channel = SIMBA__OF_NODE(entry, const redis_channel, entry);
    const redis_key *key = sought;
    return strcmp(channel->mutex, key->mutex) == 0 && strcmp(channel->id, key->id) == 0;
}

static redis_channel *of_entry(simba__node *entry)
{
    return entry ? SIMBA__OF_NODE(entry, redis_channel, entry) : NULL;
}

static redis_channel *first(const redis_store *store)
{
    return of_entry(simba__table_first(&store->pushes.channels));
}

static redis_channel *after(const redis_store *store, const redis_channel *channel)
{
    return of_entry(simba__table_next(&store->pushes.channels, &channel->entry));
}

/* NULL: there is none. */
static redis_channel *find(const redis_store *store, const char *mutex, const char *id)
{
    const redis_key key = {mutex, id};
    return of_entry(simba__table_find(&store->pushes.channels, hash_of(&key), is_of, &key));
}

static void set_timer(redis_store *store, simba_local at)
{
    simba_timer *timer = &store->pushes.timer;
    if (timer->index == 0 || at.ns < timer->at.ns)
        store->host->timer_set(store->host, timer, at);
}

/* Put it at the end of the list unless it is in there; or take it out. */
static void set_in(simba__list *list, simba__list_item *item, bool in)
{
    if (!in)
        simba__list_remove(item);
    else if (!item->list)
        simba__list_append(list, item);
}

/* Put the channel into the lists that its state calls for. */
static void sort_in(redis_store *store, redis_channel *channel)
{
    const redis_listener *l = &channel->listener;
    set_in(&store->pushes.idle, &channel->idle, l->idle_until.ns != 0);
    set_in(&store->pushes.looks, &channel->looks, l->look_at.ns != 0);
    if (l->idle_until.ns != 0)
        set_timer(store, l->idle_until);
    if (l->look_at.ns != 0)
        set_timer(store, l->look_at);
}

/* Find the channel or make an idle one. NULL: out of memory. */
static redis_channel *make(redis_store *store, const char *mutex, const char *id)
{
    const redis_key key = {mutex, id};
    const size_t length = strlen(mutex) + 1;
    redis_channel *channel = find(store, mutex, id);
    if (channel || !simba__table_reserve(&store->pushes.channels))
        return channel;
    channel = simba__calloc(1, sizeof *channel + length + strlen(id) + 1);
    if (!channel)
        return NULL;
    memcpy(channel->mutex, mutex, length);
    channel->id = strcpy(channel->mutex + length, id);
    channel->node = store->topology->route(store, mutex);
    simba__redis_listener_init(&channel->listener, store->host->now(store->host));
    simba__table_add(&store->pushes.channels, &channel->entry, hash_of(&key));
    sort_in(store, channel);
    return channel;
}

static void drop(redis_store *store, redis_channel *channel)
{
    simba__list_remove(&channel->idle);
    simba__list_remove(&channel->looks);
    simba__list_remove(&channel->due);
    simba__table_remove(&store->pushes.channels, &channel->entry);
    simba__redis_listener_fini(&channel->listener);
    simba__free(channel);
}

/* --- doing -------------------------------------------------------------------------------------------- */

/* How many channels of the server it is: of JVM contenders' messages, and of ours by shard. */
static unsigned count_of(const redis_channel *channel)
{
    const redis_conn *conn = &channel->node->pushes;
    const bool shards = conn->options->kind == REDIS_CLUSTER && conn->has_shards;
    return (channel->id[0] ? 1U : 2U) * (shards ? 2U : 1U);
}

/* `command`: SUBSCRIBE or UNSUBSCRIBE. */
static void put(const char *command, const redis_channel *channel)
{
    redis_conn *conn = &channel->node->pushes;
    const bool shards = conn->options->kind == REDIS_CLUSTER && conn->has_shards;
    const unsigned names = channel->id[0] ? 1 : 2;
    char name[CHANNEL_SIZE];
    char by_shard[16];
    snprintf(by_shard, sizeof by_shard, "S%s", command);
    for (unsigned i = 0; i < names; i++) {
        snprintf(name, sizeof name, "%s%s}%s%s", prefix, channel->mutex,
                 channel->id[0] ? ":"
                 : i > 0        ? "@@"
                                : "",
                 channel->id);
        simba__redis_put(&conn->link.out, 2, (const char *const[]){command, name});
        if (shards)
            simba__redis_put(&conn->link.out, 2, (const char *const[]){by_shard, name});
    }
}

static void tell(redis_store *store, const redis_channel *channel, simba_push_kind kind)
{
    const simba_push push = {.kind = kind};
    if (channel->watch)
        store->host->push(store->host, channel->watch, &push);
    for (const redis_waiter *waiter = channel->listener.waiters; waiter; waiter = waiter->next)
        store->host->push_to(store->host, channel->mutex, waiter->nonce, &push);
}

/* Carry out the actions of an event. */
static void act(redis_store *store, redis_channel *channel, unsigned actions)
{
    sort_in(store, channel);
    if (actions & REDIS_SUBSCRIBE)
        put("SUBSCRIBE", channel);
    if (actions & REDIS_UNSUBSCRIBE)
        put("UNSUBSCRIBE", channel);
    if (actions & (REDIS_SUBSCRIBE | REDIS_UNSUBSCRIBE))
        store->host->wake(store->host); /* to send it */
    if (actions & REDIS_TELL_CHANGED)
        tell(store, channel, SIMBA_PUSH_CHANGED);
    if (actions & REDIS_TELL_RELEASED)
        tell(store, channel, SIMBA_PUSH_RELEASED);
    if (actions & REDIS_TELL_NOTED)
        tell(store, channel, SIMBA_PUSH_NOTED);
    if (actions & REDIS_DROP)
        drop(store, channel);
}

static void listen_for(redis_store *store, redis_channel *channel)
{
    redis_conn *pushes = &channel->node->pushes;
    if (channel->listener.idle_until.ns == 0 && pushes->link.state == SIMBA__LINK_CLOSED && !store->closing)
        simba__link_open(&pushes->link);
    if (simba__redis_conn_ready(pushes))
        act(store, channel, simba__redis_listener_up(&channel->listener, count_of(channel)));
    else
        sort_in(store, channel);
}

/* --- messages ----------------------------------------------------------------------------------------- */

/* The text behind the word, if the message is about our database. NULL: it is not, or it is another word. */
static const char *behind(const redis_store *store, const char *text, const char *word)
{
    char start[48];
    const long db = store->options.login.db;
    const int length =
        db == 0 ? snprintf(start, sizeof start, "%s", word) : snprintf(start, sizeof start, "%s/%ld", word, db);
    return strncmp(text, start, (size_t)length) == 0 ? text + length : NULL;
}

static bool begins_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}

/* "revoked NONCE MUTEX" */
static void hear_revocation(redis_store *store, const char *text)
{
    const char *rest = behind(store, text, "revoked");
    const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    char *end;
    if (!rest || *rest != ' ' || rest[1] < '0' || rest[1] > '9')
        return;
    const uint64_t nonce = strtoull(rest + 1, &end, 10);
    if (*end == ' ' && strlen(end + 1) <= SIMBA_MUTEX_BYTES)
        store->host->push_to(store->host, end + 1, nonce, &push);
}

/* `news`: the message came on the channel "simba:{M}@@". */
static void hear_message(redis_store *store, redis_channel *channel, bool news, const char *text)
{
    redis_listener *l = &channel->listener;
    const char *released = behind(store, text, "released");
    const char *noted = behind(store, text, "noted");
    unsigned actions = 0;
    if (channel->id[0] && begins_with(text, "released@@"))
        actions = simba__redis_listener_invited(l);
    else if (channel->id[0] && begins_with(text, "standby@@"))
        simba__redis_listener_standby(l, store->host->now(store->host), store->host->random(store->host));
    else if (!channel->id[0] && channel->watch && news && noted && *noted == '\0')
        actions = REDIS_TELL_NOTED;
    else if (!channel->id[0] && channel->watch &&
             (news ? released && *released == '\0' : begins_with(text, "acquired@@")))
        actions = REDIS_TELL_CHANGED;
    act(store, channel, actions);
}

/* The map of the slots is out of date. When the new one has come, the client subscribes at the new servers. */
static void look_for_slots(redis_node *node)
{
    if (node->store->topology->lost)
        node->store->topology->lost(node);
}

/* A confirmation, a message, or the end of a subscription, about every channel that this may name: a mutex and an id may each
 * have "}:" in them, and only our table knows where one ends and the other begins. */
static void hear(redis_node *node, const char *kind, const char *name, const char *text)
{
    redis_store *store = node->store;
    char mutex[SIMBA_MUTEX_BYTES + 1];
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return;
    name += sizeof prefix - 1;
    for (const char *at = strchr(name, '}'); at; at = strchr(at + 1, '}')) {
        const bool news = strcmp(at + 1, "@@") == 0;
        if ((size_t)(at - name) >= sizeof mutex || (at[1] != '\0' && at[1] != ':' && !news))
            continue;
        memcpy(mutex, name, (size_t)(at - name));
        mutex[at - name] = '\0';
        redis_channel *channel = find(store, mutex, at[1] == ':' ? at + 2 : "");
        if (!channel || channel->node != node)
            continue;
        redis_listener *l = &channel->listener;
        if (text) {
            hear_message(store, channel, news, text);
        } else if (strcmp(kind, "subscribe") == 0 || strcmp(kind, "ssubscribe") == 0) {
            act(store, channel, simba__redis_listener_confirmed(l));
        } else if (strcmp(kind, "sunsubscribe") == 0 && l->hearing == REDIS_HEARS) {
            simba__redis_listener_down(l); /* the server has given the slot away */
            look_for_slots(node);
        }
    }
}

/* Subscribe again, sooner or later: what was asked for and refused. */
static void ask_again(redis_node *node, bool now)
{
    redis_store *store = node->store;
    for (redis_channel *channel = first(store); channel; channel = after(store, channel))
        if (channel->node == node && channel->listener.hearing == REDIS_ASKED) {
            simba__redis_listener_down(&channel->listener);
            if (now)
                listen_for(store, channel);
        }
}

/* Servers before 7.0 do not know sharded pub/sub, and a server may not permit it to our user. Then publishers fall back on PUBLISH,
 * which every server knows. */
static void on_error(redis_conn *conn, const char *text)
{
    redis_node *node = conn->owner;
    const bool cluster = conn->options->kind == REDIS_CLUSTER;
    if (cluster && (begins_with(text, "MOVED ") || begins_with(text, "CLUSTERDOWN"))) {
        ask_again(node, false);
        look_for_slots(node);
    } else if (cluster && (begins_with(text, "ERR unknown command") || strstr(text, "'ssubscribe'"))) {
        const bool is_new = conn->has_shards;
        conn->has_shards = false;
        if (is_new)
            ask_again(node, true);
    } else {
        simba__redis_conn_refused(conn, text);
    }
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_node *node = conn->owner;
    if (reply->type == REDIS_REPLY_ERROR) {
        on_error(conn, reply->str);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || !simba__redis_is_text(reply->element[0]) ||
        !simba__redis_is_text(reply->element[1]))
        return; /* a pong */
    const char *kind = reply->element[0]->str;
    const char *name = reply->element[1]->str;
    const bool message = strcmp(kind, "message") == 0 || strcmp(kind, "smessage") == 0;
    if (message && !simba__redis_is_text(reply->element[2]))
        return;
    if (message && strcmp(name, revocations) == 0)
        hear_revocation(node->store, reply->element[2]->str);
    else
        hear(node, kind, name, message ? reply->element[2]->str : NULL);
}

/* --- the fate of the connection ----------------------------------------------------------------------- */

static void on_up(redis_conn *conn)
{
    redis_node *node = conn->owner;
    redis_store *store = node->store;
    simba__redis_put(&conn->link.out, 2, (const char *const[]){"SUBSCRIBE", revocations});
    for (redis_channel *channel = first(store); channel; channel = after(store, channel))
        if (channel->node == node)
            listen_for(store, channel);
}

static void on_down(redis_conn *conn)
{
    redis_node *node = conn->owner;
    redis_store *store = node->store;
    for (redis_channel *channel = first(store); channel; channel = after(store, channel))
        if (channel->node == node)
            simba__redis_listener_down(&channel->listener);
    /* A lost connection comes back, and callers get the error. A refusal is for a person to look at, so it is a warning. */
    const bool away = simba__is_transient(conn->link.error.code);
    if (conn->link.failures == 1)
        store->host->log(store->host, away ? SIMBA_LOG_INFO : SIMBA_LOG_WARN, "%s; no pushes until it is back",
                         conn->link.error.text);
}

const redis_conn_events simba__redis_push_events = {.up = on_up, .answer = on_answer, .down = on_down};

static void send_all(redis_store *store)
{
    for (redis_node *node = store->first; node; node = node->next)
        if (simba__redis_conn_ready(&node->pushes))
            simba__link_flush(&node->pushes.link);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    redis_store *store = SIMBA__OF_ITEM(timer, redis_store, pushes.timer);
    for (simba__list_item *item = store->pushes.looks.first, *next; item; item = next) {
        redis_channel *channel = SIMBA__OF_ITEM(item, redis_channel, looks);
        next = item->next;
        act(store, channel,
            channel->listener.look_at.ns <= now.ns ? simba__redis_listener_tick(&channel->listener, now) : 0);
    }
    for (simba__list_item *item = store->pushes.idle.first, *next; item; item = next) {
        redis_channel *channel = SIMBA__OF_ITEM(item, redis_channel, idle);
        next = item->next;
        if (channel->listener.idle_until.ns > now.ns) {
            set_timer(store, channel->listener.idle_until);
            break;
        }
        const unsigned actions = simba__redis_listener_tick(&channel->listener, now);
        if (actions & REDIS_DROP)
            act(store, channel, actions);
        else
            set_timer(store, (simba_local){now.ns + 1000 * SIMBA__NS_PER_MS}); /* not confirmed yet */
    }
    send_all(store);
}

void simba__redis_pushes_woken(redis_store *store)
{
    while (store->pushes.due.first) {
        redis_channel *channel = SIMBA__OF_ITEM(store->pushes.due.first, redis_channel, due);
        simba__list_remove(&channel->due);
        act(store, channel, channel->watch ? REDIS_TELL_CHANGED : 0);
    }
    send_all(store);
}

/* --- who waits here ----------------------------------------------------------------------------------- */

char simba__redis_hears(redis_store *store, const simba_request *request)
{
    redis_channel *channel = find(store, request->mutex, request->id);
    if (!channel)
        return '0';
    simba__redis_listener_join(&channel->listener, request->nonce);
    listen_for(store, channel);
    const char hears = simba__redis_listener_says(&channel->listener);
    channel->listener.queued |= hears == '1';
    return hears;
}

void simba__redis_refused(redis_store *store, const redis_call *call)
{
    const simba_request *request = call->request;
    const simba_push changed = {.kind = SIMBA_PUSH_CHANGED};
    redis_channel *channel = make(store, request->mutex, request->id);
    if (!channel)
        return;
    simba__redis_listener_join(&channel->listener, request->nonce);
    listen_for(store, channel);
    if (call->hears != '1' && channel->listener.hearing == REDIS_HEARS) /* confirmed since */
        store->host->push_to(store->host, request->mutex, request->nonce, &changed);
}

bool simba__redis_left(redis_store *store, const simba_request *request)
{
    redis_channel *channel = find(store, request->mutex, request->id);
    if (!channel)
        return false;
    simba__redis_listener_leave(&channel->listener, request->nonce, store->host->now(store->host));
    sort_in(store, channel);
    return channel->listener.queued;
}

void simba__redis_unqueued(redis_store *store, const simba_request *request)
{
    redis_channel *channel = find(store, request->mutex, request->id);
    if (channel)
        act(store, channel, simba__redis_listener_unqueued(&channel->listener));
}

void simba__redis_ask_after(redis_store *store, const simba_request *request, int64_t wait_ms)
{
    redis_channel *channel = request->queue ? make(store, request->mutex, request->id) : NULL;
    if (!channel || !simba__redis_listener_join(&channel->listener, request->nonce))
        return;
    simba__redis_listener_look(&channel->listener,
                               (simba_local){store->host->now(store->host).ns + wait_ms * SIMBA__NS_PER_MS});
    sort_in(store, channel);
}

void simba__redis_foreign(redis_store *store, const simba_request *request, const simba_reply *reply)
{
    redis_channel *channel = find(store, request->mutex, request->op == SIMBA_OP_ACQUIRE ? request->id : "");
    if (!channel)
        return;
    simba__redis_listener_foreign(&channel->listener, store->host->now(store->host),
                                  reply->owner.transition_at_ms - reply->now_ms, reply->place);
    sort_in(store, channel);
}

void simba__redis_holds(redis_node *node)
{
    if (node->pushes.link.state == SIMBA__LINK_CLOSED)
        simba__link_open(&node->pushes.link);
}

/* --- the store's side --------------------------------------------------------------------------------- */

int simba__redis_watch(redis_store *store, simba_watch *watch)
{
    redis_channel *channel = make(store, watch->mutex, "");
    if (!channel)
        return SIMBA_ENOMEM;
    channel->watch = watch;
    watch->backend_data = channel;
    simba__redis_listener_watch(&channel->listener);
    if (channel->listener.hearing == REDIS_HEARS)
        simba__list_append(&store->pushes.due, &channel->due);
    listen_for(store, channel);
    store->host->wake(store->host);
    return 0;
}

void simba__redis_unwatch(redis_store *store, simba_watch *watch)
{
    redis_channel *channel = watch->backend_data;
    watch->backend_data = NULL;
    channel->watch = NULL;
    simba__list_remove(&channel->due);
    simba__redis_listener_unwatch(&channel->listener, store->host->now(store->host));
    sort_in(store, channel);
}

void simba__redis_pushes_moved(redis_store *store)
{
    for (redis_channel *channel = first(store); channel; channel = after(store, channel)) {
        redis_node *node = store->topology->route(store, channel->mutex);
        if (node != channel->node && channel->listener.hearing != REDIS_DEAF) {
            put("UNSUBSCRIBE", channel);
            simba__redis_listener_down(&channel->listener);
        }
        channel->node = node;
        listen_for(store, channel);
    }
    store->host->wake(store->host);
}

bool simba__redis_pushes_need(const redis_node *node)
{
    for (const redis_channel *channel = first(node->store); channel; channel = after(node->store, channel))
        if (channel->node == node && channel->listener.idle_until.ns == 0)
            return true;
    return false;
}

int simba__redis_pushes_init(redis_store *store)
{
    store->pushes.timer.fire = on_timer;
    return store->host->timer_add(store->host, &store->pushes.timer);
}

void simba__redis_pushes_close(redis_store *store)
{
    store->host->timer_clear(store->host, &store->pushes.timer);
}

void simba__redis_pushes_fini(redis_store *store)
{
    for (redis_channel *channel = first(store), *next; channel; channel = next) {
        next = after(store, channel);
        drop(store, channel);
    }
    simba__table_fini(&store->pushes.channels);
}
