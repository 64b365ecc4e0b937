/* Connections that behave like TCP: what is sent arrives in order and once, or the connection ends. The weather of
 * the process decides how long it takes, and how it ends: a lost segment is sent again later, a cut holds everything
 * up, and after one the two ends may have lost each other without knowing it. One end may learn that a connection is
 * gone long before the other does. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

#define SEND_AGAIN_NS (200 * SIM_MS)
#define CONNECT_AGAIN_NS SIM_S
#define MISSED_NS (2 * SIM_S)   /* so long, at most, an answer is waited for that cannot come */
#define GIVEN_UP_NS (6 * SIM_S) /* by then a client has found a silent connection out and has another one */

enum { TO_SERVER, TO_PROCESS };

typedef enum wire_what { WIRE_SYN, WIRE_REFUSED, WIRE_DATA, WIRE_GONE } wire_what;

typedef struct sim_chunk sim_chunk;
struct sim_chunk {
    sim_chunk *next;
    size_t length;
    char data[];
};

typedef struct sim_wire {
    uint32_t version; /* one per connection that was made in this place */
    uint8_t process, server;
    bool client_open, server_open;
    bool silent;
    bool missed; /* the process has said something since it is silent */
    const sim_wire_events *events;
    void *user;
    void *peer;
    sim_chunk *first[2], **last[2];
    int64_t latest[2]; /* when the latest of them arrives */
} sim_wire;

struct sim_wires {
    sim_wire *wire; /* 0 is none */
    unsigned count, capacity;
};

/* --- places ------------------------------------------------------------------------------------------ */

sim_wires *wires_new(void)
{
    sim_wires *wires = calloc(1, sizeof *wires);
    if (!wires)
        abort();
    return wires;
}

static void forget_chunks(sim_wire *wire)
{
    for (int way = TO_SERVER; way <= TO_PROCESS; way++) {
        while (wire->first[way]) {
            sim_chunk *next = wire->first[way]->next;
            free(wire->first[way]);
            wire->first[way] = next;
        }
        wire->last[way] = &wire->first[way];
    }
}

/* All ends have been closed. */
void wires_clear(sim_wires *wires)
{
    for (unsigned i = 1; i <= wires->count; i++)
        forget_chunks(&wires->wire[i]);
    wires->count = 0;
}

void wires_free(sim_wires *wires)
{
    wires_clear(wires);
    free(wires->wire);
    free(wires);
}

static sim_wire *at(const sim *s, unsigned wire)
{
    return &s->wires->wire[wire];
}

static bool is_used(const sim_wire *wire)
{
    return wire->client_open || wire->server_open;
}

static void free_if_unused(sim_wire *wire)
{
    if (is_used(wire))
        return;
    forget_chunks(wire);
    wire->version++;
}

/* Growing moves them: the lists of chunks end inside of their wires. */
static void grow(sim_wires *wires)
{
    const unsigned capacity = wires->capacity ? wires->capacity * 2 : 32;
    sim_wire *wire = calloc(capacity, sizeof *wire);
    if (!wire)
        abort();
    for (unsigned i = 1; i <= wires->count; i++) {
        wire[i] = wires->wire[i];
        for (int way = TO_SERVER; way <= TO_PROCESS; way++)
            if (!wire[i].first[way])
                wire[i].last[way] = &wire[i].first[way];
    }
    free(wires->wire);
    wires->wire = wire;
    wires->capacity = capacity;
}

static unsigned find_place(sim_wires *wires)
{
    for (unsigned i = 1; i <= wires->count; i++)
        if (!is_used(&wires->wire[i]))
            return i;
    if (wires->count + 1 >= wires->capacity)
        grow(wires);
    wires->wire[wires->count + 1].version = 0;
    return ++wires->count;
}

/* --- on the way -------------------------------------------------------------------------------------- */

/* When something that is sent now arrives. */
static int64_t arrival(sim *s, sim_wire *wire, int way, int64_t again_ns)
{
    const sim_process *process = &s->process[wire->process];
    const int64_t cut_bit = way == TO_SERVER ? 1 : 2;
    int64_t when = s->now + s->plan->latency_ns * sim_pick(s, 50, 150) / 100;
    if (s->now < process->delay_until)
        when += sim_pick(s, 0, process->delay_ns);
    int64_t cut_until = s->model->cut_until(s, wire->process, wire->server);
    if (process->cut & cut_bit && process->cut_until > cut_until)
        cut_until = process->cut_until;
    if (s->now < cut_until)
        when += cut_until - s->now + sim_pick(s, 0, again_ns);
    for (int64_t pause = again_ns; s->now < process->lose_until && pause < 8 * SIM_S && sim_chance(s, process->lose);
         pause *= 2)
        when += pause;
    when = when > wire->latest[way] ? when : wire->latest[way] + 1;
    wire->latest[way] = when;
    if (when - s->now > SEND_AGAIN_NS / 2)
        check_trouble(s, wire->process, s->now, when);
    return when;
}

