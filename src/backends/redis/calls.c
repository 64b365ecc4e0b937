/* Requests on the command connection. All requests of a turn go out in one write. Answers come back in the order of the
 * errands, so a queue is enough to match them. An errand whose request has run out of time stays in the queue to take
 * the late answer.
 *
 * Renewals go first, however many there are. Of other requests, only as many are sent at a time as the server
 * answers in some hundredths of a second; the rest waits here, in order. If they queued at the server instead, the
 * server would carry out requests that have long run out of time while the client repeats them: an overload would
 * feed itself. */
#include "backends/redis/calls.h"

#include <stdio.h>
#include <string.h>

#include "backends/redis/command.h"
#include "backends/redis/reply.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

enum {
    HOPS_MOST = 8,
    BATCH_MOST = 64,        /* renewals in one script: nobody else is served meanwhile */
    UNANSWERED_MOST = 1024, /* errands that may be sent and not answered before others wait */
};

static redis_calls *of(redis_conn *conn)
{
    return conn->owner;
}

/* --- the queue of errands ---------------------------------------------------------------------------- */

static const char *leave_sent(redis_errand *errand);

static void append(redis_calls *self, redis_errand *errand)
{
    errand->at = self;
    errand->leave = leave_sent;
    errand->sent_at = self->host->now(self->host);
    errand->answers = self->answers;
    simba__ring_set(&self->sent, &errand->place, true);
    self->unanswered++;
    if (self->conn.link.timer.index == 0)
        self->host->timer_set(self->host, &self->conn.link.timer,
                              (simba_local){errand->sent_at.ns + self->options->timeout_ns});
}

/* A command of our own. NULL: out of memory. */
static redis_errand *append_own(redis_calls *self)
{
    redis_errand *errand = simba__redis_requests_begin(self->errands, NULL);
    if (errand)
        append(self, errand);
    return errand;
}

static redis_errand *first_sent(const redis_calls *self)
{
    simba__ring *first = simba__ring_first(&self->sent);
    return first ? SIMBA__OF_RING(first, redis_errand, place) : NULL;
}

static redis_errand *take(redis_calls *self)
{
    redis_errand *errand = first_sent(self);
    simba__ring_set(&self->sent, &errand->place, false);
    self->unanswered--;
    return errand;
}

static const char *leave_waiting(redis_errand *errand)
{
    const redis_calls *self = errand->at;
    simba__ring_set(NULL, &errand->place, false);
    return self->conn.link.at.where;
}

void simba__redis_calls_submit(redis_calls *self, redis_errand *errand)
{
    errand->at = self;
    errand->leave = leave_waiting;
    simba__ring_set(errand->request->op == SIMBA_OP_RENEW ? &self->renewals : &self->waiting, &errand->place, true);
}

redis_errand *simba__redis_calls_withdraw(redis_calls *self)
{
    simba__ring *renewal = simba__ring_first(&self->renewals);
    simba__ring *first = renewal ? renewal : simba__ring_first(&self->waiting);
    if (!first)
        return NULL;
    simba__ring_set(NULL, first, false);
    return SIMBA__OF_RING(first, redis_errand, place);
}

/* It stays in the queue to swallow the late answer. */
static const char *leave_sent(redis_errand *errand)
{
    redis_calls *self = errand->at;
    /* Nothing came since that renewal was sent. TCP repeats what was lost in pauses that double: when the outage is over
     * the connection may be stuck for as long again, and with it all renewals. */
    if (errand->request->op == SIMBA_OP_RENEW && errand->answers == self->answers) {
        self->stuck = true;
        self->host->timer_set(self->host, &self->conn.link.timer, self->host->now(self->host));
    }
    self->events->lost(self);
    return self->conn.link.at.where;
}

/* --- sending ---------------------------------------------------------------------------------------- */

void simba__redis_calls_begin_script(redis_calls *self, redis_script script, const char *mutex, size_t argc)
{
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
    char number[24];
    simba__buffer *out = &self->conn.link.out;
    const size_t count = simba__redis_script_keys(script, self->options->kind == REDIS_CLUSTER, mutex, keys);
    snprintf(number, sizeof number, "%zu", count);
    simba__redis_put_count(out, 3 + count + argc);
    simba__redis_put_word(out, "EVALSHA");
    simba__redis_put_word(out, self->sha[script]);
    simba__redis_put_word(out, number);
    for (size_t i = 0; i < count; i++)
        simba__redis_put_word(out, keys[i]);
}

