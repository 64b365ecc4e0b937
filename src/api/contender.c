/* The contender, on which the other doors are built. core/pending.h decides what its callbacks are told. */
#include <simba.h>

#include "client/log.h"
#include "client/notes.h"
#include "core/pending.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"

struct simba_contender {
    simba__candidate candidate; /* first */
    simba_acquired_fn on_acquired;
    simba_released_fn on_released;
    void *user;
    simba_changed_fn on_changed; /* this one and the rest may be NULL */
    simba_noted_fn on_noted;
    simba_freed_fn on_freed;
    simba__pending pending;
};

static void told(simba__candidate *candidate, const simba__step *step)
{
    const simba__actions *actions = step->actions;
    simba_contender *contender = (simba_contender *)(void *)candidate;
    if (simba__pending_note(&contender->pending, actions, contender->on_changed))
        simba__callbacks_add(&candidate->handle);
}

static void noted(simba__handle *handle)
{
    simba_contender *contender = (simba_contender *)(void *)handle;
    if (!contender->on_noted)
        return;
    contender->pending.noted = true;
    simba__callbacks_add(handle);
}

static int run_callback(simba__handle *handle)
{
    simba_contender *contender = (simba_contender *)(void *)handle;
    simba__candidate *candidate = &contender->candidate;
    simba__tell tell;
    if (contender->pending.acquired)
        simba__candidate_look(candidate);
    const bool tells = simba__pending_take(&contender->pending, &candidate->machine.owner, &tell);
    const bool noted = !tells && contender->pending.noted && handle->running;
    if (!tells && !contender->pending.noted)
        return -1;
    if (!tells)
        contender->pending.noted = false;
    int ran = 0;
    simba__pause(handle->client);
    if (tell.acquired && contender->on_acquired) {
        simba__log_callback(candidate, "callback acquired");
        contender->on_acquired(contender, &tell.state, contender->user);
        simba__log_callback(candidate, "returned");
        ran++;
    }
    if (tell.released && contender->on_released) {
        simba__log_callback(candidate, "callback released");
        contender->on_released(contender, &tell.state, tell.reason, contender->user);
        simba__log_callback(candidate, "returned");
        ran++;
    }
    if (tell.changed) {
        contender->on_changed(contender, &tell.state, contender->user);
        ran++;
    }
    if (noted) {
        contender->on_noted(contender, contender->user);
        ran++;
    }
    simba__lock(handle->client);
    if (tell.ack)
        simba__candidate_ack(candidate);
    return ran;
}

static void destroy(simba__handle *handle)
{
    simba_contender *contender = (simba_contender *)(void *)handle;
    simba__candidate_fini(&contender->candidate);
    if (contender->on_freed)
        contender->on_freed(contender->user);
    simba__free(contender);
}

static const simba__candidate_type type = {
    .handle =
        {.step = simba__candidate_step, .callback = run_callback, .destroy = destroy, .noted = noted, .contends = true},
    .told = told,
};

int simba_contender_new(simba_client *client, const char *mutex, const simba_contender_options *options,
                        simba_error *err, simba_contender **ret_contender)
{
    if (!client || !ret_contender)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_contender" : "client");
    simba_contender_options own = SIMBA_CONTENDER_OPTIONS_INIT;
    int rc = simba__sized_take("simba_contender_options", options, &own, err);
    if (rc < 0)
        return rc;
    simba_contender *contender = simba__calloc(1, sizeof *contender);
    if (!contender)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    if (!(client->backend->caps & SIMBA_CAP_NOTE))
        own.on_noted = NULL;
    contender->on_acquired = own.on_acquired;
    contender->on_released = own.on_released;
    contender->user = own.user;
    contender->candidate.hears_notes = own.on_noted != NULL;
    contender->on_changed = own.on_changed;
    contender->on_noted = own.on_noted;
    contender->on_freed = own.on_freed;
    contender->candidate.handle.observes = own.on_changed || own.on_noted;
    rc = simba__candidate_init(&contender->candidate, &type, client, mutex, own.id, &own.timing, err);
    if (rc < 0) {
        simba__free(contender);
        return rc;
    }
    *ret_contender = contender;
    return 0;
}

int simba_contender_start(simba_contender *contender)
{
    return contender ? simba__candidate_start(&contender->candidate) : SIMBA_EINVAL;
}

int simba_contender_stop(simba_contender *contender)
{
    return contender ? simba__candidate_stop(&contender->candidate) : SIMBA_EINVAL;
}

void simba_contender_free(simba_contender *contender)
{
    if (contender)
        simba__handle_free(&contender->candidate.handle, true);
}

void simba_contender_discard(simba_contender *contender)
{
    if (contender)
        simba__handle_free(&contender->candidate.handle, false);
}

const char *simba_contender_mutex(const simba_contender *contender)
{
    return contender ? contender->candidate.handle.watch->mutex : NULL;
}

const char *simba_contender_id(const simba_contender *contender)
{
    return contender ? contender->candidate.id : NULL;
}

simba_status simba_contender_status(const simba_contender *contender)
{
    return contender ? simba__candidate_status(&contender->candidate) : SIMBA_STATUS_INITIAL;
}

int64_t simba_contender_held_for_ms(const simba_contender *contender)
{
    return contender ? simba__candidate_held_for_ns(&contender->candidate) / SIMBA__NS_PER_MS : 0;
}

int simba_contender_lease(const simba_contender *contender, simba_lease *ret_lease)
{
    return contender && ret_lease ? simba__candidate_lease(&contender->candidate, ret_lease) : SIMBA_EINVAL;
}

bool simba_contender_is_owner(const simba_contender *contender)
{
    return contender && simba__candidate_held_for_ns(&contender->candidate) > 0;
}

bool simba_contender_in_ttl(const simba_contender *contender)
{
    return contender && simba__candidate_ttl_for_ns(&contender->candidate) > 0;
}

uint64_t simba_contender_token(const simba_contender *contender)
{
    return contender ? simba__candidate_token(&contender->candidate) : 0;
}

int64_t simba_contender_owner_left_ms(simba_contender *contender)
{
    return contender ? simba__candidate_owner_left_ms(&contender->candidate) : 0;
}

int simba_contender_grant(simba_contender *contender, simba_grant *ret_grant)
{
    return contender && ret_grant ? simba__candidate_grant(&contender->candidate, ret_grant) : SIMBA_EINVAL;
}

int simba_contender_owner(simba_contender *contender, simba_owner *ret_owner)
{
    return contender && ret_owner ? simba__candidate_owner(&contender->candidate, ret_owner) : SIMBA_EINVAL;
}

int simba_contender_note_set(simba_contender *contender, const void *bytes, size_t length, simba_error *err)
{
    return contender ? simba__work_note_set(&contender->candidate, bytes, length, err)
                     : simba__fail(err, SIMBA_EINVAL, "contender is NULL");
}

int simba_contender_note(simba_contender *contender, simba_error *err, simba_note *ret_note)
{
    if (!contender || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", contender ? "ret_note" : "contender");
    return simba__work_note_get(&contender->candidate, err, ret_note);
}
