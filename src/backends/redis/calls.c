/* Requests on the command connection. All that was submitted in a turn goes out in one write; the answers come back in
 * the order of the calls, so a queue of calls is all that is needed to tell whose they are. A request that is over its
 * deadline is failed there and then; its call stays in the queue to swallow the late answer. */
#include "backends/redis/calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/redis/reply.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

enum { KEY_SIZE = SIMBA_MUTEX_BYTES + 32, SPARE_ARGS = 12 };

typedef enum call_kind { CALL_REQUEST, CALL_LOAD, CALL_OWN } call_kind;

/* What a request has been through, in its backend_data. */
enum {
    RELOADED = 1, /* it came upon a server without our scripts */
    ASKING = 2,   /* to a server that does not have its slot yet */
    HOP = 4,      /* and more: how often it was sent on */
    HOPS_MOST = 8,
};

static unsigned marks_of(const simba_request *request)
{
    return (unsigned)(uintptr_t)request->backend_data;
}

static void set_marks(simba_request *request, unsigned marks)
{
    request->backend_data = (void *)(uintptr_t)marks;
}

struct redis_call {
    redis_call *next;
    call_kind kind;
    redis_script script;    /* LOAD */
    simba_request *request; /* REQUEST; NULL: over its deadline */
    redis_answer *answer;   /* OWN */
    void *user;
    simba_local sent_at;
    uint64_t answers; /* that had come when it was sent */
};

static redis_calls *of(redis_conn *conn)
{
    return conn->owner;
}

/* --- the queue of calls ----------------------------------------------------------------------------- */

static redis_call *append(redis_calls *self, call_kind kind)
{
    redis_call *call = self->spare;
    if (call)
        self->spare = call->next;
    else
        call = simba__malloc(sizeof *call);
    if (!call)
        return NULL;
    *call = (redis_call){.kind = kind, .sent_at = self->host->now(self->host), .answers = self->answers};
    *self->calls_last = call;
    self->calls_last = &call->next;
    if (self->conn.timer.index == 0)
        self->host->timer_set(self->host, &self->conn.timer,
                              (simba_local){call->sent_at.ns + self->options->timeout_ns});
    return call;
}

static redis_call take(redis_calls *self)
{
    redis_call *call = self->calls_first;
    const redis_call copy = *call;
    self->calls_first = call->next;
    if (!self->calls_first)
        self->calls_last = &self->calls_first;
    call->next = self->spare;
    self->spare = call;
    return copy;
}

static void put_waiting(redis_calls *self, simba_request *request)
{
    request->next = NULL;
    *self->waiting_last = request;
    self->waiting_last = &request->next;
    if (self->deadlines.index == 0 || request->deadline.ns < self->deadlines.at.ns)
        self->host->timer_set(self->host, &self->deadlines, request->deadline);
}

static simba_request *take_waiting(redis_calls *self)
{
    simba_request *request = self->waiting_first;
    if (request) {
        self->waiting_first = request->next;
        if (!self->waiting_first)
            self->waiting_last = &self->waiting_first;
    }
    return request;
}

/* --- sending ---------------------------------------------------------------------------------------- */

void simba__redis_calls_put_script(redis_calls *self, redis_script script, const char *mutex, size_t argc,
                                   const char *const *args)
{
    char keys[3][KEY_SIZE];
    snprintf(keys[0], KEY_SIZE, "simba:{%s}", mutex);
    snprintf(keys[1], KEY_SIZE, "simba:{%s}:fence", mutex);
    snprintf(keys[2], KEY_SIZE, "simba:{%s}:contender", mutex);
    const size_t count = script == REDIS_RENEW ? 2 : 3;
    const char *argv[6 + SPARE_ARGS] = {"EVALSHA", self->sha[script], count == 2 ? "2" : "3",
                                        keys[0],   keys[1],           keys[2]};
    for (size_t i = 0; i < argc; i++)
        argv[3 + count + i] = args[i];
    simba__redis_put(&self->conn.out, 3 + count + argc, argv);
}

void simba__redis_calls_fail(redis_calls *self, simba_request *request, int code, const char *format, ...)
{
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    self->events->failed(self, request, &error);
}

