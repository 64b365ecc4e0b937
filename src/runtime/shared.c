/* See shared.h. */
#include "runtime/shared.h"

#include <string.h>

#include "util/assert.h"
#include "util/error.h"
#include "util/mem.h"

struct simba__shared {
    simba__member member; /* first */
    simba__linger linger;
    simba__shared *next; /* of the topic */
    simba_timer timer;   /* of the linger; may fire in vain */
    unsigned refs;       /* lockers */
    uint32_t uses;       /* how often a locker got the grant or released it */
    bool named;          /* the program gave its id */
    simba_error acquire_error;
    simba_error other_error;
};

static simba__shared *of_party(simba__party *party)
{
    return (simba__shared *)(void *)party;
}

static simba__sharer *of_item(simba__list_item *item)
{
    return (simba__sharer *)(void *)SIMBA__OF_ITEM(item, simba__lingerer, item);
}

static simba__turn *turn_of(const simba__shared *shared)
{
    return &shared->member.party.client->turn;
}

simba__member *simba__shared_member(const simba__sharer *sharer)
{
    return &sharer->shared->member;
}

bool simba__shared_waits(const simba__sharer *sharer)
{
    return sharer->lingerer.item.list != NULL;
}

const simba_error *simba__shared_error(const simba__sharer *sharer)
{
    return &sharer->shared->acquire_error;
}

bool simba__shared_is_leaving(const simba__sharer *sharer)
{
    return sharer->shared->linger.phase == SIMBA__LEAVING;
}

/* --- what the machine decides ----------------------------------------------------------------------- */

static void advance(simba__shared *shared, simba__linger_kind kind, simba__sharer *who);

static void signal_sharer(const simba__shared *shared, const simba__sharer *sharer)
{
    simba__turn_signal(turn_of(shared), sharer->changed);
}

/* A write of the note belongs to one use, see member.h. */
static void begin_use(simba__shared *shared)
{
    atomic_store_explicit(&shared->member.use, ++shared->uses, memory_order_relaxed);
}

static void start(simba__shared *shared)
{
    bool once = true;
    for (simba__list_item *item = shared->linger.line.first; item; item = item->next)
        once &= of_item(item)->once;
    shared->acquire_error.code = 0;
    shared->member.machine.try_once = once;
    simba__member_start(&shared->member, SIMBA__NEVER);
}

/* No locker knows it and nothing is left to end: it goes at the end of the turn. */
static void let_go(simba__shared *shared)
{
    simba_client *client = shared->member.party.client;
    simba__shared **link = &shared->member.party.topic->shared;
    while (*link != shared)
        link = &(*link)->next;
    *link = shared->next;
    simba__timers_clear(&client->turn.timers, &shared->timer);
    simba__strand_unref(&shared->member.party.strand);
}

/* After every step of the member: it may have stopped. */
static void look_whether_stopped(simba__shared *shared)
{
    if (shared->member.party.running)
        return;
    if (shared->linger.phase != SIMBA__AWAY && shared->linger.phase != SIMBA__YIELDS)
        advance(shared, SIMBA__LINGER_STOPPED, NULL);
    if (shared->refs == 0 && shared->linger.phase == SIMBA__AWAY && shared->member.party.strand.refs > 0)
        let_go(shared);
}

/* Setting the timer for every release would cost more than letting it fire in vain now and then. */
static void arm(simba__shared *shared, simba_local at)
{
    if (at.ns != INT64_MAX && (shared->timer.index == 0 || at.ns < shared->timer.at.ns))
        simba__timers_set(&turn_of(shared)->timers, &shared->timer, at);
}

static void act(simba__shared *shared, const simba__linger_actions *actions)
{
    simba__sharer *loses = (simba__sharer *)(void *)actions->loses;
    simba__sharer *gets = (simba__sharer *)(void *)actions->gets;
    if (loses) {
        begin_use(shared);
        atomic_store_explicit(&loses->has, false, memory_order_release);
        loses->reason = shared->member.machine.reason ? shared->member.machine.reason : SIMBA_REASON_STOPPED;
        signal_sharer(shared, loses);
    }
    if (gets) {
        begin_use(shared);
        gets->use = shared->uses;
        gets->reason = SIMBA_REASON_NONE;
        atomic_store_explicit(&gets->has, true, memory_order_release);
        signal_sharer(shared, gets);
    }
    arm(shared, actions->timer);
    if (actions->give_back && shared->member.party.running) {
        simba__event event = {.kind = SIMBA__EV_STOP, .now = turn_of(shared)->now};
        simba__member_step(&shared->member.party, &event);
        look_whether_stopped(shared);
    }
    if (actions->seek)
        start(shared);
}