void simba__redis_calls_put_script(redis_calls *self, redis_script script, const char *mutex, size_t argc,
                                   const char *const *args)
{
    simba__redis_calls_begin_script(self, script, mutex, argc);
    for (size_t i = 0; i < argc; i++)
        simba__redis_put_word(&self->conn.link.out, args[i]);
}

/* Can renewals share a script? Not in a cluster: their keys are on different slots. */
static bool fits_batch(const redis_calls *self, const redis_errand *errand)
{
    return !errand->alone && self->options->kind != REDIS_CLUSTER;
}

static bool same_lease(const redis_errand *one, const redis_errand *other)
{
    return one->request->ttl_ms == other->request->ttl_ms &&
           one->request->transition_ms == other->request->transition_ms;
}

static void send_batch(redis_calls *self, redis_errand *const *batch, size_t count)
{
    batch[0]->batch = (unsigned)count;
    self->events->put_renewals(self, batch, count);
}

/* Those that can share a script. */
static void send_batches(redis_calls *self)
{
    redis_errand *batch[BATCH_MOST];
    size_t count = 0;
    for (simba__ring *place = self->renewals.after, *next; place != &self->renewals; place = next) {
        SIMBA__ASSERT(place); /* a ring has no end */
        redis_errand *errand = SIMBA__OF_RING(place, redis_errand, place);
        next = place->after;
        if (!fits_batch(self, errand))
            continue;
        if (count == BATCH_MOST || (count > 0 && !same_lease(batch[0], errand))) {
            send_batch(self, batch, count);
            count = 0;
        }
        simba__ring_set(&self->renewals, place, false);
        append(self, errand);
        batch[count++] = errand;
    }
    if (count > 0)
        send_batch(self, batch, count);
}

static void send_one(redis_calls *self, redis_errand *errand)
{
    /* The first answer is nobody's business: if it is an error, so is the second. */
    if (errand->asking && !append_own(self)) {
        simba__redis_requests_fail(errand, SIMBA_ENOMEM, "redis %s: out of memory", self->conn.link.at.where);
        return;
    }
    if (errand->asking)
        simba__redis_put(&self->conn.link.out, 1, (const char *const[]){"ASKING"});
    append(self, errand);
    self->events->put(self, errand->request);
}

static bool is_confirmed(const simba_request *request)
{
    return request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW || request->op == SIMBA_OP_WRITE_NOTE;
}

static void send_waiting(redis_calls *self)
{
    bool may_grant = simba__ring_first(&self->renewals) != NULL;
    send_batches(self);
    while (simba__ring_first(&self->renewals))
        send_one(self, simba__redis_calls_withdraw(self));
    while (simba__ring_first(&self->waiting) && self->unanswered < UNANSWERED_MOST) {
        redis_errand *errand = simba__redis_calls_withdraw(self);
        may_grant |= is_confirmed(errand->request);
        send_one(self, errand);
    }
    if (may_grant)
        self->events->may_grant(self);
}

static bool load_script(redis_calls *self, redis_script script)
{
    char *text = simba__redis_script_text(script, self->options);
    redis_errand *errand = text ? append_own(self) : NULL;
    if (errand) {
        errand->script = script;
        simba__redis_put(&self->conn.link.out, 3, (const char *const[]){"SCRIPT", "LOAD", text});
    }
    simba__free(text);
    return errand != NULL;
}

static void load_scripts(redis_calls *self)
{
    self->loaded = 0;
    for (int script = 0; script < REDIS_SCRIPTS; script++)
        if (!load_script(self, (redis_script)script)) {
            simba__redis_calls_no_memory(self);
            return;
        }
}

void simba__redis_calls_no_memory(redis_calls *self)
{
    simba__link_fail(&self->conn.link, SIMBA_ENOMEM, "redis %s: out of memory", self->conn.link.at.where);
}

bool simba__redis_calls_ready(const redis_calls *self)
{
    return self->conn.link.state == SIMBA__LINK_UP && self->loaded == REDIS_SCRIPTS;
}

bool simba__redis_calls_idle(const redis_calls *self)
{
    return !simba__ring_first(&self->sent) && !simba__ring_first(&self->waiting) && !simba__ring_first(&self->renewals);
}

