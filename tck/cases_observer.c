/* Cases about watching without contending: the observer ends on the true owner, whatever is lost on the way. It sees
 * every change if the store promises that. */
#include "probe.h"

#include <string.h>

/* An observer that keeps a record, under the lock of the kit. */
typedef struct watcher watcher;
struct watcher {
    tck *kit;
    simba_observer *handle;
    bool stop_in_callback;
    bool stopped; /* stop has returned: no callback may follow */
    bool in_callback;
    unsigned calls;
    simba_owner owner;   /* as told last */
    uint64_t tokens[64]; /* of all owners that it was told, without nobody */
    unsigned token_count;
};

static bool same_owner(const simba_owner *a, const simba_owner *b)
{
    return strcmp(a->id, b->id) == 0 && a->token == b->token;
}

static void on_changed(simba_observer *observer, const simba_state *state, void *user)
{
    watcher *self = user;
    tck_lock(self->kit);
    if (self->in_callback)
        tck_fail_locked(self->kit, __FILE__, __LINE__, "two callbacks of one observer at once");
    if (self->stopped)
        tck_fail_locked(self->kit, __FILE__, __LINE__, "callback after stop has returned");
    if (self->calls > 0 && !same_owner(&state->before, &self->owner))
        tck_fail_locked(self->kit, __FILE__, __LINE__, "the owner before is not the one told before");
    self->in_callback = true;
    self->calls++;
    self->owner = state->after;
    if (!simba_owner_is_none(&state->after) && self->token_count < TCK_COUNT_OF(self->tokens))
        self->tokens[self->token_count++] = state->after.token;
    tck_notify(self->kit);
    const bool stop = self->stop_in_callback;
    tck_unlock(self->kit);
    const int rc = stop ? simba_observer_stop(observer) : 0;
    tck_lock(self->kit);
    if (rc != 0)
        tck_fail_locked(self->kit, __FILE__, __LINE__, "stop inside on_changed is %s", tck_code(rc));
    self->in_callback = false;
    tck_unlock(self->kit);
}

static void destroy(void *arg)
{
    watcher *self = arg;
    simba_observer_free(self->handle);
}

/* An observer that has started. */
static watcher *watch(tck_arena *arena, tck_client *client)
{
    tck *t = arena->kit;
    watcher *self = tck_alloc(t, sizeof *self);
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    options.on_changed = on_changed;
    options.user = self;
    options.poll_ms = t->ttl_ms / 16;
    self->kit = t;
    simba_error err = {0};
    int rc = simba_observer_new(client->handle, arena->mutex, &options, &err, &self->handle);
    if (rc == 0) {
        tck_defer(t, NULL, destroy, self);
        rc = simba_observer_start(self->handle);
    }
    if (rc < 0)
        tck_give_up(t, "cannot observe: %s %s", tck_code(rc), err.text);
    return self;
}

/* The first callback tells the owner at the start, or that there is none; later callbacks tell changes. */
static void follows(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, clients[0]);
    watcher *early = watch(arena, clients[1]);
    TCK_AWAIT(t, early->calls == 1);
    TCK_REQUIRE_NOW(t, simba_owner_is_none(&early->owner));

    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    const uint64_t token = tck_probe_last(leader, TCK_ACQUIRED).token;
    TCK_AWAIT(t, early->owner.token == token);
    TCK_REQUIRE_NOW(t, simba_owner_is(&early->owner, simba_contender_id(leader->contender)));
    watcher *late = watch(arena, clients[1]);
    TCK_AWAIT(t, late->calls == 1);
    TCK_REQUIRE_NOW(t, late->owner.token == token);
    simba_owner owner;
    TCK_REQUIRE_RC(t, 0, simba_observer_owner(late->handle, &owner));
    TCK_REQUIRE(t, owner.token == token);

    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, simba_owner_is_none(&early->owner) && simba_owner_is_none(&late->owner));
}

/* Let two probes have the mutex in turn, and leave it to the second. */
static void pass_around(tck *t, tck_probe *probes[2], unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        const unsigned turn = i / 2 + 1;
        tck_probe_start(probes[i % 2]);
        TCK_AWAIT(t, probes[i % 2]->acquired == turn);
        if (i + 1 < turns)
            TCK_REQUIRE_RC(t, 0, tck_probe_stop(probes[i % 2]));
    }
}

