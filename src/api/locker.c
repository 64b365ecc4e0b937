/* The locker: a candidate that leads at most once per acquire, and a thread that waits for it. It has no callbacks.
 *
 * A locker with slots is the locker of the turnstile (core/slots.h), and has a locker for each slot. From outside it looks like the
 * locker of the slot that it has entered. */
#include <simba.h>
#include <stdio.h>
#include <string.h>

#include "client/notes.h"
#include "core/slots.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"

/* How long an attempt that is given up may take to give back what it got, before acquire returns without that; and how long
 * one that tries once waits for the attempt before it. Acquire has promised to be back within 100 ms. */
enum { LEAVE_MS = 50, ONCE_MS = 80 };
/* An attempt at slots that tries once waits so long for the turnstile: somebody may just pass through it. */
enum { PASS_MS = 1000 };

struct simba_locker {
    simba__candidate candidate; /* first */
    simba__once once;
    int64_t min_hold_ms;       /* 0: no such rule */
    simba_error acquire_error; /* of the latest answer to an acquire, if that failed */
    simba_error release_error; /* likewise to a release */
    bool waiting;              /* a thread is in acquire */
    bool held;                 /* acquire succeeded, and release has not been called */
    bool releasing;            /* a thread is in release */
    bool cancelled;
    bool refused;   /* somebody else owns it, or the store could not be asked: the machine goes on trying */
    uint8_t reason; /* why leadership ended while held */
    /* The locker that the application asks about: this one; of a turnstile the slot that it has entered, or the first. */
    _Atomic(simba_locker *) shown;
    simba_locker **slots; /* of a turnstile */
    unsigned slot_count;
    simba_locker *turnstile; /* of a slot: which waits for it */
    bool asked;              /* of a slot: the latest attempt has asked for it */
};

/* Under the lock. */
static void told(simba__candidate *candidate, const simba__step *step)
{
    simba_locker *locker = (simba_locker *)(void *)candidate;
    const simba__event *event = step->event;
    const bool withdrawn = event->error && event->error->code == SIMBA_ECANCELED && event->sent_at.ns == 0;
    if (event->kind == SIMBA__EV_REPLY && !withdrawn) {
        simba_error *error =
            step->actions->was_op == SIMBA_OP_ACQUIRE ? &locker->acquire_error : &locker->release_error;
        if (event->error)
            *error = *event->error;
        else if (step->actions->was_op == SIMBA_OP_ACQUIRE)
            error->code = 0;
    }
    if (event->kind == SIMBA__EV_REPLY && !withdrawn && step->actions->was_op == SIMBA_OP_ACQUIRE)
        locker->refused = !step->actions->acquired;
    if (step->actions->released && !locker->slots)
        locker->reason = (uint8_t)step->actions->reason;
    if (step->actions->acquired) {
        locker->held = true;
        simba__wake(candidate->handle.client, candidate);
    }
    if (locker->turnstile)
        simba__wake(candidate->handle.client, locker->turnstile);
}

static int run_callback(simba__handle *handle)
{
    (void)handle;
    return -1;
}

static void destroy(simba__handle *handle)
{
    simba_locker *locker = (simba_locker *)(void *)handle;
    simba__candidate_fini(&locker->candidate);
    simba__free(locker->slots);
    simba__free(locker);
}

static const simba__candidate_type type = {
    .handle = {.step = simba__candidate_step, .callback = run_callback, .destroy = destroy, .contends = true},
    .told = told,
    .acks_at_once = true,
};