bool simba__redis_calls_put(redis_calls *self, size_t argc, const char *const *argv, redis_answer *answer, void *user)
{
    redis_errand *errand = self->conn.link.state == SIMBA__LINK_UP ? append_own(self) : NULL;
    if (!errand)
        return false;
    errand->answer = answer;
    errand->user = user;
    simba__redis_put(&self->conn.link.out, argc, argv);
    return true;
}

void simba__redis_calls_tell(redis_calls *self, redis_script script, const char *mutex, size_t argc,
                             const char *const *args)
{
    if (simba__redis_calls_ready(self) && append_own(self))
        simba__redis_calls_put_script(self, script, mutex, argc, args);
}

/* --- answers ---------------------------------------------------------------------------------------- */

bool simba__redis_calls_forward(redis_calls *to, redis_errand *errand, bool asking)
{
    if (errand->hops == HOPS_MOST - 1)
        return false;
    errand->hops++;
    errand->reloaded = false;
    errand->asking = asking;
    simba__redis_calls_submit(to, errand);
    to->host->wake(to->host);
    return true;
}

/* A flushed script cache is no reason to fail, once. Nor is it that the mutex is somewhere else. */
static bool try_again(redis_calls *self, redis_errand *errand, const char *error)
{
    if (self->events->redirected(self, errand, error))
        return true;
    if (strncmp(error, "NOSCRIPT", 8) != 0 || errand->reloaded)
        return false;
    errand->reloaded = true;
    simba__redis_calls_submit(self, errand);
    if (self->loaded == REDIS_SCRIPTS)
        load_scripts(self);
    return true;
}

static void take_request(redis_calls *self, redis_errand *errand, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        if (try_again(self, errand, reply->str))
            return;
        simba_error error;
        bool drop;
        simba__redis_error(&self->conn.link.at, reply->str, &error, &drop);
        simba__redis_requests_fail(errand, error.code, "%s", error.text);
        if (drop)
            simba__link_fail(&self->conn.link, error.code, "%s", error.text);
    } else if (!self->events->answer(self, errand, reply)) {
        simba__redis_requests_fail(errand, SIMBA_ECORRUPT, "redis %s: an answer of a form that no script of ours has",
                                   self->conn.link.at.where);
        simba__link_fail(&self->conn.link, SIMBA_EUNAVAILABLE, "redis %s: connection given up over an odd answer",
                         self->conn.link.at.where);
    }
}

/* Those that the script did not renew just like that are asked for one by one, and told why. */
static void take_renewal(redis_calls *self, redis_errand *errand, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_INTEGER) {
        take_request(self, errand, reply);
        return;
    }
    errand->alone = true;
    simba__redis_calls_submit(self, errand);
    self->host->wake(self->host);
}

static void take_load(redis_calls *self, redis_script script, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        simba__redis_conn_refused(&self->conn, reply->str);
    } else if (reply->type != REDIS_REPLY_STRING || reply->len != 40) {
        simba__link_fail(&self->conn.link, SIMBA_ESTORE, "redis %s: an odd answer to SCRIPT LOAD",
                         self->conn.link.at.where);
    } else {
        memcpy(self->sha[script], reply->str, 40);
        if (++self->loaded == REDIS_SCRIPTS) {
            send_waiting(self);
            self->events->up(self);
        }
    }
}

/* An answer that nobody waits for, or NULL: the connection is lost. */
static void take_own(redis_calls *self, redis_errand *errand, const redisReply *reply)
{
    const redis_script script = errand->script;
    redis_answer *answer = errand->answer;
    void *user = errand->user;
    simba__redis_requests_forget(errand);
    if (answer)
        answer(user, reply);
    else if (script != REDIS_SCRIPTS && reply)
        take_load(self, script, reply);
}

static void take_one(redis_calls *self, redis_errand *errand, const redisReply *reply)
{
    if (errand->request)
        take_request(self, errand, reply);
    else
        take_own(self, errand, reply);
}

