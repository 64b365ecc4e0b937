/* Messages between the servers of a model ensemble: kept in slots that are reused, and delivered as events, or
 * waiting in queues. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"

zk_note *note_new(sim *s, zk_note_kind kind, unsigned from, unsigned to, uint32_t *ret_index)
{
    zk_state *state = zk_state_of(s);
    uint32_t index = state->note_free;
    if (index) {
        state->note_free = state->note[index].next;
    } else {
        if (state->notes + 1 >= state->note_capacity) {
            state->note_capacity = state->note_capacity ? 2 * state->note_capacity : 64;
            if (!(state->note = realloc(state->note, state->note_capacity * sizeof *state->note)))
                abort();
        }
        index = ++state->notes;
    }
    zk_note *note = &state->note[index];
    memset(note, 0, sizeof *note);
    note->kind = kind;
    note->from = from;
    note->to = to;
    note->epoch = ensemble_server(s, from)->epoch;
    *ret_index = index;
    return note;
}

zk_note *note_at(sim *s, uint32_t index)
{
    return &zk_state_of(s)->note[index];
}

void note_free(sim *s, uint32_t index)
{
    zk_state *state = zk_state_of(s);
    state->note[index].next = state->note_free;
    state->note_free = index;
}

void note_post(sim *s, uint32_t index, int64_t after_ns)
{
    sim_plan_event(s, EV_SERVER, 0, s->now + after_ns, 0, index);
}

void line_append(sim *s, zk_line *line, uint32_t index)
{
    if (line->first)
        note_at(s, line->last)->next = index;
    else
        line->first = index;
    line->last = index;
}

bool line_take(sim *s, zk_line *line, zk_note *ret_note)
{
    const uint32_t index = line->first;
    if (!index)
        return false;
    *ret_note = *note_at(s, index);
    line->first = ret_note->next;
    note_free(s, index);
    return true;
}

void line_forget(sim *s, zk_line *line)
{
    zk_note note;
    while (line_take(s, line, &note))
        ;
}

int64_t note_hop(sim *s)
{
    return sim_pick(s, SIM_MS / 10, 3 * SIM_MS);
}

void note_post_again(sim *s, const zk_note *note)
{
    uint32_t index;
    const zk_note copy = *note;
    *note_new(s, copy.kind, copy.from, copy.to, &index) = copy;
    note_post(s, index, sim_pick(s, 20, 200) * SIM_MS);
}