static void carry(sim *s, unsigned index, int way, wire_what what)
{
    sim_wire *wire = at(s, index);
    const int64_t when = arrival(s, wire, way, what == WIRE_SYN ? CONNECT_AGAIN_NS : SEND_AGAIN_NS);
    sim_plan_event(s, way == TO_SERVER ? EV_WIRE_TO_SERVER : EV_WIRE_TO_PROCESS, index, when, wire->version, what);
}

/* A cut may break connections in the middle of something: a router has forgotten them. */
static void suffer(sim *s, unsigned index)
{
    const sim_process *process = &s->process[at(s, index)->process];
    if (s->now < process->cut_until && sim_chance(s, 150))
        wire_silence(s, index);
}

static void send_chunk(sim *s, unsigned index, int way, const char *data, size_t length)
{
    sim_wire *wire = at(s, index);
    const sim_process *process = &s->process[wire->process];
    sim_chunk *chunk = malloc(sizeof *chunk + length);
    if (!chunk)
        abort();
    chunk->next = NULL;
    chunk->length = length;
    memcpy(chunk->data, data, length);
    *wire->last[way] = chunk;
    wire->last[way] = &chunk->next;
    carry(s, index, way, WIRE_DATA);
    suffer(s, index);
    if (wire->silent && !wire->missed && way == TO_SERVER) {
        wire->missed = true;
        check_trouble(s, wire->process, s->now, s->now + MISSED_NS);
    }
    /* It arrives, and then both ends find the connection broken. */
    if (s->now < process->repeat_until && sim_chance(s, process->repeat / 4)) {
        check_trouble(s, wire->process, s->now, wire->latest[way] + SIM_S);
        carry(s, index, way, WIRE_GONE);
        carry(s, index, way == TO_SERVER ? TO_PROCESS : TO_SERVER, WIRE_GONE);
    }
}

static sim_chunk *take_chunk(sim_wire *wire, int way)
{
    sim_chunk *chunk = wire->first[way];
    if (chunk) {
        wire->first[way] = chunk->next;
        if (!chunk->next)
            wire->last[way] = &wire->first[way];
    }
    return chunk;
}

/* --- the process's end ------------------------------------------------------------------------------- */

unsigned wire_connect(sim *s, unsigned process, unsigned server, const sim_wire_events *events, void *user)
{
    const unsigned index = find_place(s->wires);
    sim_wire *wire = at(s, index);
    *wire = (sim_wire){
        .version = wire->version + 1,
        .process = (uint8_t)process,
        .server = (uint8_t)server,
        .client_open = true,
        .events = events,
        .user = user,
    };
    wire->last[TO_SERVER] = &wire->first[TO_SERVER];
    wire->last[TO_PROCESS] = &wire->first[TO_PROCESS];
    carry(s, index, TO_SERVER, WIRE_SYN);
    return index;
}

void wire_send(sim *s, unsigned wire, const char *data, size_t length)
{
    send_chunk(s, wire, TO_SERVER, data, length);
}

void wire_close(sim *s, unsigned wire)
{
    at(s, wire)->client_open = false;
    if (at(s, wire)->server_open)
        carry(s, wire, TO_SERVER, WIRE_GONE);
    free_if_unused(at(s, wire));
}

static bool is_over(const sim *s, const sim_event *event)
{
    const sim_wire *wire = at(s, event->who);
    return !is_used(wire) || wire->version != event->version;
}

static void deliver(sim *s, unsigned index)
{
    sim_chunk *chunk = take_chunk(at(s, index), TO_PROCESS);
    if (!chunk)
        return;
    const sim_wire wire = *at(s, index);
    wire.events->bytes(wire.user, chunk->data, chunk->length);
    free(chunk);
}

static void deliver_end(sim *s, unsigned index)
{
    const uint32_t version = at(s, index)->version;
    while (at(s, index)->version == version && at(s, index)->client_open && at(s, index)->first[TO_PROCESS])
        deliver(s, index); /* a pause has mixed them up: earlier messages come first */
    sim_wire *wire = at(s, index);
    if (wire->version != version || !wire->client_open)
        return;
    wire->client_open = false;
    const sim_wire copy = *wire;
    free_if_unused(wire);
    copy.events->lost(copy.user);
}

bool wire_is_heard(const sim *s, const sim_event *event)
{
    return !is_over(s, event) && at(s, event->who)->client_open;
}