/* Can this store keep such rules? A lease that must keep others out for a while is made as long as that. */
static int check_rules(const simba_client *client, simba_locker_options *options, simba_error *err)
{
    const char *scheme = simba_url_scheme(client->url);
    if (options->once_per_ms < 0 || options->once_per_ms > SIMBA_LEASE_MAX_MS)
        return simba__fail(err, SIMBA_EINVAL, "once_per_ms is %lld; it must be from 0 to %lld",
                           (long long)options->once_per_ms, (long long)SIMBA_LEASE_MAX_MS);
    if (options->once_per_ms > 0 && !(client->backend->caps & SIMBA_CAP_NOTE))
        return simba__fail(err, SIMBA_ENOTSUP, "once_per_ms: %s:// keeps no notes", scheme);
    if (options->once_retry_failed && options->once_per_ms == 0)
        return simba__fail(err, SIMBA_EINVAL, "once_retry_failed needs once_per_ms");
    if (options->slots < 0 || options->slots > SIMBA_SLOTS_MAX)
        return simba__fail(err, SIMBA_EINVAL, "slots is %lld; it must be from 0 to %d", (long long)options->slots,
                           SIMBA_SLOTS_MAX);
    if (options->slots > 0 && options->once_per_ms > 0)
        return simba__fail(err, SIMBA_EINVAL,
                           "slots and once_per_ms exclude each other: both need the note of the mutex");
    if (options->slots > 0 && !(client->backend->caps & SIMBA_CAP_NOTE))
        return simba__fail(err, SIMBA_ENOTSUP, "slots: %s:// keeps no notes", scheme);
    if (options->min_hold_ms < 0 || options->min_hold_ms > SIMBA_LEASE_MAX_MS)
        return simba__fail(err, SIMBA_EINVAL, "min_hold_ms is %lld; it must be from 0 to %lld",
                           (long long)options->min_hold_ms, (long long)SIMBA_LEASE_MAX_MS);
    if (options->min_hold_ms == 0)
        return 0;
    if (client->timing.session)
        return simba__fail(err, SIMBA_ENOTSUP,
                           "min_hold_ms: leases of %s:// are sessions, which end with the process; once_per_ms works",
                           scheme);
    int64_t *ttl_ms = &options->timing.ttl_ms;
    if (*ttl_ms == SIMBA_INHERIT)
        *ttl_ms = client->timing.ms.ttl_ms;
    if (*ttl_ms < options->min_hold_ms)
        *ttl_ms = options->min_hold_ms;
    return 0;
}

static int make(simba_client *client, const char *mutex, const simba_locker_options *options, simba_error *err,
                simba_locker **ret_locker)
{
    simba_locker *locker = simba__calloc(1, sizeof *locker);
    if (!locker)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    const int rc = simba__candidate_init(&locker->candidate, &type, client, mutex, options->id, &options->timing, err);
    if (rc < 0) {
        simba__free(locker);
        return rc;
    }
    locker->shown = locker;
    locker->candidate.machine.once = true;
    locker->once = (simba__once){options->once_per_ms, options->once_retry_failed};
    locker->min_hold_ms = options->min_hold_ms;
    *ret_locker = locker;
    return 0;
}

static int make_slots(simba_locker *turnstile, const simba_locker_options *options, simba_error *err)
{
    simba_locker_options own = *options;
    char name[SIMBA_MUTEX_BYTES + 8];
    int rc = 0;
    own.id = turnstile->candidate.id;
    own.timing.initial_delay_ms = 0; /* the turnstile has had it */
    turnstile->min_hold_ms = 0;
    turnstile->slots = simba__calloc((size_t)options->slots, sizeof *turnstile->slots);
    if (!turnstile->slots)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    while (rc == 0 && turnstile->slot_count < options->slots) {
        simba_locker **slot = &turnstile->slots[turnstile->slot_count];
        snprintf(name, sizeof name, "%s#%u", turnstile->candidate.handle.watch->mutex, turnstile->slot_count + 1);
        rc = make(turnstile->candidate.handle.client, name, &own, err, slot);
        if (rc == 0) {
            (*slot)->turnstile = turnstile;
            turnstile->slot_count++;
        }
    }
    turnstile->shown = turnstile->slots[0];
    return rc;
}

int simba_locker_new(simba_client *client, const char *mutex, const simba_locker_options *options, simba_error *err,
                     simba_locker **ret_locker)
{
    if (!client || !ret_locker)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_locker" : "client");
    simba_locker_options own = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    int rc = simba__sized_take("simba_locker_options", options, &own, err);
    if (rc == 0)
        rc = check_rules(client, &own, err);
    simba_locker_options first = own;
    if (own.slots > 0)
        first.timing.hold_limit_ms = 0; /* how long the turnstile is held is not the holder's affair */
    if (rc == 0)
        rc = make(client, mutex, &first, err, &locker);
    if (rc != 0)
        return rc;
    if (own.slots > 0)
        rc = make_slots(locker, &own, err);
    if (rc < 0)
        simba_locker_free(locker);
    else
        *ret_locker = locker;
    return rc;
}

/* --- acquire ---------------------------------------------------------------------------------------- */