static void fail_for_memory(redis_calls *self, simba_request *request)
{
    simba__redis_calls_fail(self, request, SIMBA_ENOMEM, "redis %s: out of memory", self->conn.at.where);
}

static void send_waiting(redis_calls *self)
{
    bool may_grant = false;
    for (simba_request *request = take_waiting(self); request; request = take_waiting(self)) {
        /* The first answer is nobody's business: if it is an error, so is the second. */
        const bool asking = (marks_of(request) & ASKING) != 0;
        if (asking && !append(self, CALL_REQUEST)) {
            fail_for_memory(self, request);
            continue;
        }
        if (asking)
            simba__redis_put(&self->conn.out, 1, (const char *const[]){"ASKING"});
        redis_call *call = append(self, CALL_REQUEST);
        if (!call) {
            fail_for_memory(self, request);
            continue;
        }
        call->request = request;
        self->events->put(self, request);
        may_grant |= request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW;
    }
    if (may_grant)
        self->events->may_grant(self);
}

static void load_scripts(redis_calls *self)
{
    self->loaded = 0;
    for (int script = 0; script < REDIS_SCRIPTS; script++) {
        char *text = simba__redis_script_text((redis_script)script, self->options);
        redis_call *call = text ? append(self, CALL_LOAD) : NULL;
        if (call) {
            call->script = (redis_script)script;
            simba__redis_put(&self->conn.out, 3, (const char *const[]){"SCRIPT", "LOAD", text});
        } else {
            self->conn.out.failed = true; /* the next flush gives the connection up */
        }
        simba__free(text);
    }
}

bool simba__redis_calls_ready(const redis_calls *self)
{
    return self->conn.state == REDIS_UP && self->loaded == REDIS_SCRIPTS;
}

bool simba__redis_calls_idle(const redis_calls *self)
{
    return !self->calls_first && !self->waiting_first;
}

bool simba__redis_calls_put(redis_calls *self, size_t argc, const char *const *argv, redis_answer *answer, void *user)
{
    redis_call *call = self->conn.state == REDIS_UP ? append(self, CALL_OWN) : NULL;
    if (!call)
        return false;
    call->answer = answer;
    call->user = user;
    simba__redis_put(&self->conn.out, argc, argv);
    return true;
}

void simba__redis_calls_tell(redis_calls *self, redis_script script, const char *mutex, size_t argc,
                             const char *const *args)
{
    if (simba__redis_calls_ready(self) && append(self, CALL_REQUEST))
        simba__redis_calls_put_script(self, script, mutex, argc, args);
}

/* --- answers ---------------------------------------------------------------------------------------- */

bool simba__redis_calls_forward(redis_calls *to, simba_request *request, bool asking)
{
    const unsigned marks = (marks_of(request) & ~(unsigned)(RELOADED | ASKING)) + HOP;
    if (marks >= HOPS_MOST * HOP)
        return false;
    set_marks(request, asking ? marks | ASKING : marks);
    put_waiting(to, request);
    to->host->wake(to->host);
    return true;
}

simba_request *simba__redis_calls_withdraw(redis_calls *self)
{
    simba_request *first = self->waiting_first;
    self->waiting_first = NULL;
    self->waiting_last = &self->waiting_first;
    return first;
}

void simba__redis_calls_take_over(redis_calls *self, simba_request *request)
{
    put_waiting(self, request);
}

/* A flushed script cache is no reason to fail, once. Nor is it that the mutex is somewhere else. */
static bool try_again(redis_calls *self, simba_request *request, const char *error)
{
    if (self->events->redirected(self, request, error))
        return true;
    if (strncmp(error, "NOSCRIPT", 8) != 0 || (marks_of(request) & RELOADED))
        return false;
    set_marks(request, marks_of(request) | RELOADED);
    if (self->loaded == REDIS_SCRIPTS)
        load_scripts(self);
    put_waiting(self, request);
    return true;
}

