/* The subscription connections: that to a server is made when a mutex of it is first watched, and then one for all.
 *
 * scripts.c has the names of the channels. Of a mutex that is observed we hear of every grant and of every release of ours.
 * A contender that waits hears only of its own invitation, and that it comes next: if a fleet of waiters woke up at every
 * hand-over, that would be most of what it costs. A mutex is observed if somebody has asked to READ it, which contenders do
 * not do. A client that holds anything hears of every grant that is forced away, which is rare.
 *
 * A JVM contender tells nobody of its release but the first in the queue, which may be dead. So while a grant is foreign,
 * waiters and observers look at it now and then.
 *
 * A PING behind every SUBSCRIBE carries the name of the mutex, so its echo says that the subscription is in force: what
 * happened before it may have been missed, hence CHANGED.
 *
 * Whoever is invited usually wins and stops watching, and often waits again soon. So a subscription is kept for a moment
 * after nobody watches any more. That deceives nobody: who does not wait is not in the queue, and is not invited. */
#include "backends/redis/subs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/reply.h"
#include "util/mem.h"

enum {
    GRACE_MS = 105,     /* a little longer than the scripts keep a mutex for whom they invited */
    GRACE_MORE_MS = 45, /* at most, by chance, so that not all come at once */
    LOOK_MS = 250,      /* between looks at a foreign grant; more for those that come later in the queue */
    PING_MS = 10000,    /* of silence */
    GONE_MOST = 64,     /* channels of contenders that do not wait any more, per mutex */
    CHANNEL_SIZE = SIMBA_MUTEX_BYTES + SIMBA_ID_MAX + 32,
};

static const char revocations[] = "simba:@@revoked";

/* --- channels --------------------------------------------------------------------------------------- */

static void put_channel(const char *command, const redis_watch *watch, const char *suffix, const char *id)
{
    char channel[CHANNEL_SIZE];
    snprintf(channel, sizeof channel, "simba:{%s}%s%s", watch->mutex, suffix, id);
    simba__redis_put(&watch->node->pushes.out, 2, (const char *const[]){command, channel});
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
    if (watch->observed)
        put_news(command, watch);
    for (const redis_waiter *w = watch->waiters; w; w = w->next)
        put_waiter(command, watch, w->id);
}

static void put_ping(redis_node *node, const char *text)
{
    simba__redis_put(&node->pushes.out, 2, (const char *const[]){"PING", text});
}

static void subscribe(redis_watch *watch)
{
    watch->asked = true;
    watch->confirmed = false;
    put_all("SUBSCRIBE", watch);
    put_ping(watch->node, watch->mutex);
}

/* What was put is sent before the turn ends. */
static void send_soon(redis_subs *self)
{
    self->host->wake(self->host);
}

/* --- telling ---------------------------------------------------------------------------------------- */

static void tell(redis_subs *self, redis_watch *watch, const simba_push *push)
{
    if (watch->topic)
        self->host->push(self->host, watch->topic, push);
    else
        watch->missed = true;
}

static void tell_kind(redis_subs *self, redis_watch *watch, simba_push_kind kind)
{
    const simba_push push = {.kind = kind};
    tell(self, watch, &push);
}

static void look_at(redis_subs *self, redis_watch *watch, simba_local at)
{
    watch->look_at = at;
    if (!watch->will_look) {
        watch->will_look = true;
        watch->look_next = self->looks;
        self->looks = watch;
    }
    simba__redis_watch_chores(self, at);
}

static void begin_grace(redis_subs *self, redis_watch *watch)
{
    const int64_t ms = GRACE_MS + (int64_t)(self->host->random(self->host) % GRACE_MORE_MS);
    look_at(self, watch, simba__redis_later(self->host->now(self->host), ms));
}

static bool waits_here(const redis_watch *watch, const char *id)
{
    for (const redis_waiter *w = watch->waiters; w; w = w->next)
        if (w->here && strcmp(w->id, id) == 0)
            return true;
    return false;
}

static bool is_waited_for(const redis_watch *watch)
{
    for (const redis_waiter *w = watch->waiters; w; w = w->next)
        if (w->here)
            return true;
    return false;
}

/* --- messages --------------------------------------------------------------------------------------- */

/* Whoever of ours it is that stands by, and however often the mutex changes hands meanwhile: in a moment one of us asks. */
static void hear_standby(redis_subs *self, redis_watch *watch, const char *text)
{
    if (strncmp(text, "standby ", 8) == 0)
        begin_grace(self, watch);
}

/* What follows the word, if that is about our database. NULL: it is not, or it is another word. */
static const char *behind(const redis_subs *self, const char *text, const char *word)
{
    char first[48];
    const long db = self->nodes->conns.options->login.db;
    const int length =
        db == 0 ? snprintf(first, sizeof first, "%s", word) : snprintf(first, sizeof first, "%s/%ld", word, db);
    return strncmp(text, first, (size_t)length) == 0 ? text + length : NULL;
}

