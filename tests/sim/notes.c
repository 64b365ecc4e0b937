/* Notes: now and then a holder writes the note of its mutex, as src/client/notes.c does, and everybody reads it. A
 * note says who wrote it: the token, and the number of the write. This checks S8 by what readers see: once somebody
 * has seen a note, or a writer has been told that it is written, nobody sees an older one; and once a token was
 * granted, nobody writes a note under an older one. */
#include <inttypes.h>
#include <string.h>

#include "sim/world.h"

static sim_process *process_of(sim *s, const sim_handle *handle)
{
    return &s->process[handle->process];
}

static bool is_older(sim_note a, sim_note b)
{
    return a.token < b.token || (a.token == b.token && a.number < b.number);
}

static void seen(sim *s, unsigned mutex, sim_note note)
{
    if (is_older(s->checks.noted[mutex], note))
        s->checks.noted[mutex] = note;
}

static void plan_next(sim *s, const sim_handle *handle)
{
    const int64_t pause = sim_pick(s, SIM_MS, s->timing.ttl_ns / 2);
    sim_plan_event(s, EV_NOTE, (unsigned)(handle - s->handle), s->now + pause, process_of(s, handle)->boot, 0);
}

void notes_start(sim *s, sim_handle *handle)
{
    handle->noting = (sim_noting){.number = handle->noting.number};
    if (s->plan->notes && (s->backend.caps & SIMBA_CAP_NOTE))
        plan_next(s, handle);
}

bool notes_read(const void *bytes, size_t size, sim_note *ret_note)
{
    char text[SIM_NOTE_SIZE + 1] = "";
    if (size != SIM_NOTE_SIZE)
        return false;
    memcpy(text, bytes, SIM_NOTE_SIZE);
    return sscanf(text, "%16" SCNx64 "%16" SCNx64, &ret_note->token, &ret_note->number) == 2; // NOLINT(cert-err34-c)
}

void notes_print(sim_note note, char text[SIM_NOTE_SIZE + 1])
{
    snprintf(text, SIM_NOTE_SIZE + 1, "%016" PRIx64 "%016" PRIx64, note.token, note.number);
}

/* From the grant of a token on, nobody writes under an older one: what a reader saw after it is the last such note. */
static void check_closed(sim *s, const sim_handle *handle, sim_note note)
{
    sim_checks *checks = &s->checks;
    const unsigned m = handle->mutex;
    if (note.token < checks->closed_token[m] && is_older(checks->closed_note[m], note))
        check_broken(s, "S8", "note %llu/%llu of mutex %u was written after token %llu was granted",
                     (unsigned long long)note.token, (unsigned long long)note.number, m,
                     (unsigned long long)checks->closed_token[m]);
    if (note.token >= handle->noting.granted || handle->noting.granted < checks->closed_token[m])
        return;
    checks->closed_token[m] = handle->noting.granted;
    checks->closed_note[m] = note;
}

static void answered(simba__request *request, const simba_error *error)
{
    sim_handle *handle = request->of;
    sim *s = handle->s;
    sim_noting *noting = &handle->noting;
    const sim_note note = noting->read;
    if (client_is_muted(s, handle->process))
        return;
    noting->outstanding = false;
    if (error)
        return;
    if (request->shown.op == SIMBA_OP_WRITE_NOTE && request->shown.reply.outcome == SIMBA_MINE)
        seen(s, handle->mutex, noting->wrote);
    if (request->shown.op != SIMBA_OP_READ_NOTE)
        return;
    /* Redis: what a server that has been replaced still takes for written no replica confirms, but it can be read there. */
    if (s->checks.lost_writes || s->checks.stale_reads)
        return;
    check_closed(s, handle, note);
    if (is_older(note, noting->known))
        check_broken(s, "S8", "%s reads note %llu/%llu of mutex %u after %llu/%llu was seen", handle->name,
                     (unsigned long long)note.token, (unsigned long long)note.number, handle->mutex,
                     (unsigned long long)noting->known.token, (unsigned long long)noting->known.number);
    seen(s, handle->mutex, note);
}

static void begin(sim *s, sim_handle *handle, bool writes)
{
    sim_noting *noting = &handle->noting;
    simba_request wanted = {.op = writes ? SIMBA_OP_WRITE_NOTE : SIMBA_OP_READ_NOTE,
                            .mutex = sim_mutex_name(handle->mutex),
                            .id = handle->id};
    char text[SIM_NOTE_SIZE + 1];
    noting->outstanding = true;
    noting->read = (sim_note){0, 0};
    noting->known = s->checks.noted[handle->mutex];
    noting->granted = s->checks.token_granted[handle->mutex];
    if (writes) {
        noting->wrote = (sim_note){handle->candidate.machine.token, ++noting->number};
        notes_print(noting->wrote, text);
        wanted.nonce = handle->candidate.machine.nonce;
        wanted.token = handle->candidate.machine.token;
        wanted.note = text;
        wanted.note_size = SIM_NOTE_SIZE;
        wanted.note_number = noting->number;
    }
    client_add(handle, simba__request_new(&wanted, s->timing.op_timeout_ns), answered);
}

void notes_event(sim *s, sim_handle *handle, const sim_event *event)
{
    const sim_process *process = process_of(s, handle);
    if (!process->alive || event->version != process->boot || s->winding_up)
        return;
    const bool leads = handle->is_contender && simba__contention_valid_until(&handle->candidate.machine).ns != 0;
    if (!handle->noting.outstanding && handle->exists)
        begin(s, handle, leads && sim_chance(s, 700));
    plan_next(s, handle);
}