static void take_request(redis_calls *self, const redis_call *call, const redisReply *reply)
{
    simba_request *request = call->request;
    if (!request)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (try_again(self, request, reply->str))
            return;
        simba_error error;
        bool drop;
        simba__redis_error(&self->conn.at, reply->str, &error, &drop);
        self->events->failed(self, request, &error);
        if (drop)
            simba__redis_conn_fail(&self->conn, error.code, "%s", error.text);
    } else if (!self->events->answer(self, request, call->sent_at, reply)) {
        simba__redis_calls_fail(self, request, SIMBA_ECORRUPT,
                                "redis %s: an answer of a form that no script of ours has", self->conn.at.where);
        simba__redis_conn_fail(&self->conn, SIMBA_EUNAVAILABLE, "redis %s: connection given up over an odd answer",
                               self->conn.at.where);
    }
}

static void take_load(redis_calls *self, redis_script script, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        simba_error error;
        bool drop;
        simba__redis_error(&self->conn.at, reply->str, &error, &drop);
        simba__redis_conn_fail(&self->conn, error.code, "%s", error.text);
        return;
    }
    if (reply->type != REDIS_REPLY_STRING || reply->len != 40) {
        simba__redis_conn_fail(&self->conn, SIMBA_ESTORE, "redis %s: an odd answer to SCRIPT LOAD",
                               self->conn.at.where);
        return;
    }
    memcpy(self->sha[script], reply->str, 40);
    if (++self->loaded == REDIS_SCRIPTS) {
        send_waiting(self);
        self->events->up(self);
    }
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_calls *self = of(conn);
    if (!self->calls_first) {
        simba_error error = {.code = SIMBA_EUNAVAILABLE, .text = "an answer that nobody asked for"};
        bool drop;
        if (reply->type == REDIS_REPLY_ERROR)
            simba__redis_error(&self->conn.at, reply->str, &error, &drop);
        simba__redis_conn_fail(conn, error.code, "%s", error.text);
        return;
    }
    const redis_call call = take(self);
    self->answers++;
    switch (call.kind) {
    case CALL_REQUEST:
        take_request(self, &call, reply);
        break;
    case CALL_LOAD:
        take_load(self, call.script, reply);
        break;
    case CALL_OWN:
        call.answer(call.user, reply);
        break;
    }
}

/* --- the fate of the connection ----------------------------------------------------------------------- */

static void fail_all(redis_calls *self, const simba_error *error)
{
    while (self->calls_first) {
        const redis_call call = take(self);
        if (call.request)
            self->events->failed(self, call.request, error);
        else if (call.kind == CALL_OWN)
            call.answer(call.user, NULL);
    }
    for (simba_request *request = take_waiting(self); request; request = take_waiting(self))
        self->events->failed(self, request, error);
    self->events->down(self, error);
}

static void on_up(redis_conn *conn)
{
    load_scripts(of(conn)); /* it may be another server, or the same one without its memory */
}

static void on_down(redis_conn *conn)
{
    redis_calls *self = of(conn);
    self->loaded = 0;
    if (conn->failures == 1)
        self->host->log(self->host, SIMBA_LOG_INFO, "%s", conn->error.text);
    fail_all(self, &conn->error);
    self->events->lost(self);
}

static void on_tick(redis_conn *conn, simba_local now)
{
    redis_calls *self = of(conn);
    if (!self->calls_first)
        return;
    const simba_local until = {self->calls_first->sent_at.ns + self->options->timeout_ns};
    if (now.ns >= until.ns)
        simba__redis_conn_fail(conn, SIMBA_EUNAVAILABLE, "redis %s: no answer for %lld ms", self->conn.at.where,
                               (long long)(self->options->timeout_ns / SIMBA__NS_PER_MS));
    else
        self->host->timer_set(self->host, &conn->timer, until);
}

static const redis_conn_events conn_events = {.up = on_up, .answer = on_answer, .down = on_down, .tick = on_tick};

/* --- deadlines ---------------------------------------------------------------------------------------- */

static void expire(redis_calls *self, simba_request *request)
{
    simba__redis_calls_fail(self, request, SIMBA_ETIMEDOUT, "redis %s: no answer in time", self->conn.at.where);
}

static void min_deadline(simba_local *earliest, simba_local at)
{
    if (at.ns < earliest->ns)
        *earliest = at;
}