/* Anybody can publish. So what is heard is never told on: it is a reason to ask the store, whose answer is. */
static void hear_release(redis_subs *self, redis_watch *watch, const char *text)
{
    const char *rest = behind(self, text, "released");
    if (rest && *rest == '\0')
        tell_kind(self, watch, SIMBA_PUSH_CHANGED);
}

static void hear_grant(redis_subs *self, redis_watch *watch, const char *text)
{
    if (strncmp(text, "acquired@@", 10) == 0)
        tell_kind(self, watch, SIMBA_PUSH_CHANGED);
}

/* " NONCE MUTEX" */
static void hear_revocation(redis_subs *self, const char *text)
{
    const char *rest = behind(self, text, "revoked");
    char *end;
    if (!rest || *rest != ' ' || rest[1] < '0' || rest[1] > '9')
        return;
    const uint64_t nonce = strtoull(rest + 1, &end, 10);
    const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    if (*end == ' ' && strlen(end + 1) <= SIMBA_MUTEX_BYTES)
        self->host->push_to(self->host, end + 1, nonce, &push);
}

static void hear_invitation(redis_subs *self, redis_watch *watch, const char *id, const char *text)
{
    /* Also for one that is not known to wait: the answer that says so may come after the invitation. */
    if (strncmp(text, "released@@", 10) != 0)
        return;
    snprintf(watch->invited, sizeof watch->invited, "%s", id);
    tell_kind(self, watch, SIMBA_PUSH_RELEASED);
}

static redis_watch *find_named(redis_subs *self, const char *from, size_t length)
{
    char mutex[SIMBA_MUTEX_BYTES + 1];
    if (length >= sizeof mutex)
        return NULL;
    memcpy(mutex, from, length);
    mutex[length] = '\0';
    return simba__redis_watch_find(self, mutex);
}

/* A name may have "}:" in it, and so may an id: then only our table knows where one ends and the other begins. */
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
    redis_watch *watch = simba__redis_watch_find(self, mutex);
    if (!watch || !watch->asked || watch->node != node)
        return;
    watch->confirmed = true;
    /* CHANGED makes one of them ask. The others may have been dropped from the queue when nobody heard their invitation. */
    for (const redis_waiter *w = watch->waiters; w; w = w->next)
        if (w->here)
            simba__redis_calls_tell(&watch->node->calls, REDIS_QUEUE_UP, mutex, 1, (const char *const[]){w->id});
    send_soon(self);
    tell_kind(self, watch, SIMBA_PUSH_CHANGED);
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_node *node = conn->owner;
    redis_subs *self = node->all->subs;
    node->pinged = false;
    if (reply->type == REDIS_REPLY_ERROR) {
        simba_error error;
        bool drop;
        simba__redis_error(&conn->at, reply->str, &error, &drop);
        simba__redis_conn_fail(conn, error.code, "%s", error.text);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && is_text(reply->element[0]) &&
               is_text(reply->element[1]) && is_text(reply->element[2])) {
        if (strcmp(reply->element[0]->str, "message") == 0)
            hear(self, reply->element[1]->str, reply->element[2]->str);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_text(reply->element[1])) {
        hear_pong(node, reply->element[1]->str);
    } else if (is_text(reply)) {
        hear_pong(node, reply->str); /* the form that it has while nothing is subscribed */
    }
}

/* --- the fate of the connection ----------------------------------------------------------------------- */

static void each(const redis_node *node, void (*visit)(redis_watch *watch))
{
    const redis_subs *self = node->all->subs;
    for (size_t i = 0; i < self->watch_capacity; i++)
        for (redis_watch *watch = self->buckets[i]; watch; watch = watch->next)
            if (watch->node == node)
                visit(watch);
}

static void forget_subscription(redis_watch *watch)
{
    watch->asked = watch->confirmed = false;
    watch->missed = true;
}

static void subscribe_again(redis_watch *watch)
{
    if (watch->topic)
        subscribe(watch);
}

static void on_up(redis_conn *conn)
{
    redis_node *node = conn->owner;
    node->pinged = false;
    simba__redis_put(&conn->out, 2, (const char *const[]){"SUBSCRIBE", revocations});
    each(node, subscribe_again);
    conn->host->timer_set(conn->host, &conn->timer, simba__redis_later(conn->host->now(conn->host), PING_MS));
}

static void on_down(redis_conn *conn)
{
    each(conn->owner, forget_subscription);
    if (conn->failures == 1)
        conn->host->log(conn->host, SIMBA_LOG_WARN, "%s; no pushes until it is back", conn->error.text);
}