void wire_to_process(sim *s, const sim_event *event)
{
    const sim_wire wire = *at(s, event->who);
    if (is_over(s, event) || wire.silent)
        return;
    if (!wire.client_open) {
        carry(s, event->who, TO_SERVER, WIRE_GONE);
        return;
    }
    switch ((wire_what)event->arg) {
    case WIRE_SYN:
        wire.events->connected(wire.user, false);
        break;
    case WIRE_REFUSED:
        at(s, event->who)->client_open = false;
        free_if_unused(at(s, event->who));
        wire.events->connected(wire.user, true);
        break;
    case WIRE_DATA:
        deliver(s, event->who);
        break;
    case WIRE_GONE:
        deliver_end(s, event->who);
        break;
    }
}

/* --- the server's end -------------------------------------------------------------------------------- */

void *wire_peer(const sim *s, unsigned wire)
{
    return at(s, wire)->peer;
}

void *wire_peer_at(const sim *s, unsigned wire, unsigned server)
{
    const sim_wire *one = at(s, wire);
    return one->server_open && one->server == server ? one->peer : NULL;
}

void wire_set_peer(sim *s, unsigned wire, void *peer)
{
    at(s, wire)->peer = peer;
}

unsigned wire_process(const sim *s, unsigned wire)
{
    return at(s, wire)->process;
}

unsigned wire_server(const sim *s, unsigned wire)
{
    return at(s, wire)->server;
}

unsigned wire_next(const sim *s, unsigned wire)
{
    while (++wire <= s->wires->count)
        if (at(s, wire)->server_open)
            return wire;
    return 0;
}

void wire_answer(sim *s, unsigned wire, const char *data, size_t length)
{
    send_chunk(s, wire, TO_PROCESS, data, length);
}

static void forget_at_server(sim *s, unsigned wire)
{
    if (!at(s, wire)->server_open)
        return;
    s->model->closed(s, wire);
    at(s, wire)->server_open = false;
    free_if_unused(at(s, wire));
}

void wire_drop(sim *s, unsigned wire)
{
    if (at(s, wire)->client_open)
        carry(s, wire, TO_PROCESS, WIRE_GONE);
    forget_at_server(s, wire);
}

static void accept(sim *s, unsigned wire)
{
    if (!s->model->accepts(s, at(s, wire)->server)) {
        carry(s, wire, TO_PROCESS, WIRE_REFUSED);
        return;
    }
    at(s, wire)->server_open = true;
    s->model->opened(s, wire);
    carry(s, wire, TO_PROCESS, WIRE_SYN);
}

static void take_at_server(sim *s, unsigned wire)
{
    sim_chunk *chunk = take_chunk(at(s, wire), TO_SERVER);
    if (chunk)
        s->model->bytes(s, wire, chunk->data, chunk->length);
    free(chunk);
}

void wire_to_server(sim *s, const sim_event *event)
{
    const sim_wire wire = *at(s, event->who);
    if (is_over(s, event) || wire.silent)
        return;
    /* The kernel of a server that does not run accepts connections all the same. */
    const int64_t frozen_until = s->model->frozen_until(s, wire.server);
    if (event->arg != WIRE_SYN && s->now < frozen_until) {
        sim_plan_event(s, EV_WIRE_TO_SERVER, event->who, frozen_until + sim_pick(s, 1, 100000), event->version,
                       event->arg);
        return;
    }
    if (event->arg == WIRE_SYN)
        accept(s, event->who);
    else if (!wire.server_open)
        carry(s, event->who, TO_PROCESS, WIRE_GONE);
    else if (event->arg == WIRE_DATA)
        take_at_server(s, event->who);
    else
        forget_at_server(s, event->who);
}

/* --- ends that do not know ---------------------------------------------------------------------------- */

void wire_silence(sim *s, unsigned wire)
{
    if (at(s, wire)->silent)
        return;
    at(s, wire)->silent = true;
    check_trouble(s, at(s, wire)->process, s->now, s->now + GIVEN_UP_NS);
}

void wires_abandon(sim *s, unsigned process, bool noticed)
{
    for (unsigned i = 1; i <= s->wires->count; i++) {
        sim_wire *wire = at(s, i);
        if (!wire->client_open || wire->process != process)
            continue;
        wire->silent |= !noticed;
        wire_close(s, i);
    }
}

void wires_answer_again(sim *s)
{
    for (unsigned i = 1; i <= s->wires->count; i++)
        if (!at(s, i)->server_open)
            at(s, i)->silent = false;
}

void wires_notice(sim *s)
{
    for (unsigned i = 1; i <= s->wires->count; i++)
        if (at(s, i)->silent || !at(s, i)->client_open)
            forget_at_server(s, i);
}