/* One answer for as many errands as were sent together. An error is for all of them. */
static void take_batch(redis_calls *self, unsigned count, const redisReply *reply)
{
    const bool each = reply->type == REDIS_REPLY_ARRAY && reply->elements == count;
    for (unsigned i = 0; i < count && first_sent(self); i++) {
        redis_errand *errand = take(self);
        errand->batch = 0;
        if (!errand->request)
            simba__redis_requests_forget(errand);
        else if (each)
            take_renewal(self, errand, reply->element[i]);
        else
            take_request(self, errand, reply);
    }
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_calls *self = of(conn);
    if (!first_sent(self) && reply->type == REDIS_REPLY_ERROR) {
        simba__redis_conn_refused(conn, reply->str);
        return;
    }
    if (!first_sent(self)) {
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: an answer that nobody asked for",
                         conn->link.at.where);
        return;
    }
    self->answers++;
    const unsigned batch = first_sent(self)->batch;
    if (batch > 0)
        take_batch(self, batch, reply);
    else
        take_one(self, take(self), reply);
    if (self->unanswered == UNANSWERED_MOST / 2 && simba__ring_first(&self->waiting))
        self->host->wake(self->host); /* there is room for more */
}

/* --- the fate of the connection ----------------------------------------------------------------------- */

static void fail_waiting(redis_calls *self, const simba_error *error)
{
    for (redis_errand *errand; (errand = simba__redis_calls_withdraw(self)) != NULL;)
        simba__redis_requests_fail(errand, error->code, "%s", error->text);
}

static void fail_all(redis_calls *self, const simba_error *error)
{
    while (first_sent(self)) {
        redis_errand *errand = take(self);
        if (errand->request)
            simba__redis_requests_fail(errand, error->code, "%s", error->text);
        else
            take_own(self, errand, NULL);
    }
    fail_waiting(self, error);
    self->events->down(self, error);
}

static void on_up(redis_conn *conn)
{
    of(conn)->stuck = false;
    load_scripts(of(conn)); /* it may be another server, or the same one without its memory */
}

static void on_down(redis_conn *conn)
{
    redis_calls *self = of(conn);
    self->loaded = 0;
    if (conn->link.failures == 1)
        self->host->log(self->host, SIMBA_LOG_DEBUG, "%s", conn->link.error.text); /* those who ask are told */
    fail_all(self, &conn->link.error);
    self->events->lost(self);
}

static void on_tick(redis_conn *conn, simba_local now)
{
    redis_calls *self = of(conn);
    if (self->stuck)
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: no answer in time, so connecting anew",
                         self->conn.link.at.where);
    const redis_errand *first = first_sent(self);
    if (!first)
        return;
    const simba_local until = {first->sent_at.ns + self->options->timeout_ns};
    if (now.ns >= until.ns)
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: no answer for %lld ms", self->conn.link.at.where,
                         (long long)(self->options->timeout_ns / SIMBA__NS_PER_MS));
    else
        self->host->timer_set(self->host, &conn->link.timer, until);
}

static const redis_conn_events conn_events = {.up = on_up, .answer = on_answer, .down = on_down, .tick = on_tick};

/* --- the store's side --------------------------------------------------------------------------------- */

int simba__redis_calls_init(redis_calls *self, redis_conns *conns, redis_requests *errands,
                            const redis_calls_events *events, void *owner)
{
    self->errands = errands;
    self->host = conns->links.host;
    self->options = conns->options;
    self->events = events;
    self->owner = owner;
    simba__ring_init(&self->renewals);
    simba__ring_init(&self->waiting);
    simba__ring_init(&self->sent);
    return simba__redis_conn_init(&self->conn, conns, &conn_events, self);
}

void simba__redis_calls_flush(redis_calls *self)
{
    switch (self->conn.link.state) {
    case SIMBA__LINK_CLOSED:
        if (simba__ring_first(&self->renewals) || simba__ring_first(&self->waiting) || self->wanted)
            simba__link_open(&self->conn.link);
        self->wanted = false;
        break;
    case SIMBA__LINK_CONNECTING:
        if (simba__ring_first(&self->renewals))
            simba__link_hurry(&self->conn.link);
        break;
    case SIMBA__LINK_UP:
        if (simba__redis_calls_ready(self))
            send_waiting(self);
        simba__link_flush(&self->conn.link);
        break;
    case SIMBA__LINK_WAITING:
        if (simba__ring_first(&self->renewals))
            simba__link_hurry(&self->conn.link);
        if (self->conn.link.state == SIMBA__LINK_WAITING)
            fail_waiting(self, &self->conn.link.error);
        break;
    }
}

void simba__redis_calls_close(redis_calls *self, const simba_error *why)
{
    simba__redis_conn_close(&self->conn);
    self->conn.link.error = *why;
    self->loaded = 0;
    self->wanted = false;
    fail_all(self, why);
}

void simba__redis_calls_fini(redis_calls *self)
{
    simba__redis_conn_fini(&self->conn);
}