/* May a write of the note still arrive at the store? */
static bool is_unsettled(const simba__shared *shared)
{
    return shared->member.writes_note || shared->member.note_unsure;
}

static void advance(simba__shared *shared, simba__linger_kind kind, simba__sharer *who)
{
    const simba__linger_event event = {
        .kind = kind,
        .now = turn_of(shared)->now,
        .who = who ? &who->lingerer : NULL,
        .unsettled = kind == SIMBA__LINGER_LEAVE && is_unsettled(shared),
    };
    simba__linger_actions actions;
    simba__linger_step(&shared->linger, &event, &actions);
    act(shared, &actions);
}

/* --- the member --------------------------------------------------------------------------------------- */

static void told(simba__member *member, const simba__actions *actions)
{
    simba__shared *shared = of_party(&member->party);
    if (actions->submit)
        simba__party_explain(&member->party,
                             actions->op == SIMBA_OP_ACQUIRE ? &shared->acquire_error : &shared->other_error);
    if (member->machine.op == SIMBA_OP_ACQUIRE && !member->machine.in_flight && member->machine.last_error == 0)
        shared->acquire_error.code = 0;
    if (actions->acquired) {
        member->note_unsure = false;
        advance(shared, SIMBA__LINGER_GRANTED, NULL);
    }
    if (actions->released)
        advance(shared, SIMBA__LINGER_LOST, NULL);
}

/* The store has answered an acquire. Who wanted one answer has it; a permanent error is for all in line. */
static void answered(simba__shared *shared, uint32_t generation)
{
    const simba_error *error = &shared->acquire_error;
    const bool hopeless = error->code != 0 && !simba__is_transient(error->code);
    for (simba__list_item *item = shared->linger.line.first, *next; item; item = next) {
        simba__sharer *sharer = of_item(item);
        next = item->next;
        const bool is_answer = sharer->once && (int32_t)(generation - sharer->asked) >= 0;
        if (!hopeless && !is_answer)
            continue;
        sharer->error = *error;
        advance(shared, SIMBA__LINGER_LEAVE, sharer);
        signal_sharer(shared, sharer);
    }
}

static void on_event(simba__party *party, simba__event *event)
{
    simba__shared *shared = of_party(party);
    simba__contention *machine = &shared->member.machine;
    if (event->kind == SIMBA__EV_STOP) { /* the client closes */
        for (simba__list_item *item = shared->linger.line.first; item; item = item->next)
            signal_sharer(shared, of_item(item));
        advance(shared, SIMBA__LINGER_END, NULL);
        return;
    }
    const uint32_t generation = machine->generation;
    const bool is_acquire = event->kind == SIMBA__EV_REPLY && machine->in_flight && machine->op == SIMBA_OP_ACQUIRE &&
                            event->generation == generation;
    simba__member_step(party, event);
    if (event->kind == SIMBA__EV_PUSH && event->push->kind == SIMBA_PUSH_WANTED)
        advance(shared, SIMBA__LINGER_OTHERS, NULL);
    if (is_acquire)
        answered(shared, generation);
    look_whether_stopped(shared);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__shared *shared = (simba__shared *)(void *)((char *)timer - offsetof(simba__shared, timer));
    (void)now;
    advance(shared, SIMBA__LINGER_TIMER, NULL);
}

static int run_one(simba__party *party)
{
    (void)party;
    return -1;
}

static void destroy(simba__party *party)
{
    simba__shared *shared = of_party(party);
    simba__member_fini(&shared->member);
    simba__free(shared);
}

static const simba__member_type type = {
    .party =
        {.event = on_event, .run_one = run_one, .destroy = destroy, .is_member = true, .hidden = true, .timers = 1},
    .told = told,
    .acks_at_once = true,
};

/* --- joining and parting ------------------------------------------------------------------------------- */

static bool same_timing(const simba__member *one, const simba__member *other)
{
    simba_timing a = one->machine.timing->ms;
    simba_timing b = other->machine.timing->ms;
    a.linger_ms = b.linger_ms = 0; /* each locker has its own */
    return memcmp(&a, &b, sizeof a) == 0;
}

/* In a turn. */
static simba__shared *find(const simba__member *like, const char *id)
{
    simba__shared *shared = like->party.topic->shared;
    while (shared && !(shared->named == (id != NULL) && (!id || strcmp(shared->member.id, id) == 0) &&
                       same_timing(&shared->member, like)))
        shared = shared->next;
    return shared;
}