static void on_tick(redis_conn *conn, simba_local now)
{
    redis_node *node = conn->owner;
    if (node->pinged) {
        simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: the subscription is silent", conn->at.where);
        return;
    }
    node->pinged = true;
    put_ping(node, "");
    conn->host->timer_set(conn->host, &conn->timer, (simba_local){now.ns + conn->options->timeout_ns});
    simba__redis_conn_flush(conn);
}

const redis_conn_events simba__redis_subs_events = {.up = on_up, .answer = on_answer, .down = on_down, .tick = on_tick};

static void send_all(redis_subs *self)
{
    for (redis_node *node = self->nodes->first; node; node = node->next)
        simba__redis_conn_flush(&node->pushes);
}

/* --- chores ------------------------------------------------------------------------------------------- */

static void look_at_those_due(redis_subs *self, simba_local now)
{
    redis_watch **link = &self->looks;
    while (*link) {
        redis_watch *watch = *link;
        if (watch->look_at.ns > now.ns) {
            simba__redis_watch_chores(self, watch->look_at);
            link = &watch->look_next;
            continue;
        }
        *link = watch->look_next;
        watch->will_look = false;
        if (watch->observed || is_waited_for(watch))
            tell_kind(self, watch, SIMBA_PUSH_CHANGED);
    }
}

static void look_at_idle(redis_subs *self, simba_local now)
{
    while (self->idle_first) {
        redis_watch *watch = self->idle_first;
        const simba_local end = simba__redis_later(watch->idle_since, REDIS_LINGER_MS);
        if (end.ns > now.ns) {
            simba__redis_watch_chores(self, end);
            break;
        }
        if (watch->asked)
            put_all("UNSUBSCRIBE", watch);
        simba__redis_watch_drop(self, watch);
    }
    send_all(self);
}

static void on_chores(simba_timer *timer, simba_local now)
{
    redis_subs *self = (redis_subs *)(void *)((char *)timer - offsetof(redis_subs, chores));
    look_at_those_due(self, now);
    look_at_idle(self, now);
}

void simba__redis_subs_woken(redis_subs *self)
{
    while (self->stale) {
        redis_watch *watch = self->stale;
        self->stale = watch->stale_next;
        watch->is_stale = false;
        tell_kind(self, watch, SIMBA_PUSH_CHANGED);
    }
    send_all(self);
}

static void make_stale(redis_subs *self, redis_watch *watch)
{
    send_soon(self);
    if (watch->is_stale)
        return;
    watch->is_stale = true;
    watch->stale_next = self->stale;
    self->stale = watch;
}

/* --- who waits here ----------------------------------------------------------------------------------- */

static redis_waiter *waiter_new(redis_subs *self, redis_watch *watch, const char *id)
{
    redis_waiter *w = simba__calloc(1, sizeof *w + strlen(id) + 1);
    if (!w)
        return NULL; /* no invitation then: the timers will do */
    strcpy(w->id, id);
    w->next = watch->waiters;
    watch->waiters = w;
    if (watch->asked) {
        put_waiter("SUBSCRIBE", watch, id);
        put_ping(watch->node, watch->mutex);
        send_soon(self);
    }
    return w;
}

void simba__redis_subs_waits(redis_subs *self, const simba_request *request)
{
    redis_watch *watch = simba__redis_watch_make(self, request->mutex);
    if (!watch)
        return;
    redis_waiter *kept = NULL;
    for (redis_waiter *w = watch->waiters; w; w = w->next) {
        if (strcmp(w->id, request->id) != 0)
            continue;
        if (w->here && w->nonce == request->nonce) {
            if (waits_here(watch, watch->invited))
                watch->invited[0] = '\0'; /* it was of no use */
            return;
        }
        if (!w->here)
            kept = w;
    }
    if (kept)
        watch->gone--;
    else
        kept = waiter_new(self, watch, request->id);
    if (!kept)
        return;
    kept->here = true;
    kept->nonce = request->nonce;
    if (strcmp(watch->invited, request->id) == 0) {
        /* Its invitation came before the answer that made it wait. This one has to ask: to any other the mutex is kept for
         * somebody else. */
        const simba_push push = {.kind = SIMBA_PUSH_CHANGED};
        self->host->push_to(self->host, request->mutex, request->nonce, &push);
    }
}

static void forget_waiter(redis_subs *self, redis_watch *watch, redis_waiter **link)
{
    redis_waiter *w = *link;
    if (watch->gone < GONE_MOST) {
        w->here = false;
        watch->gone++;
        return;
    }
    *link = w->next;
    if (watch->asked && !waits_here(watch, w->id)) {
        put_waiter("UNSUBSCRIBE", watch, w->id);
        send_soon(self);
    }
    simba__free(w);
}

