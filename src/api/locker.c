/* The locker: a member that leads at most once per acquire, and a thread that waits for it. It has no callbacks, so
 * it is told in the turn itself. A locker that lingers does not start its own member: it shares one (runtime/shared.h). */
#include <simba.h>

#include "runtime/once.h"
#include "runtime/shared.h"
#include "runtime/worknote.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"

/* How long an attempt that is given up may take to give back what it got, before acquire returns without that; and how long
 * one that tries once waits for the attempt before it. Acquire has promised to be back within 100 ms. */
enum { LEAVE_MS = 50, ONCE_MS = 80 };
/* What acquire and release return in here if they succeeded and this thread is in no turn any more; see simba__turn_let_go. */
enum { LET_GO = 1 };

struct simba_locker {
    simba__member member; /* first */
    simba__sharer sharer; /* if it lingers */
    simba__condition changed;
    int64_t once_per_ms; /* 0: no such rule, as the next one */
    int64_t min_hold_ms;
    simba_error acquire_error; /* of the latest attempt, if that failed */
    simba_error other_error;   /* of the latest renewal or release, if that failed */
    bool waiting;              /* a thread is in acquire */
    bool held;                 /* acquire succeeded, and release has not been called */
    bool releasing;            /* a thread is in release */
    bool cancelled;
    bool unsure;    /* a release went unanswered, and may have been carried out */
    uint8_t reason; /* why leadership ended while held */
};

static simba_locker *of_member(simba__member *member)
{
    return (simba_locker *)(void *)member;
}

static bool lingers(const simba_locker *locker)
{
    return locker->sharer.shared != NULL;
}

/* The member that has its grant; lock-free. */
static simba__member *holder(const simba_locker *locker)
{
    return lingers(locker) && atomic_load_explicit(&locker->sharer.has, memory_order_acquire)
               ? simba__shared_member(&locker->sharer)
               : (simba__member *)(uintptr_t)&locker->member;
}

/* The member that asks the store for it. */
static simba__member *asker(const simba_locker *locker)
{
    return lingers(locker) ? simba__shared_member(&locker->sharer) : (simba__member *)(uintptr_t)&locker->member;
}

static bool has_rules(const simba_locker *locker)
{
    return locker->once_per_ms > 0 || locker->min_hold_ms > 0;
}

/* Has a release ended as it should? */
static bool is_given_back(const simba_locker *locker)
{
    return locker->reason == SIMBA_REASON_STOPPED && locker->member.machine.last_error == 0 && !locker->unsure &&
           locker->member.machine.last_outcome == SIMBA_MINE && !locker->member.party.client->closing;
}

/* The thread that is in acquire or release has what it came for; or it looks what has become of that. After a success it has
 * nothing left to do in a turn, unless there are rules. */
static void end_wait(simba_locker *locker, const simba__actions *actions)
{
    simba__turn *turn = &locker->member.party.client->turn;
    const bool sleeps = locker->changed.sleepers.first != NULL;
    const bool acquired = actions->acquired && locker->waiting;
    const bool released = actions->done && locker->releasing;
    if (sleeps && !has_rules(locker) && (acquired || (released && is_given_back(locker)))) {
        simba__turn_let_go(turn, &locker->changed);
        locker->waiting = locker->releasing = false;
        locker->held = acquired;
    } else {
        simba__turn_signal(turn, &locker->changed);
    }
}

/* No request is in flight: what does the latest answer say? */
static void look_at_answer(simba_locker *locker)
{
    const simba__contention *machine = &locker->member.machine;
    if (machine->op == SIMBA_OP_ACQUIRE && machine->last_error == 0)
        locker->acquire_error.code = 0;
    if (machine->op == SIMBA_OP_RELEASE && machine->last_error < 0)
        locker->unsure = true;
}