static void join(simba__sharer *sharer, simba__shared *shared, const simba__member *like, simba__condition *changed)
{
    shared->refs++;
    sharer->shared = shared;
    sharer->changed = changed;
    sharer->lingerer.linger_ns = like->machine.timing->linger_ns;
}

static int make(const simba__member *like, const char *id, simba_error *err, simba__shared **ret_shared)
{
    simba_client *client = like->party.client;
    simba_timing timing = like->machine.timing->ms;
    simba__shared *shared = simba__calloc(1, sizeof *shared);
    if (!shared)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    if (client->timing.session)
        timing.ttl_ms = timing.transition_ms = SIMBA_INHERIT;
    const int rc = simba__member_init(&shared->member, &type, client, like->party.topic->mutex, id, &timing, err);
    if (rc < 0) {
        simba__free(shared);
        return rc;
    }
    shared->named = id != NULL;
    shared->member.machine.once = true;
    shared->member.machine.listens = client->backend->caps & SIMBA_CAP_WANTED;
    shared->timer.fire = on_timer;
    simba__linger_init(&shared->linger, shared->member.machine.listens, client->backend->caps & SIMBA_CAP_ORDER);
    *ret_shared = shared;
    return 0;
}

int simba__shared_join(simba__sharer *sharer, const simba__member *like, const char *id, simba__condition *changed,
                       simba_error *err)
{
    simba_client *client = like->party.client;
    simba__enter(&client->turn);
    simba__shared *found = find(like, id);
    if (found)
        join(sharer, found, like, changed);
    simba__leave(&client->turn);
    if (found)
        return 0;
    simba__shared *made = NULL;
    const int rc = make(like, id, err, &made);
    if (rc < 0)
        return rc;
    simba__enter(&client->turn);
    found = find(like, id); /* another thread may have been faster */
    made->next = like->party.topic->shared;
    like->party.topic->shared = made;
    join(sharer, found ? found : made, like, changed);
    if (found)
        let_go(made);
    simba__leave(&client->turn);
    return 0;
}

void simba__shared_part(simba__sharer *sharer)
{
    simba__shared *shared = sharer->shared;
    if (!shared || simba__client_enter(shared->member.party.client, NULL) < 0)
        return; /* the lock belongs to the parent, and may be held for ever here */
    simba_client *client = shared->member.party.client;
    if (sharer->has)
        simba__shared_look(sharer);
    simba__shared_leave(sharer);
    shared->refs--;
    look_whether_stopped(shared);
    sharer->shared = NULL;
    simba__leave(&client->turn);
}

/* --- for the locker --------------------------------------------------------------------------------------- */

static bool is_valid(const simba__shared *shared)
{
    return simba__member_held_for_ns(&shared->member) > 0;
}

static void look(simba__shared *shared)
{
    simba__member_look(&shared->member);
    look_whether_stopped(shared);
}

void simba__shared_look(simba__sharer *sharer)
{
    if (sharer->has && !is_valid(sharer->shared))
        look(sharer->shared);
}

void simba__shared_want(simba__sharer *sharer, bool once)
{
    simba__shared *shared = sharer->shared;
    simba__contention *machine = &shared->member.machine;
    if (shared->linger.phase == SIMBA__KEPT && !is_valid(shared))
        look(shared); /* the lease has ended, and its timer is late */
    sharer->once = once;
    sharer->asked = machine->generation + 1;
    sharer->reason = SIMBA_REASON_NONE;
    sharer->error.code = 0;
    if (once && (shared->linger.phase == SIMBA__USED || shared->linger.phase == SIMBA__YIELDS))
        return; /* another one has it, or is to come first */
    const bool sought = shared->linger.phase == SIMBA__SOUGHT;
    advance(shared, SIMBA__LINGER_WANT, sharer);
    if (once && sought) { /* the others wait for their turn: this one needs an answer of its own */
        const simba_push ask = {.kind = SIMBA_PUSH_CHANGED};
        simba__event event = {.kind = SIMBA__EV_PUSH, .now = turn_of(shared)->now, .push = &ask};
        on_event(&shared->member.party, &event);
    }
}

void simba__shared_leave(simba__sharer *sharer)
{
    simba__shared *shared = sharer->shared;
    if (!sharer->has && !simba__shared_waits(sharer))
        return;
    if (sharer->has) {
        begin_use(shared);
        atomic_store_explicit(&sharer->has, false, memory_order_release);
        sharer->reason = SIMBA_REASON_STOPPED;
    }
    advance(shared, SIMBA__LINGER_LEAVE, sharer);
}