/* Those of the list that are over their deadline. */
static void expire_list(redis_calls *self, simba_request **first, simba_request ***last, simba_local now,
                        simba_local *earliest)
{
    simba_request **link = first;
    while (*link) {
        simba_request *request = *link;
        if (request->deadline.ns <= now.ns) {
            *link = request->next;
            expire(self, request);
        } else {
            min_deadline(earliest, request->deadline);
            link = &request->next;
        }
    }
    *last = link;
}

static void on_deadline(simba_timer *timer, simba_local now)
{
    redis_calls *self = (redis_calls *)(void *)((char *)timer - offsetof(redis_calls, deadlines));
    simba_local earliest = {INT64_MAX};
    expire_list(self, &self->waiting_first, &self->waiting_last, now, &earliest);
    min_deadline(&earliest, self->events->expire(self, now));
    bool silent = false;
    bool stuck = false;
    for (redis_call *call = self->calls_first; call; call = call->next) {
        if (!call->request)
            continue;
        if (call->request->deadline.ns <= now.ns) {
            stuck |= call->request->op == SIMBA_OP_RENEW && call->answers == self->answers;
            expire(self, call->request);
            call->request = NULL;
            silent = true;
        } else {
            min_deadline(&earliest, call->request->deadline);
        }
    }
    if (silent)
        self->events->lost(self);
    if (earliest.ns != INT64_MAX)
        self->host->timer_set(self->host, timer, earliest);
    /* Nothing came since that renewal was sent. TCP repeats what was lost in pauses that double: when the outage is over
     * the connection may be stuck for as long again, and with it all renewals. */
    if (stuck)
        simba__redis_conn_fail(&self->conn, SIMBA_EUNAVAILABLE, "redis %s: no answer in time, so connecting anew",
                               self->conn.at.where);
}

/* --- the store's side --------------------------------------------------------------------------------- */

int simba__redis_calls_init(redis_calls *self, redis_conns *conns, const redis_calls_events *events, void *owner)
{
    self->host = conns->host;
    self->options = conns->options;
    self->events = events;
    self->owner = owner;
    self->waiting_last = &self->waiting_first;
    self->calls_last = &self->calls_first;
    self->deadlines.fire = on_deadline;
    const int rc = simba__redis_conn_init(&self->conn, conns, &conn_events, self);
    return rc < 0 ? rc : self->host->timer_add(self->host, &self->deadlines);
}

void simba__redis_calls_submit(redis_calls *self, simba_request *request)
{
    set_marks(request, 0);
    put_waiting(self, request);
}

static bool has_renewal(const redis_calls *self)
{
    for (const simba_request *request = self->waiting_first; request; request = request->next)
        if (request->op == SIMBA_OP_RENEW)
            return true;
    return false;
}

void simba__redis_calls_flush(redis_calls *self)
{
    switch (self->conn.state) {
    case REDIS_CLOSED:
        if (self->waiting_first || self->wanted)
            simba__redis_conn_open(&self->conn);
        self->wanted = false;
        break;
    case REDIS_CONNECTING:
        if (has_renewal(self))
            simba__redis_conn_hurry(&self->conn);
        break;
    case REDIS_UP:
        if (simba__redis_calls_ready(self))
            send_waiting(self);
        simba__redis_conn_flush(&self->conn);
        break;
    case REDIS_WAITING:
        if (has_renewal(self))
            simba__redis_conn_hurry(&self->conn);
        if (self->conn.state != REDIS_WAITING)
            break;
        for (simba_request *request = take_waiting(self); request; request = take_waiting(self))
            self->events->failed(self, request, &self->conn.error);
        break;
    }
}

void simba__redis_calls_close(redis_calls *self, const simba_error *why)
{
    simba__redis_conn_close(&self->conn);
    self->conn.error = *why;
    self->loaded = 0;
    self->wanted = false;
    self->host->timer_clear(self->host, &self->deadlines);
    fail_all(self, why);
}

void simba__redis_calls_fini(redis_calls *self)
{
    while (self->spare) {
        redis_call *next = self->spare->next;
        simba__free(self->spare);
        self->spare = next;
    }
    simba__redis_conn_fini(&self->conn);
}