/* Under the lock: why there is no mutex. */
static int explain(simba_locker *locker, int64_t timeout_ms, simba_error *err)
{
    const simba_owner *owner = &locker->candidate.machine.owner;
    const char *mutex = locker->candidate.handle.watch->mutex;
    if (locker->cancelled)
        return simba__fail(err, SIMBA_ECANCELED, "acquire %s: cancelled", mutex);
    if (locker->candidate.handle.client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "acquire %s: the client is closed", mutex);
    if (locker->acquire_error.code != 0) {
        /* A store that does not answer cannot be told from one that is not there; a mutex that is taken can. */
        if (locker->acquire_error.code == SIMBA_ETIMEDOUT)
            locker->acquire_error.code = SIMBA_EUNAVAILABLE;
        if (err)
            *err = locker->acquire_error;
        return locker->acquire_error.code;
    }
    if (simba_owner_is_none(owner))
        return simba__fail(err, SIMBA_ETIMEDOUT, "acquire %s: not obtained within %lld ms", mutex,
                           (long long)timeout_ms);
    return simba__fail(err, SIMBA_ETIMEDOUT, "acquire %s: owned by %s", mutex, owner->id);
}

/* Under the lock: until it is ours, or has come to an end. When the time is over or somebody cancels, the machine is told to
 * stop, and gives back what it may get meanwhile. A store that answers has that done in no time; one that does not is not
 * waited for, and the machine goes on by itself. */
static void wait_for_it(simba_locker *locker, simba_local until)
{
    simba__handle *handle = &locker->candidate.handle;
    const simba_client *client = handle->client;
    bool stopping = false;
    while (handle->running && !locker->held) {
        if (!stopping && (locker->cancelled || simba__local_reached(client->now, until))) {
            stopping = true;
            until = simba__local_add(client->now, LEAVE_MS * SIMBA__NS_PER_MS);
            simba__handle_send_stop(handle);
        } else if (stopping && simba__local_reached(client->now, until)) {
            /* What the store answered to an earlier request says more than its silence now. */
            if (locker->candidate.machine.op == SIMBA_OP_ACQUIRE && locker->acquire_error.code == 0)
                simba__fail(&locker->acquire_error, SIMBA_EUNAVAILABLE, "acquire %s: the store does not answer",
                            handle->watch->mutex);
            return;
        } else {
            simba__handle_wait(handle, until);
        }
    }
}

/* Under the lock. */
static int acquire(simba_locker *locker, int64_t timeout_ms, simba_local until, simba_error *err)
{
    simba__handle *handle = &locker->candidate.handle;
    const simba_client *client = handle->client;
    const char *mutex = handle->watch->mutex;
    if (client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "acquire %s: the client is closed", mutex);
    locker->release_error.code = 0;
    locker->waiting = true;
    locker->cancelled = false;
    locker->reason = SIMBA_REASON_NONE;
    /* The attempt before this one may still be giving back what it got. */
    const simba_local through = timeout_ms == 0 ? simba__local_add(client->now, ONCE_MS * SIMBA__NS_PER_MS) : until;
    while (handle->running && !locker->cancelled && !simba__local_reached(client->now, through))
        simba__handle_wait(handle, through);
    locker->acquire_error.code = 0;
    if (handle->running) {
        simba__fail(&locker->acquire_error, SIMBA_EUNAVAILABLE,
                    "acquire %s: the store has not answered yet to the end of the attempt before this one", mutex);
    } else if (!client->closing) {
        locker->candidate.machine.try_once = timeout_ms == 0;
        simba__candidate_begin(&locker->candidate);
        wait_for_it(locker, until);
    }
    locker->waiting = false;
    return locker->held ? 0 : explain(locker, timeout_ms, err);
}

static int release(simba_locker *locker, simba_error *err);

/* --- slots ------------------------------------------------------------------------------------------ */

/* In the turnstile: do all contenders agree on the number of slots? The first one writes it down. */
static int check_slots(simba_locker *turnstile, simba_error *err)
{
    simba_client *client = turnstile->candidate.handle.client;
    const char *mutex = turnstile->candidate.handle.watch->mutex;
    simba__note_call call = {.busy = false};
    char note[SIMBA__SLOTS_NOTE_MAX];
    int rc = simba__note_finish(client, &call, simba__note_read(&call, client, mutex), err);
    if (rc == 0)
        rc = simba__slots_check(mutex, turnstile->slot_count, call.note.bytes, call.note.length, err, note);
    if (rc == 0)
        rc =
            simba__note_finish(client, &call, simba__note_write(&call, &turnstile->candidate, note, strlen(note)), err);
    return rc < 0 ? rc : 0;
}

