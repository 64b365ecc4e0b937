/* The network between each process and the store. The weather of the process decides which messages are late, get
 * lost, overtake each other and come twice. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

enum { TO_STORE = 1, TO_PROCESS = 2 };

sim_message *net_message(sim *s, sim_message_kind kind, unsigned process, uint32_t *ret_index)
{
    uint32_t index = s->message_free;
    if (index) {
        s->message_free = s->message[index].next_free;
    } else {
        if (s->messages + 1 >= s->message_capacity) {
            s->message_capacity = s->message_capacity ? s->message_capacity * 2 : 64;
            s->message = realloc(s->message, s->message_capacity * sizeof *s->message);
            if (!s->message)
                abort();
        }
        index = ++s->messages; /* 0 is none */
    }
    sim_message *message = &s->message[index];
    memset(message, 0, sizeof *message);
    message->kind = (uint8_t)kind;
    message->process = (uint8_t)process;
    message->boot = s->process[process].boot;
    message->handle = SIM_HANDLES;
    *ret_index = index;
    return message;
}

void net_free(sim *s, uint32_t index)
{
    s->message[index].next_free = s->message_free;
    s->message_free = index;
}

static int64_t latency(sim *s, const sim_process *process)
{
    int64_t ns = s->plan->latency_ns * sim_pick(s, 50, 150) / 100;
    if (s->now < process->delay_until)
        ns += sim_pick(s, 0, process->delay_ns);
    return ns;
}

static bool is_lost(sim *s, const sim_process *process, int64_t way)
{
    if (s->now < process->cut_until && (process->cut & way))
        return true;
    return s->now < process->lose_until && sim_chance(s, process->lose);
}

/* A push gets lost with the connection that it was to come by. It takes a while to notice. */
static void lose_connection(sim *s, unsigned process)
{
    memset(s->store.subscribed[process], 0, sizeof s->store.subscribed[process]);
    sim_plan_event(s, EV_RESUBSCRIBE, process, s->now + sim_pick(s, 10, 3000) * SIM_MS, s->process[process].boot, 0);
}

static void carry(sim *s, uint32_t index, int64_t way, bool reliable, int64_t after_ns)
{
    const sim_process *process = &s->process[s->message[index].process];
    const sim_event_kind kind = way == TO_STORE ? EV_TO_STORE : EV_TO_PROCESS;
    int64_t at = s->now + after_ns + latency(s, process);
    if (is_lost(s, process, way)) {
        if (!reliable) {
            if (s->message[index].kind == MSG_PUSH)
                lose_connection(s, s->message[index].process);
            net_free(s, index);
            return;
        }
        /* Sent again until it is through. */
        at += 200 * SIM_MS;
        if (s->now < process->cut_until && (process->cut & way))
            at += process->cut_until - s->now;
    }
    if (way == TO_STORE && s->plan->store == SIM_STORE_SESSION) {
        /* One connection per session: nothing overtakes. */
        at = at > process->in_order ? at : process->in_order + 1;
        if (at - s->now > 200 * SIM_MS) /* a delayed message holds up those after it */
            check_trouble(s, s->message[index].process, s->now, at);
        s->process[s->message[index].process].in_order = at;
    }
    if (!reliable && s->now < process->repeat_until && sim_chance(s, process->repeat)) {
        uint32_t twin;
        const sim_message copy = s->message[index];
        *net_message(s, (sim_message_kind)copy.kind, copy.process, &twin) = copy;
        sim_plan_event(s, kind, 0, s->now + after_ns + latency(s, process), 0, twin);
    }
    sim_plan_event(s, kind, 0, at, 0, index);
}

void net_to_store(sim *s, uint32_t index, bool reliable)
{
    s->message[index].sequence = ++s->process[s->message[index].process].sent;
    carry(s, index, TO_STORE, reliable, 0);
}

void net_to_process(sim *s, uint32_t index, bool reliable, int64_t after_ns)
{
    carry(s, index, TO_PROCESS, reliable, after_ns);
}
