/* The process's connection that listens, for src/backends/sql/listening.h. As TCP does for a real one, it asks every ten seconds
 * whether the server is still there, and is given up when that is not answered. */
#include <string.h>

#include "sim/sql_model.h"
#include "util/table.h"

#define PING_NS (10 * SIM_S)

static void end_wire(sql_listener *self)
{
    if (self->wire && !client_is_muted(self->s, self->process))
        wire_close(self->s, self->wire);
    self->wire = 0;
    self->listening.host->timer_clear(self->listening.host, &self->ping);
}

static void await_answer(sql_listener *self)
{
    simba_host *host = self->listening.host;
    self->awaits = true;
    host->timer_set(host, &self->ping, (simba_local){host->now(host).ns + PING_NS});
}

static void send_verb(sql_listener *self, sql_verb verb)
{
    const sql_call call = {.verb = verb, .channel = self->channel};
    wire_send(self->s, self->wire, (const char *)&call, sizeof call);
    await_answer(self);
}

/* Not before the answer to what it was asked before. */
static void ask(simba__sql_listening *listening)
{
    sql_listener *self = SIMBA__OF_NODE(listening, sql_listener, listening);
    self->is_to_ask = self->awaits;
    if (self->is_to_ask)
        return;
    self->is_asked = true;
    send_verb(self, SQL_PING);
}

static void on_connected(void *user, bool refused)
{
    sql_listener *self = user;
    if (refused) {
        self->wire = 0;
        end_wire(self);
        simba__sql_listening_down(&self->listening);
    } else {
        self->is_asked = self->is_to_ask = false;
        send_verb(self, SQL_LISTEN);
    }
}

static void answered(sql_listener *self)
{
    const bool is_asked = self->is_asked;
    self->awaits = self->is_asked = false;
    if (self->listening.hearing == SIMBA__SQL_OPENING)
        simba__sql_listening_up(&self->listening);
    else if (is_asked)
        simba__sql_listening_answered(&self->listening);
    else if (self->is_to_ask)
        ask(&self->listening);
}

static void on_bytes(void *user, const char *data, size_t length)
{
    sql_listener *self = user;
    sql_answer answer;
    (void)length;
    memcpy(&answer, data, sizeof answer);
    if (answer.payload[0])
        simba__sql_listening_heard(&self->listening, answer.payload);
    else
        answered(self);
}

static void on_lost(void *user)
{
    sql_listener *self = user;
    self->wire = 0;
    end_wire(self);
    simba__sql_listening_down(&self->listening);
}

static void on_ping(simba_timer *timer, simba_local now)
{
    sql_listener *self = SIMBA__OF_NODE(timer, sql_listener, ping);
    (void)now;
    if (!self->awaits) {
        send_verb(self, SQL_PING);
        return;
    }
    end_wire(self);
    simba__sql_listening_down(&self->listening);
}

static void shut(simba__sql_listening *listening)
{
    end_wire(SIMBA__OF_NODE(listening, sql_listener, listening));
}

int sql_listener_init(sql_listener *self, sim *s, unsigned process, simba__sql_store *store, simba_host *host)
{
    static const simba__sql_listening_deeds deeds = {ask, shut};
    *self = (sql_listener){.s = s, .process = process, .channel = host->random(host) | 1, .ping = {.fire = on_ping}};
    const int rc = simba__sql_listening_init(&self->listening, store, host, &deeds);
    return rc < 0 ? rc : host->timer_add(host, &self->ping);
}

void sql_listener_close(sql_listener *self)
{
    simba__sql_listening_close(&self->listening);
    end_wire(self);
}

void sql_listener_wake(sql_listener *self)
{
    static const sim_wire_events events = {on_connected, on_bytes, on_lost};
    if (!simba__sql_listening_begin(&self->listening))
        return;
    await_answer(self);
    self->wire = wire_connect(self->s, self->process, 0, &events, self);
}

uint64_t sql_listener_channel(const sql_listener *self)
{
    return simba__sql_listening_may_wait(&self->listening) ? self->channel : 0;
}