/* In the turnstile: take the first slot that is free, or becomes free. */
static int take_slot(simba_locker *turnstile, int64_t timeout_ms, simba_local until, simba_error *err)
{
    simba_client *client = turnstile->candidate.handle.client;
    const char *mutex = turnstile->candidate.handle.watch->mutex;
    const unsigned first = (unsigned)(client->host.random(&client->host) % turnstile->slot_count);
    simba__slot states[SIMBA_SLOTS_MAX];
    unsigned which;
    for (unsigned i = 0; i < turnstile->slot_count; i++)
        turnstile->slots[i]->asked = false;
    for (;;) {
        simba_locker *failed = NULL;
        for (unsigned i = 0; i < turnstile->slot_count; i++) {
            simba_locker *slot = turnstile->slots[i];
            const bool running = slot->candidate.handle.running;
            states[i] = simba__slots_state(slot->asked, running, slot->refused, slot->held);
            failed = slot->asked && !slot->held && slot->acquire_error.code != 0 ? slot : failed;
            if (failed == slot && !running)
                return explain(slot, timeout_ms, err);
        }
        const simba__slots_move move = simba__slots_decide(states, turnstile->slot_count, first, &which);
        const bool is_over = simba__local_reached(client->now, until);
        if (move == SIMBA__SLOTS_ENTER) {
            turnstile->shown = turnstile->slots[which];
            return 0;
        }
        if (client->closing)
            return simba__fail(err, SIMBA_ECLOSED, "acquire %s: the client is closed", mutex);
        if (turnstile->cancelled)
            return simba__fail(err, SIMBA_ECANCELED, "acquire %s: cancelled", mutex);
        if (is_over && move != SIMBA__SLOTS_FULL)
            return simba__fail(err, SIMBA_EUNAVAILABLE, "acquire %s: the store does not answer", mutex);
        if (move == SIMBA__SLOTS_FULL && is_over && failed)
            return explain(failed, timeout_ms, err);
        if (move == SIMBA__SLOTS_FULL && (is_over || timeout_ms == 0))
            return simba__fail(err, SIMBA_ETIMEDOUT, "acquire %s: all its %u slots are taken", mutex,
                               turnstile->slot_count);
        if (move == SIMBA__SLOTS_ASK) {
            simba_locker *slot = turnstile->slots[which];
            slot->asked = true;
            slot->refused = false;
            slot->acquire_error.code = 0;
            slot->reason = SIMBA_REASON_NONE;
            slot->candidate.machine.try_once = timeout_ms == 0;
            slot->candidate.machine.min_hold_ns = 0;
            simba__candidate_begin(&slot->candidate);
        } else {
            simba__wait(client, turnstile, until);
        }
    }
}

/* Under the lock. */
static int acquire_slot(simba_locker *turnstile, int64_t timeout_ms, simba_local until, simba_error *err)
{
    const simba_client *client = turnstile->candidate.handle.client;
    const simba_owner *owner = &turnstile->candidate.machine.owner;
    const int64_t pass_ms = timeout_ms == 0 ? PASS_MS : timeout_ms;
    const simba_local passed_by = timeout_ms == 0 ? simba__local_add(client->now, PASS_MS * SIMBA__NS_PER_MS) : until;
    turnstile->shown = turnstile->slots[0];
    int rc = acquire(turnstile, pass_ms, passed_by, err);
    if (rc == SIMBA_ETIMEDOUT && !simba_owner_is_none(owner))
        return simba__fail(err, rc, "acquire %s: all its %u slots are taken, and %s is the next",
                           turnstile->candidate.handle.watch->mutex, turnstile->slot_count, owner->id);
    if (rc < 0)
        return rc;
    turnstile->held = false; /* for the application it holds nothing yet */
    turnstile->waiting = true;
    rc = check_slots(turnstile, err);
    if (rc == 0)
        rc = take_slot(turnstile, timeout_ms, until, err);
    turnstile->waiting = false;
    simba__handle_send_stop(&turnstile->candidate.handle);
    for (unsigned i = 0; i < turnstile->slot_count; i++) {
        simba_locker *slot = turnstile->slots[i];
        if (rc < 0 || slot != turnstile->shown) {
            slot->held = false;
            simba__handle_send_stop(&slot->candidate.handle);
        }
    }
    return rc;
}