static void told(simba__member *member, const simba__actions *actions)
{
    simba_locker *locker = of_member(member);
    if (actions->acquired)
        locker->held = true;
    if (actions->released)
        locker->reason = (uint8_t)actions->reason;
    if (actions->submit)
        simba__party_explain(&member->party,
                             actions->op == SIMBA_OP_ACQUIRE ? &locker->acquire_error : &locker->other_error);
    if (!member->machine.in_flight)
        look_at_answer(locker);
    if (actions->acquired || actions->done)
        end_wait(locker, actions);
}

static int run_one(simba__party *party)
{
    (void)party;
    return -1;
}

static void destroy(simba__party *party)
{
    simba_locker *locker = (simba_locker *)(void *)party;
    simba__member_fini(&locker->member);
    simba__free(locker);
}

static const simba__member_type type = {
    .party = {.event = simba__member_step, .run_one = run_one, .destroy = destroy, .is_member = true},
    .told = told,
    .acks_at_once = true,
};

/* Can this store keep such rules? A lease that has to keep others out for a while is made as long as that. */
static int check_rules(const simba_client *client, simba_locker_options *options, simba_error *err)
{
    const char *scheme = simba_url_scheme(client->url);
    if (options->once_per_ms < 0 || options->once_per_ms > SIMBA_LEASE_MAX_MS)
        return simba__fail(err, SIMBA_EINVAL, "once_per_ms is %lld; it must be from 0 to %lld",
                           (long long)options->once_per_ms, (long long)SIMBA_LEASE_MAX_MS);
    if (options->once_per_ms > 0 && !(client->backend->caps & SIMBA_CAP_NOTE))
        return simba__fail(err, SIMBA_ENOTSUP, "once_per_ms: %s:// keeps no notes", scheme);
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

/* Does a locker of these options linger? If its own options ask for it, they must not ask for what cannot be had with it. */
static int check_linger(const simba_locker *locker, const simba_locker_options *options, simba_error *err)
{
    const simba__timing *timing = locker->member.machine.timing;
    const char *other = options->once_per_ms    ? "once_per_ms"
                        : options->min_hold_ms  ? "min_hold_ms"
                        : timing->hold_limit_ns ? "hold_limit_ms"
                                                : NULL;
    if (timing->linger_ns == 0)
        return 0;
    if (!other)
        return 1;
    if (options->timing.linger_ms == SIMBA_INHERIT)
        return 0;
    return simba__fail(err, SIMBA_EINVAL, "linger_ms is %lld and %s is set; a locker can have only one of the two",
                       (long long)options->timing.linger_ms, other);
}

int simba_locker_new(simba_client *client, const char *mutex, const simba_locker_options *options, simba_error *err,
                     simba_locker **ret_locker)
{
    if (!client || !ret_locker)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_locker" : "client");
    simba_locker_options own = SIMBA_LOCKER_OPTIONS_INIT;
    int rc = simba__sized_take("simba_locker_options", options, &own, err);
    if (rc == 0)
        rc = check_rules(client, &own, err);
    if (rc < 0)
        return rc;
    simba_locker *locker = simba__calloc(1, sizeof *locker);
    if (!locker)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    rc = simba__member_init(&locker->member, &type, client, mutex, own.id, &own.timing, err);
    if (rc < 0) {
        simba__free(locker);
        return rc;
    }
    locker->member.machine.once = true;
    locker->once_per_ms = own.once_per_ms;
    locker->min_hold_ms = own.min_hold_ms;
    rc = check_linger(locker, &own, err);
    if (rc > 0)
        rc = simba__shared_join(&locker->sharer, &locker->member, own.id, &locker->changed, err);
    if (rc < 0) {
        simba__party_free(&locker->member.party);
        return rc;
    }
    *ret_locker = locker;
    return 0;
}

static void send_stop(simba_locker *locker)
{
    simba__event event = {.kind = SIMBA__EV_STOP, .now = locker->member.party.client->turn.now};
    if (locker->member.party.running)
        simba__member_step(&locker->member.party, &event);
}

/* In a turn: until it is ours, or has come to an end. When the time is over or somebody cancels, the machine is told to
 * stop, and gives back what it may get meanwhile. A store that answers has that done in no time; one that does not is not
 * waited for, and the machine goes on by itself. */
static simba__awaited wait_for_it(simba_locker *locker, simba_local until)
{
    simba_client *client = locker->member.party.client;
    simba__awaited awaited = SIMBA__MAYBE;
    bool stopping = false;
    while (awaited != SIMBA__LET_GO && locker->member.party.running && !locker->held) {
        if (!stopping && (locker->cancelled || simba__local_reached(client->turn.now, until))) {
            stopping = true;
            until = simba__local_add(client->turn.now, LEAVE_MS * SIMBA__NS_PER_MS);
            send_stop(locker);
        } else if (stopping && simba__local_reached(client->turn.now, until)) {
            break;
        } else {
            awaited = simba__turn_await(&client->turn, &locker->changed, until, SIMBA_JOB_BRIEF);
        }
    }
    return awaited;
}

/* In a turn: the attempt before this one may still be giving back what it got. False: it goes on to. */
static bool is_through(simba_locker *locker, simba_local until)
{
    simba_client *client = locker->member.party.client;
    while (locker->member.party.running && !locker->cancelled && !simba__local_reached(client->turn.now, until))
        simba__turn_await(&client->turn, &locker->changed, until, SIMBA_JOB_BRIEF);
    return !locker->member.party.running;
}

static int explain(simba_locker *locker, int64_t timeout_ms, simba_error *err)
{
    simba__member_catch_up(asker(locker));
    const simba__contention *machine = &asker(locker)->machine;
    const char *mutex = locker->member.party.topic->mutex;
    if (locker->cancelled)
        return simba__fail(err, SIMBA_ECANCELED, "acquire %s: cancelled", mutex);
    if (locker->member.party.client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "acquire %s: the client is closed", mutex);
    if (locker->acquire_error.code != 0) {
        /* A store that does not answer cannot be told from one that is not there; a mutex that is taken can. */
        if (locker->acquire_error.code == SIMBA_ETIMEDOUT)
            locker->acquire_error.code = SIMBA_EUNAVAILABLE;
        if (err)
            *err = locker->acquire_error;
        return locker->acquire_error.code;
    }
    if (!machine->owner.id)
        return simba__fail(err, SIMBA_ETIMEDOUT, "acquire %s: not obtained within %lld ms", mutex,
                           (long long)timeout_ms);
    return simba__fail(err, SIMBA_ETIMEDOUT, "acquire %s: owned by %s", mutex, machine->owner.id);
}

/* In a turn: the same for a locker that lingers. */
static void share(simba_locker *locker, bool once, simba_local until, simba_local at_once)
{
    simba_client *client = locker->member.party.client;
    simba__sharer *sharer = &locker->sharer;
    simba__shared_want(sharer, once);
    while (!sharer->has && simba__shared_waits(sharer) && !locker->cancelled && !client->closing &&
           !simba__local_reached(client->turn.now, until)) {
        if (once && simba__shared_is_leaving(sharer) && simba__local_reached(client->turn.now, at_once))
            break;
        simba__turn_await(&client->turn, &locker->changed, once && simba__shared_is_leaving(sharer) ? at_once : until,
                          SIMBA_JOB_BRIEF);
    }
    locker->held = sharer->has;
    if (locker->held)
        return;
    if (once && simba__shared_is_leaving(sharer))
        simba__fail(&sharer->error, SIMBA_EUNAVAILABLE,
                    "acquire %s: the store has not answered yet to the end of the grant before this one",
                    locker->member.party.topic->mutex);
    simba__shared_leave(sharer);
    locker->acquire_error = sharer->error.code ? sharer->error : *simba__shared_error(sharer);
}

static void prepare(simba_locker *locker, int64_t timeout_ms)
{
    locker->acquire_error.code = 0;
    locker->member.machine.try_once = timeout_ms == 0;
    locker->waiting = true;
    locker->cancelled = false;
    locker->reason = SIMBA_REASON_NONE;
}

/* In a turn: the attempt has begun. */
static int finish_acquire(simba_locker *locker, int64_t timeout_ms, simba_local until, simba_error *err)
{
    if (wait_for_it(locker, until) == SIMBA__LET_GO)
        return LET_GO;
    locker->waiting = false;
    return locker->held ? 0 : explain(locker, timeout_ms, err);
}

/* In a turn. */
static int acquire(simba_locker *locker, int64_t timeout_ms, simba_local until, simba_error *err)
{
    simba_client *client = locker->member.party.client;
    const char *mutex = locker->member.party.topic->mutex;
    if (client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "acquire %s: the client is closed", mutex);
    if (locker->held || locker->waiting)
        return simba__fail(err, SIMBA_ESTATE, "acquire %s: this locker already %s it", mutex,
                           locker->held ? "holds" : "waits for");
    prepare(locker, timeout_ms);
    const simba_local at_once = simba__local_add(client->turn.now, ONCE_MS * SIMBA__NS_PER_MS);
    if (lingers(locker)) {
        share(locker, timeout_ms == 0, until, at_once);
    } else if (!is_through(locker, timeout_ms == 0 ? at_once : until)) {
        simba__fail(&locker->acquire_error, SIMBA_EUNAVAILABLE,
                    "acquire %s: the store has not answered yet to the end of the attempt before this one", mutex);
    } else if (!client->closing) {
        simba__member_start(&locker->member, until);
        return finish_acquire(locker, timeout_ms, until, err);
    }
    locker->waiting = false;
    return locker->held ? 0 : explain(locker, timeout_ms, err);
}

static int release(simba_locker *locker, simba_error *err);

/* In a turn. Whoever finds that it has been begun need not wait for the one who does it; and of several who wait, only the
 * first may begin. */
static int acquire_by_rules(simba_locker *locker, int64_t timeout_ms, simba_local until, simba_error *err)
{
    simba__contention *machine = &locker->member.machine;
    const bool idle = !locker->held && !locker->waiting; /* otherwise acquire says so */
    int rc = 0;
    if (idle)
        machine->min_hold_ns = 0;
    if (idle && locker->once_per_ms > 0)
        rc = simba__once_check(&locker->member, locker->once_per_ms, err);
    if (rc == 0)
        rc = acquire(locker, timeout_ms, until, err);
    if (rc == 0 && locker->once_per_ms > 0) {
        rc = simba__once_begin(&locker->member, locker->once_per_ms, err);
        if (rc < 0)
            (void)release(locker, NULL);
    }
    if (rc == 0)
        machine->min_hold_ns = locker->min_hold_ms * SIMBA__NS_PER_MS;
    return rc;
}

/* When acquire gives up if it was called then. */
static simba_local end_of_patience(simba_local called_at, int64_t timeout_ms)
{
    return timeout_ms > 0 && timeout_ms < SIMBA_LEASE_MAX_MS
               ? simba__local_add(called_at, timeout_ms * SIMBA__NS_PER_MS)
               : SIMBA__NEVER;
}

/* A call of acquire or release that another thread may begin. */
typedef struct locker_call {
    simba__post post; /* first */
    simba_locker *locker;
    int64_t timeout_ms;
    simba_local until;
} locker_call;

/* In a turn of any thread. False: this is not the simple case, and the thread that called has to look itself. */
static bool begin_acquire(simba__post *post)
{
    const locker_call *call = (const locker_call *)(const void *)post;
    simba_locker *locker = call->locker;
    const bool busy = locker->held || locker->waiting || locker->member.party.running;
    if (busy || has_rules(locker) || lingers(locker) || locker->member.party.client->closing)
        return false;
    locker->member.machine.min_hold_ns = 0;
    prepare(locker, call->timeout_ms);
    simba__member_start(&locker->member, call->until);
    return true;
}

int simba_locker_acquire(simba_locker *locker, int64_t timeout_ms, simba_error *err)
{
    if (!locker)
        return simba__fail(err, SIMBA_EINVAL, "locker is NULL");
    if (timeout_ms < -1)
        return simba__fail(err, SIMBA_EINVAL, "timeout_ms is %lld; -1 waits for ever, 0 tries once",
                           (long long)timeout_ms);
    simba_client *client = locker->member.party.client;
    int rc = simba__client_forked(client, err);
    if (rc < 0)
        return rc;
    simba_local until;
    bool begun = false;
    if (simba__enter_if_free(&client->turn)) {
        until = end_of_patience(client->turn.now, timeout_ms);
    } else {
        until = end_of_patience(simba__clock_boot(), timeout_ms);
        locker_call call = {{.begin = begin_acquire, .condition = &locker->changed}, locker, timeout_ms, until};
        if (simba__enter_or_post(&client->turn, &call.post, until) == SIMBA__LET_GO)
            return 0;
        begun = call.post.begun;
    }
    rc = begun ? finish_acquire(locker, timeout_ms, until, err) : acquire_by_rules(locker, timeout_ms, until, err);
    if (rc == LET_GO)
        return 0;
    simba__turn_help(&client->turn);
    simba__leave(&client->turn);
    return rc;
}

/* In a turn. The store hears of it in the background, or not at all. */
static int release_shared(simba_locker *locker, simba_error *err)
{
    simba__sharer *sharer = &locker->sharer;
    const char *mutex = locker->member.party.topic->mutex;
    simba__shared_look(sharer);
    const bool lost = !sharer->has;
    locker->held = false;
    simba__shared_leave(sharer);
    if (locker->member.party.client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "release %s: the client is closed", mutex);
    return !lost ? 0
                 : simba__fail(err, SIMBA_ELOST, "release %s: leadership ended before: %s", mutex,
                               simba_reason_name((simba_reason)sharer->reason));
}

static void begin_to_release(simba_locker *locker)
{
    locker->releasing = true;
    locker->unsure = false;
    send_stop(locker);
}

/* In a turn: the release has begun. */
static int finish_release(simba_locker *locker, simba_error *err)
{
    simba_client *client = locker->member.party.client;
    const char *mutex = locker->member.party.topic->mutex;
    while (locker->member.party.running)
        if (simba__turn_await(&client->turn, &locker->changed, SIMBA__NEVER, SIMBA_JOB_LONG) == SIMBA__LET_GO)
            return LET_GO;
    locker->held = false;
    locker->releasing = false;
    if (client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "release %s: the client is closed", mutex);
    const int rc = locker->member.machine.last_error;
    const simba_outcome outcome = (simba_outcome)locker->member.machine.last_outcome;
    if (locker->reason == SIMBA_REASON_STOPPED && rc == 0 && !locker->unsure && outcome != SIMBA_MINE)
        locker->reason = outcome == SIMBA_REVOKED ? SIMBA_REASON_REVOKED : SIMBA_REASON_SUPERSEDED; /* news to us */
    if (locker->reason != SIMBA_REASON_STOPPED)
        return simba__fail(err, SIMBA_ELOST, "release %s: leadership ended before: %s", mutex,
                           simba_reason_name((simba_reason)locker->reason));
    if (rc < 0 && err)
        *err = locker->other_error;
    return rc;
}

/* In a turn. */
static int release(simba_locker *locker, simba_error *err)
{
    const char *mutex = locker->member.party.topic->mutex;
    if (locker->member.party.client->closed) {
        locker->held = false;
        return simba__fail(err, SIMBA_ECLOSED, "release %s: the client is closed", mutex);
    }
    if (!locker->held || locker->releasing)
        return simba__fail(err, SIMBA_ESTATE, "release %s: this locker does not hold it", mutex);
    if (lingers(locker))
        return release_shared(locker, err);
    begin_to_release(locker);
    return finish_release(locker, err);
}

static bool begin_release(simba__post *post)
{
    simba_locker *locker = ((const locker_call *)(const void *)post)->locker;
    if (locker->member.party.client->closed || !locker->held || locker->releasing || lingers(locker))
        return false;
    begin_to_release(locker);
    return true;
}

int simba_locker_release(simba_locker *locker, simba_error *err)
{
    if (!locker)
        return simba__fail(err, SIMBA_EINVAL, "locker is NULL");
    simba_client *client = locker->member.party.client;
    int rc = simba__client_forked(client, err);
    if (rc < 0)
        return rc;
    bool begun = false;
    if (!simba__enter_if_free(&client->turn)) {
        locker_call call = {.post = {.begin = begin_release, .condition = &locker->changed}, .locker = locker};
        if (simba__enter_or_post(&client->turn, &call.post, SIMBA__NEVER) == SIMBA__LET_GO)
            return 0;
        begun = call.post.begun;
    }
    rc = begun ? finish_release(locker, err) : release(locker, err);
    if (rc == LET_GO)
        return 0;
    simba__turn_help(&client->turn);
    simba__leave(&client->turn);
    return rc;
}

int simba_locker_cancel(simba_locker *locker)
{
    if (!locker)
        return SIMBA_EINVAL;
    simba_client *client = locker->member.party.client;
    int rc = simba__client_enter(client, NULL);
    if (rc < 0)
        return rc;
    if (locker->waiting) {
        locker->cancelled = true;
        simba__turn_signal(&client->turn, &locker->changed);
    } else if (client->closed) {
        rc = SIMBA_ECLOSED;
    }
    simba__leave(&client->turn);
    return rc;
}

void simba_locker_free(simba_locker *locker)
{
    if (!locker)
        return;
    simba__shared_part(&locker->sharer);
    simba__party_free(&locker->member.party);
}

void simba_locker_cleanup(simba_locker **locker)
{
    simba_locker_free(*locker);
}

simba_reason simba_locker_reason(simba_locker *locker)
{
    if (!locker || simba__client_forked(locker->member.party.client, NULL) < 0)
        return SIMBA_REASON_NONE;
    simba__enter(&locker->member.party.client->turn);
    const simba_reason reason = (simba_reason)(lingers(locker) ? locker->sharer.reason : locker->reason);
    simba__leave(&locker->member.party.client->turn);
    return reason;
}

int simba_locker_lease(const simba_locker *locker, simba_lease *ret_lease)
{
    return locker && ret_lease ? simba__member_lease(holder(locker), ret_lease) : SIMBA_EINVAL;
}

int64_t simba_locker_held_for_ms(const simba_locker *locker)
{
    return locker ? simba__member_held_for_ns(holder(locker)) / SIMBA__NS_PER_MS : 0;
}

uint64_t simba_locker_token(const simba_locker *locker)
{
    return locker ? simba__member_token(holder(locker)) : 0;
}

const char *simba_locker_id(const simba_locker *locker)
{
    return locker ? asker(locker)->id : NULL;
}

int simba_locker_owner(simba_locker *locker, simba_owner *ret_owner)
{
    return locker && ret_owner ? simba__member_owner(asker(locker), ret_owner) : SIMBA_EINVAL;
}

int64_t simba_locker_owner_left_ms(simba_locker *locker)
{
    return locker ? simba__member_owner_left_ms(asker(locker)) : 0;
}

int simba_locker_grant(simba_locker *locker, simba_grant *ret_grant)
{
    if (!locker || !ret_grant)
        return SIMBA_EINVAL;
    return lingers(locker) ? SIMBA_ENOTSUP : simba__member_grant(&locker->member, ret_grant);
}

int simba_locker_note_set(simba_locker *locker, const void *bytes, size_t length, simba_error *err)
{
    if (!locker)
        return simba__fail(err, SIMBA_EINVAL, "locker is NULL");
    return simba__worknote_set(holder(locker), locker->sharer.use, bytes, length, err);
}

int simba_locker_note(simba_locker *locker, simba_error *err, simba_note *ret_note)
{
    if (!locker || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", locker ? "ret_note" : "locker");
    return simba__worknote_get(&locker->member, err, ret_note);
}
