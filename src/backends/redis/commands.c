/* See commands.h. */
#include "backends/redis/commands.h"

#include <stdio.h>

#include "backends/redis/reply.h"
#include "backends/redis/writer.h"
#include "util/assert.h"
#include "util/digits.h"
#include "util/mem.h"

static redis_commands *of(redis_conn *conn)
{
    return conn->owner;
}

static redis_commands *of_session(redis_session *session)
{
    return SIMBA__OF_ITEM(session, redis_commands, session);
}

static simba_local now_of(const redis_commands *self)
{
    return self->host->now(self->host);
}

/* --- commands --------------------------------------------------------------------------------------- */

void simba__redis_commands_begin_script(redis_commands *self, redis_script script, const char *mutex, size_t argc)
{
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
    char number[SIMBA__DIGITS_SIZE];
    simba__buffer *out = &self->conn.link.out;
    const size_t count = simba__redis_script_keys(script, self->options->kind == REDIS_CLUSTER, mutex, keys);
    simba__digits(number, count, 1);
    simba__redis_put_count(out, 3 + count + argc);
    simba__redis_put_word(out, "EVALSHA");
    simba__redis_put_word(out, self->session.sha[script]);
    simba__redis_put_word(out, number);
    for (size_t i = 0; i < count; i++)
        simba__redis_put_word(out, keys[i]);
}

void simba__redis_commands_put_script(redis_commands *self, redis_script script, const char *mutex, size_t argc,
                                      const char *const *args)
{
    simba__redis_commands_begin_script(self, script, mutex, argc);
    for (size_t i = 0; i < argc; i++)
        simba__redis_put_word(&self->conn.link.out, args[i]);
}

static void put_wait(redis_commands *self)
{
    char replicas[24];
    char ms[24];
    snprintf(replicas, sizeof replicas, "%ld", self->options->replicas);
    snprintf(ms, sizeof ms, "%d", REDIS_WAIT_MS);
    simba__redis_put(&self->conn.link.out, 3, (const char *const[]){"WAIT", replicas, ms});
}

/* False: out of memory. */
static bool put_load(redis_commands *self, redis_script script)
{
    char *text = simba__redis_script_text(script, self->options);
    if (text)
        simba__redis_put(&self->conn.link.out, 3, (const char *const[]){"SCRIPT", "LOAD", text});
    simba__free(text);
    return text != NULL;
}

/* False: out of memory. */
static bool put(redis_commands *self, redis_errand *errand)
{
    switch (errand->purpose) {
    case REDIS_FOR_REQUEST:
        self->events->put(self, errand->request);
        break;
    case REDIS_FOR_LOADING:
        return put_load(self, errand->script);
    case REDIS_FOR_WAITING:
        put_wait(self);
        break;
    case REDIS_FOR_ASKING:
        simba__redis_put(&self->conn.link.out, 1, (const char *const[]){"ASKING"});
        break;
    case REDIS_FOR_TELLING:
    case REDIS_FOR_LEARNING: /* the module that sent it has put the arguments */
        break;
    }
    return true;
}

/* --- carrying out ----------------------------------------------------------------------------------- */

static void fail(redis_errand *errand, const simba_error *error)
{
    simba__redis_errand_fail(errand, error->code, "%s", error->text);
}

static void redirect(redis_commands *self, redis_errand *errand, const redisReply *reply)
{
    simba_error error;
    bool useless;
    SIMBA__ASSERT(reply); /* only an answer redirects an errand */
    if (self->events->redirect(self, errand, reply->str))
        return;
    simba__redis_error(&self->conn.link.at, reply->str, &error, &useless);
    fail(errand, &error);
}

static void end(redis_commands *self, redis_errand *errand, const redisReply *reply)
{
    redis_learn *learn = errand->learn;
    void *user = errand->user;
    switch (errand->outcome) {
    case REDIS_COMPLETE:
        self->events->finish(self, errand, reply);
        break;
    case REDIS_FAIL:
        fail(errand, &self->session.error);
        break;
    case REDIS_REDIRECT:
        redirect(self, errand, reply);
        break;
    case REDIS_LEARN:
        simba__redis_errand_forget(errand);
        learn(user, reply);
        break;
    }
}

/* Carry out the actions of an event. `reply`: the server's answer, if the event was one. */
static void act(redis_commands *self, unsigned actions, const redisReply *reply)
{
    redis_session *session = &self->session;
    bool whole = true;
    for (redis_errand *errand; (errand = simba__redis_session_next_command(session)) != NULL;)
        whole &= put(self, errand);
    for (redis_errand *errand; (errand = simba__redis_session_next_outcome(session)) != NULL;)
        end(self, errand, reply);
    if (actions & REDIS_DO_SET_TIMER)
        self->host->timer_set(self->host, &self->conn.link.timer, session->tick_at);
    if (actions & REDIS_DO_WAKE)
        self->host->wake(self->host);
    if (actions & REDIS_DO_ANNOUNCE)
        self->events->up(self);
    if (actions & REDIS_DO_SUSPECT)
        self->events->lost(self);
    if (actions & REDIS_DO_PRAISE)
        self->host->log(self->host, SIMBA_LOG_INFO, "redis %s: %ld replicas confirm grants again",
                        self->conn.link.at.where, self->options->replicas);
    if (actions & REDIS_DO_DROP)
        simba__link_fail(&self->conn.link, session->dropped.code, "%s", session->dropped.text);
    else if (!whole)
        simba__link_fail(&self->conn.link, SIMBA_ENOMEM, "redis %s: out of memory", self->conn.link.at.where);
}