/* --- acquire, from outside --------------------------------------------------------------------------- */

int simba_locker_acquire(simba_locker *locker, int64_t timeout_ms, simba_error *err)
{
    if (!locker)
        return simba__fail(err, SIMBA_EINVAL, "locker is NULL");
    if (timeout_ms < -1)
        return simba__fail(err, SIMBA_EINVAL, "timeout_ms is %lld; -1 waits for ever, 0 tries once",
                           (long long)timeout_ms);
    simba_client *client = locker->candidate.handle.client;
    int rc = simba__lock_checked(client, false, err);
    if (rc < 0)
        return rc;
    const simba_local until = timeout_ms > 0 && timeout_ms < SIMBA_LEASE_MAX_MS
                                  ? simba__local_add(client->now, timeout_ms * SIMBA__NS_PER_MS)
                                  : SIMBA__NEVER;
    /* The rule is asked before the wait, because a run that counts makes the wait pointless; and once more by the holder,
     * because of several who waited only the first may begin. */
    simba_locker *shown = locker->shown;
    if (shown->held || locker->waiting)
        rc = simba__fail(err, SIMBA_ESTATE, "acquire %s: this locker already %s it",
                         locker->candidate.handle.watch->mutex, shown->held ? "holds" : "waits for");
    else
        locker->candidate.machine.min_hold_ns = 0;
    if (rc == 0 && locker->once.per_ms > 0)
        rc = simba__once_check(&locker->candidate, &locker->once, err);
    if (rc == 0)
        rc = locker->slots ? acquire_slot(locker, timeout_ms, until, err) : acquire(locker, timeout_ms, until, err);
    if (rc == 0 && locker->once.per_ms > 0) {
        rc = simba__once_begin(&locker->candidate, &locker->once, err);
        if (rc < 0)
            (void)release(locker, NULL);
    }
    shown = locker->shown;
    if (rc == 0)
        shown->candidate.machine.min_hold_ns = shown->min_hold_ms * SIMBA__NS_PER_MS;
    simba__unlock(client);
    return rc;
}

/* --- once per period -------------------------------------------------------------------------------- */

int simba_locker_once_end(simba_locker *locker, int result, simba_error *err)
{
    if (!locker)
        return simba__fail(err, SIMBA_EINVAL, "locker is NULL");
    simba_client *client = locker->candidate.handle.client;
    const char *mutex = locker->candidate.handle.watch->mutex;
    int rc = simba__lock_checked(client, false, err);
    if (rc < 0)
        return rc;
    if (locker->once.per_ms == 0)
        rc = simba__fail(err, SIMBA_ESTATE, "once_end %s: this locker has no once_per_ms", mutex);
    else if (!locker->held || locker->releasing)
        rc = simba__fail(err, SIMBA_ESTATE, "once_end %s: this locker does not hold it", mutex);
    else
        rc = simba__once_end(&locker->candidate, result, err);
    simba__unlock(client);
    return rc;
}

/* --- release ---------------------------------------------------------------------------------------- */

/* Under the lock. */
static int release(simba_locker *locker, simba_error *err)
{
    simba__handle *handle = &locker->candidate.handle;
    const simba__contention *machine = &locker->candidate.machine;
    const char *mutex = handle->watch->mutex;
    if (handle->client->closed) {
        locker->held = false;
        return simba__fail(err, SIMBA_ECLOSED, "release %s: the client is closed", mutex);
    }
    if (!locker->held || locker->releasing)
        return simba__fail(err, SIMBA_ESTATE, "release %s: this locker does not hold it", mutex);
    locker->releasing = true;
    locker->release_error.code = 0;
    simba__handle_send_stop(handle);
    while (handle->running)
        simba__handle_wait(handle, SIMBA__NEVER);
    locker->held = false;
    locker->releasing = false;
    if (handle->client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "release %s: the client is closed", mutex);
    const int rc = machine->last_error;
    const bool sure =
        rc == 0 && locker->release_error.code == 0; /* a release without an answer may have been carried out */
    if (locker->reason == SIMBA_REASON_STOPPED && sure && machine->last_outcome != SIMBA_MINE) /* news to us */
        locker->reason = machine->last_outcome == SIMBA_REVOKED ? SIMBA_REASON_REVOKED : SIMBA_REASON_SUPERSEDED;
    if (locker->reason != SIMBA_REASON_STOPPED)
        return simba__fail(err, SIMBA_ELOST, "release %s: leadership ended before: %s", mutex,
                           simba_reason_name((simba_reason)locker->reason));
    if (rc < 0 && err)
        *err = locker->release_error;
    return rc;
}