void simba__redis_subs_left(redis_subs *self, const simba_request *request)
{
    redis_watch *watch = simba__redis_watch_find(self, request->mutex);
    if (!watch)
        return;
    if (request->op == SIMBA_OP_ACQUIRE || strcmp(watch->invited, request->id) == 0)
        watch->invited[0] = '\0';
    for (redis_waiter **link = &watch->waiters; *link; link = &(*link)->next)
        if ((*link)->here && (*link)->nonce == request->nonce && strcmp((*link)->id, request->id) == 0) {
            forget_waiter(self, watch, link);
            return;
        }
}

void simba__redis_subs_foreign(redis_subs *self, const char *mutex, const simba_reply *reply, int64_t place)
{
    redis_watch *watch = simba__redis_watch_find(self, mutex);
    const int64_t ms = LOOK_MS * (place > 0 ? place : 1);
    if (!watch || !watch->topic || reply->owner.transition_at_ms - reply->now_ms <= ms)
        return; /* whoever waits asks then anyway */
    const simba_local at = simba__redis_later(self->host->now(self->host), ms);
    if (!watch->will_look || at.ns < watch->look_at.ns)
        look_at(self, watch, at);
}

void simba__redis_subs_holds(redis_node *node)
{
    if (node->pushes.state == REDIS_CLOSED)
        simba__redis_conn_open(&node->pushes);
}

void simba__redis_subs_observed(redis_subs *self, const char *mutex)
{
    redis_watch *watch = simba__redis_watch_make(self, mutex);
    if (!watch || watch->observed)
        return;
    watch->observed = true;
    if (watch->asked) {
        put_news("SUBSCRIBE", watch);
        put_ping(watch->node, mutex);
        send_soon(self);
    }
}

const char *simba__redis_subs_invited(redis_subs *self, const char *mutex)
{
    const redis_watch *watch = simba__redis_watch_find(self, mutex);
    return watch && waits_here(watch, watch->invited) ? watch->invited : "";
}

/* --- the store's side --------------------------------------------------------------------------------- */

int simba__redis_subs_init(redis_subs *self, redis_nodes *nodes)
{
    self->nodes = nodes;
    self->host = nodes->conns.host;
    self->chores.fire = on_chores;
    return self->host->timer_add(self->host, &self->chores);
}

static void listen_for(redis_watch *watch)
{
    redis_conn *pushes = &watch->node->pushes;
    if (pushes->state == REDIS_CLOSED)
        simba__redis_conn_open(pushes);
    else if (pushes->state == REDIS_UP && !watch->asked)
        subscribe(watch);
}

/* What is told meanwhile is missed; that is made up for when the new place has confirmed it. */
static void move(redis_watch *watch, redis_node *node)
{
    if (watch->asked)
        put_all("UNSUBSCRIBE", watch);
    forget_subscription(watch);
    watch->node = node;
    if (watch->topic)
        listen_for(watch);
}

void simba__redis_subs_moved(redis_subs *self)
{
    for (size_t i = 0; i < self->watch_capacity; i++)
        for (redis_watch *watch = self->buckets[i]; watch; watch = watch->next) {
            redis_node *node = self->nodes->topology->route(self->nodes, watch->mutex);
            if (node != watch->node)
                move(watch, node);
        }
    send_soon(self);
}

bool simba__redis_subs_needs(const redis_node *node)
{
    const redis_subs *self = node->all->subs;
    for (size_t i = 0; i < self->watch_capacity; i++)
        for (const redis_watch *watch = self->buckets[i]; watch; watch = watch->next)
            if (watch->node == node && watch->topic)
                return true;
    return false;
}

int simba__redis_subs_watch(redis_subs *self, simba_topic *topic)
{
    redis_watch *watch = simba__redis_watch_make(self, topic->mutex);
    if (!watch)
        return SIMBA_ENOMEM;
    simba__redis_watch_busy(self, watch);
    watch->observed |= !watch->waiters;
    watch->topic = topic;
    topic->backend_data = watch;
    listen_for(watch);
    if (watch->confirmed && watch->missed)
        make_stale(self, watch);
    watch->missed = false;
    send_soon(self);
    return 0;
}

void simba__redis_subs_unwatch(redis_subs *self, simba_topic *topic)
{
    redis_watch *watch = topic->backend_data;
    topic->backend_data = NULL;
    watch->topic = NULL;
    watch->missed = false;
    simba__redis_watch_idle(self, watch);
}

void simba__redis_subs_close(redis_subs *self)
{
    self->host->timer_clear(self->host, &self->chores);
}

void simba__redis_subs_fini(redis_subs *self)
{
    for (size_t i = 0; i < self->watch_capacity; i++)
        while (self->buckets[i])
            simba__redis_watch_drop(self, self->buckets[i]);
    simba__free(self->buckets);
}