bool simba__redis_commands_ask(redis_commands *self, size_t argc, const char *const *argv, redis_learn *learn,
                               void *user)
{
    redis_errand *errand = simba__redis_session_own(&self->session, REDIS_FOR_LEARNING, now_of(self));
    if (!errand)
        return false;
    errand->learn = learn;
    errand->user = user;
    simba__redis_put(&self->conn.link.out, argc, argv);
    act(self, self->session.actions, NULL);
    return true;
}

void simba__redis_commands_tell(redis_commands *self, redis_script script, const char *mutex, size_t argc,
                                const char *const *args)
{
    if (!simba__redis_session_own(&self->session, REDIS_FOR_TELLING, now_of(self)))
        return;
    simba__redis_commands_put_script(self, script, mutex, argc, args);
    act(self, self->session.actions, NULL);
}

/* --- answers ---------------------------------------------------------------------------------------- */

static redis_answer read_own(redis_purpose purpose, const redisReply *reply)
{
    if (purpose == REDIS_FOR_LOADING && reply->type == REDIS_REPLY_STRING && reply->len == 40)
        return (redis_answer){.kind = REDIS_SAID_TEXT, .text = reply->str};
    if (purpose == REDIS_FOR_WAITING && reply->type == REDIS_REPLY_INTEGER)
        return (redis_answer){.kind = REDIS_SAID_NUMBER, .number = reply->integer};
    return (redis_answer){.kind = REDIS_SAID_ODDITY};
}

/* `errand` may be NULL. */
static redis_answer read_answer(redis_commands *self, const redis_errand *errand, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return (redis_answer){.kind = REDIS_SAID_ERROR, .text = reply->str};
    if (errand && errand->request)
        return self->events->read(self, errand->request, reply);
    return read_own(errand ? errand->purpose : REDIS_FOR_REQUEST, reply);
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_commands *self = of(conn);
    const redis_errand *errand = simba__redis_session_first(&self->session);
    const redis_answer answer = read_answer(self, errand, reply);
    act(self, simba__redis_session_answer(&self->session, &answer, now_of(self)), reply);
}

/* --- the fate of the connection ----------------------------------------------------------------------- */

static void on_up(redis_conn *conn)
{
    act(of(conn), simba__redis_session_up(&of(conn)->session, now_of(of(conn))), NULL);
}

static void go_down(redis_commands *self, const simba_error *error)
{
    act(self, simba__redis_session_down(&self->session, error), NULL);
    self->events->down(self, error);
}

static void on_down(redis_conn *conn)
{
    redis_commands *self = of(conn);
    if (conn->link.failures == 1)
        self->host->log(self->host, SIMBA_LOG_DEBUG, "%s", conn->link.error.text); /* callers get it, too */
    go_down(self, &conn->link.error);
    self->events->lost(self);
}

static void on_tick(redis_conn *conn, simba_local now)
{
    act(of(conn), simba__redis_session_tick(&of(conn)->session, now), NULL);
}

static const redis_conn_events conn_events = {.up = on_up, .answer = on_answer, .down = on_down, .tick = on_tick};

/* --- the store's side --------------------------------------------------------------------------------- */

int simba__redis_commands_init(redis_commands *self, redis_conns *conns, redis_errands *errands,
                               const redis_commands_events *events, void *owner)
{
    self->host = conns->links.host;
    self->options = conns->options;
    self->events = events;
    self->owner = owner;
    simba__redis_session_init(&self->session, conns->options, &self->conn.link.at, errands);
    return simba__redis_conn_init(&self->conn, conns, &conn_events, self);
}

void simba__redis_commands_submit(redis_commands *self, redis_errand *errand)
{
    simba__redis_session_submit(&self->session, errand);
}

const char *simba__redis_commands_expire(redis_errand *errand)
{
    redis_commands *self = of_session(errand->session);
    act(self, simba__redis_session_expire(&self->session, errand, now_of(self)), NULL);
    return self->conn.link.at.where;
}

bool simba__redis_commands_ready(const redis_commands *self)
{
    return self->session.state == REDIS_SESSION_READY;
}

bool simba__redis_commands_idle(const redis_commands *self)
{
    return !self->session.sent.first && !simba__redis_session_waits(&self->session);
}

void simba__redis_commands_flush(redis_commands *self)
{
    simba__link *link = &self->conn.link;
    redis_session *session = &self->session;
    switch (link->state) {
    case SIMBA__LINK_CLOSED:
        if (simba__redis_session_waits(session) || self->wanted)
            simba__link_open(link);
        self->wanted = false;
        break;
    case SIMBA__LINK_CONNECTING:
        if (simba__redis_session_renews(session))
            simba__link_hurry(link);
        break;
    case SIMBA__LINK_UP:
        act(self, simba__redis_session_flush(session, now_of(self)), NULL);
        simba__link_flush(link);
        break;
    case SIMBA__LINK_WAITING:
        if (simba__redis_session_renews(session))
            simba__link_hurry(link);
        if (link->state == SIMBA__LINK_WAITING)
            act(self, simba__redis_session_refuse(session, &link->error), NULL);
        break;
    }
}

void simba__redis_commands_close(redis_commands *self, const simba_error *why)
{
    simba__redis_conn_close(&self->conn);
    self->conn.link.error = *why;
    self->wanted = false;
    go_down(self, why);
}

void simba__redis_commands_fini(redis_commands *self)
{
    simba__redis_conn_fini(&self->conn);
}