int simba_locker_release(simba_locker *locker, simba_error *err)
{
    if (!locker)
        return simba__fail(err, SIMBA_EINVAL, "locker is NULL");
    simba_client *client = locker->candidate.handle.client;
    int rc = simba__lock_checked(client, false, err);
    if (rc < 0)
        return rc;
    rc = release(locker->shown, err);
    simba__unlock(client);
    return rc;
}

/* --- the rest --------------------------------------------------------------------------------------- */

int simba_locker_cancel(simba_locker *locker)
{
    if (!locker)
        return SIMBA_EINVAL;
    simba_client *client = locker->candidate.handle.client;
    int rc = simba__lock_checked(client, false, NULL);
    if (rc < 0)
        return rc;
    if (locker->waiting) {
        locker->cancelled = true;
        simba__wake(client, locker);
    } else if (client->closed) {
        rc = SIMBA_ECLOSED;
    }
    simba__unlock(client);
    return rc;
}

void simba_locker_free(simba_locker *locker)
{
    if (!locker)
        return;
    for (unsigned i = 0; i < locker->slot_count; i++)
        simba__handle_free(&locker->slots[i]->candidate.handle, true);
    simba__handle_free(&locker->candidate.handle, true);
}

void simba_locker_cleanup(simba_locker **locker)
{
    simba_locker_free(*locker);
}

simba_reason simba_locker_reason(simba_locker *locker)
{
    simba_client *client = locker ? locker->candidate.handle.client : NULL;
    if (!locker || simba__lock_checked(client, false, NULL) < 0)
        return SIMBA_REASON_NONE;
    const simba_reason reason = (simba_reason)locker->shown->reason;
    simba__unlock(client);
    return reason;
}

int simba_locker_lease(const simba_locker *locker, simba_lease *ret_lease)
{
    return locker && ret_lease ? simba__candidate_lease(&locker->shown->candidate, ret_lease) : SIMBA_EINVAL;
}

int64_t simba_locker_held_for_ms(const simba_locker *locker)
{
    return locker ? simba__candidate_held_for_ns(&locker->shown->candidate) / SIMBA__NS_PER_MS : 0;
}

uint64_t simba_locker_token(const simba_locker *locker)
{
    return locker ? simba__candidate_token(&locker->shown->candidate) : 0;
}

int simba_locker_slot(const simba_locker *locker)
{
    const simba_locker *shown = locker ? locker->shown : NULL; /* once: another thread may call acquire meanwhile */
    int slot = 0;
    if (!shown || !locker->slots || simba__candidate_held_for_ns(&shown->candidate) == 0)
        return 0;
    while (locker->slots[slot] != shown)
        slot++;
    return slot + 1;
}

const char *simba_locker_id(const simba_locker *locker)
{
    return locker ? locker->candidate.id : NULL;
}

int simba_locker_owner(simba_locker *locker, simba_owner *ret_owner)
{
    return locker && ret_owner ? simba__candidate_owner(&locker->shown->candidate, ret_owner) : SIMBA_EINVAL;
}

int64_t simba_locker_owner_left_ms(simba_locker *locker)
{
    return locker ? simba__candidate_owner_left_ms(&locker->shown->candidate) : 0;
}

int simba_locker_grant(simba_locker *locker, simba_grant *ret_grant)
{
    return locker && ret_grant ? simba__candidate_grant(&locker->shown->candidate, ret_grant) : SIMBA_EINVAL;
}

int simba_locker_note_set(simba_locker *locker, const void *bytes, size_t length, simba_error *err)
{
    if (!locker)
        return simba__fail(err, SIMBA_EINVAL, "locker is NULL");
    return simba__work_note_set(&locker->shown->candidate, bytes, length, err);
}

int simba_locker_note(simba_locker *locker, simba_error *err, simba_note *ret_note)
{
    if (!locker || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", locker ? "ret_note" : "locker");
    return simba__work_note_get(&locker->shown->candidate, err, ret_note);
}