/* After a quick series of owners the observer ends on the last one, even if pushes were lost. */
static void ends_on_owner(tck *t, tck_pushes pushes)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_faulty(t, 0)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *probes[2] = {tck_probe_new(arena, clients[0]), tck_probe_new(arena, clients[0])};
    watcher *self = watch(arena, clients[1]);
    TCK_AWAIT(t, self->calls == 1);
    tck_fault_pushes(clients[1]->fault, pushes);
    pass_around(t, probes, 10);
    const uint64_t token = tck_probe_last(probes[1], TCK_ACQUIRED).token;
    TCK_AWAIT(t, self->owner.token == token);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(probes[1]));
    TCK_AWAIT(t, simba_owner_is_none(&self->owner));
}

static void ends_on_true_owner(tck *t)
{
    ends_on_owner(t, TCK_PUSHES_PASS);
}

static void ends_on_true_owner_without_pushes(tck *t)
{
    ends_on_owner(t, TCK_PUSHES_DROP);
}

/* If the store promises it, the observer misses none of the owners. */
static void sees_every_change(tck *t)
{
    enum { TURNS = 20 };
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *probes[2] = {tck_probe_new(arena, clients[0]), tck_probe_new(arena, clients[0])};
    watcher *self = watch(arena, clients[1]);
    TCK_AWAIT(t, self->calls == 1);
    pass_around(t, probes, TURNS);
    const uint64_t token = tck_probe_last(probes[1], TCK_ACQUIRED).token;
    TCK_AWAIT(t, self->owner.token == token);
    TCK_REQUIRE_NOW(t, self->token_count == TURNS);
    for (unsigned i = 0; i < TURNS; i++)
        TCK_REQUIRE(t, self->tokens[i] == tck_probe_event(probes[i % 2], TCK_ACQUIRED, i / 2 + 1).token);
}

/* The observer sees that an owner that died is gone when its lease is over, although nobody takes over. */
static void sees_expiry(tck *t)
{
    tck_client *clients[2] = {tck_client_nervous(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, clients[0]);
    watcher *self = watch(arena, clients[1]);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1);
    TCK_AWAIT(t, self->owner.token != 0);
    tck_fault_cut(clients[0]->fault, TCK_CUT_REFUSE);
    TCK_AWAIT(t, self->calls >= 2 && simba_owner_is_none(&self->owner));
}

/* After stop, also inside a callback, there is no further callback; started again, the observer tells the owner
 * anew. */
static void stops(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *leader = tck_probe_new(arena, clients[0]);
    watcher *self = watch(arena, clients[1]);
    watcher *witness = watch(arena, clients[1]);
    TCK_AWAIT(t, self->calls == 1 && witness->calls == 1);
    TCK_REQUIRE_RC(t, 0, simba_observer_stop(self->handle));
    tck_lock(t);
    self->stopped = true;
    tck_unlock(t);
    tck_probe_start(leader);
    TCK_AWAIT(t, leader->acquired == 1 && witness->owner.token != 0);
    TCK_REQUIRE_NOW(t, self->calls == 1);

    tck_lock(t);
    self->stopped = false;
    self->calls = 0;
    self->stop_in_callback = true;
    tck_unlock(t);
    TCK_REQUIRE_RC(t, 0, simba_observer_start(self->handle));
    TCK_AWAIT(t, self->calls == 1 && !self->in_callback && self->owner.token != 0);
    TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    TCK_AWAIT(t, simba_owner_is_none(&witness->owner));
    TCK_REQUIRE_NOW(t, self->calls == 1);
}

const tck_case tck_cases_observer[] = {
    {"observer-follows", 0, 0, follows},
    {"observer-ends-on-owner", 0, 0, ends_on_true_owner},
    {"observer-pushes-dropped", SIMBA_CAP_PUSH, 0, ends_on_true_owner_without_pushes},
    {"observer-every-change", SIMBA_CAP_PUSH_EVERY, 0, sees_every_change},
    {"observer-sees-expiry", 0, SIMBA_CAP_SESSION, sees_expiry},
    {"observer-stops", 0, 0, stops},
    {0},
};
