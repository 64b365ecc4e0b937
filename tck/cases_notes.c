/* Cases about the note of a mutex: only its holder writes it, everybody reads it, and it outlives its writer. And about
 * forgetting a mutex. */
#include <string.h>

#include "probe.h"

/* Give up the case unless the note of the mutex is this text; "": there is no note. */
#define REQUIRE_NOTE(t, client, mutex, text)                                                                           \
    do {                                                                                                               \
        simba_note note_ = SIMBA_NOTE_INIT;                                                                            \
        TCK_REQUIRE_RC((t), 0, simba_client_note((client)->handle, (mutex), NULL, &note_));                            \
        if (note_.length != strlen(text) || memcmp(note_.bytes, (text), note_.length) != 0) {                          \
            tck_fail((t), __FILE__, __LINE__, "the note is \"%s\", not \"%s\"", note_.bytes, (text));                  \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

static int set_note(simba_locker *locker, const char *text)
{
    return simba_locker_note_set(locker, text, strlen(text), NULL);
}

/* Two clients with a locker each. */
typedef struct pair {
    const char *mutex;
    tck_client *clients[2];
    simba_locker *lockers[2];
} pair;

static void make_pair(tck *t, pair *ret_pair, tck_client *first)
{
    *ret_pair = (pair){tck_mutex(t, NULL), {first, tck_client_new(t)}, {NULL, NULL}};
    for (int i = 0; i < 2; i++)
        ret_pair->lockers[i] = tck_locker_new(t, ret_pair->clients[i], ret_pair->mutex, tck_timing_long(t));
}

/* The holder's note is there for everybody, with its token and times. Writing it changes nothing about the lease. */
static void written(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_new(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    const uint64_t token = simba_locker_token(p.lockers[0]);
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "first"));
    simba_note note = SIMBA_NOTE_INIT;
    TCK_REQUIRE_RC(t, 0, simba_client_note(p.clients[1]->handle, p.mutex, NULL, &note));
    TCK_REQUIRE(t, note.length == 5 && strcmp(note.bytes, "first") == 0 && note.token == token);
    TCK_REQUIRE(t, note.written_at_ms > 0 && note.written_at_ms <= note.now_ms);
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "second, and longer"));
    REQUIRE_NOTE(t, p.clients[0], p.mutex, "second, and longer");
    TCK_REQUIRE(t, simba_locker_token(p.lockers[0]) == token);
    TCK_REQUIRE_RC(t, SIMBA_ETIMEDOUT, simba_locker_acquire(p.lockers[1], 0, NULL));
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], ""));
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "");
    TCK_REQUIRE_RC(t, 0, simba_locker_release(p.lockers[0], NULL));
}

/* A note has up to 1,024 bytes of every value, and not one more. */
static void any_bytes(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_new(t));
    char bytes[SIMBA_NOTE_MAX + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    simba_note note = SIMBA_NOTE_INIT;
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_note_set(p.lockers[0], bytes, SIMBA_NOTE_MAX, NULL));
    TCK_REQUIRE_RC(t, SIMBA_EINVAL, simba_locker_note_set(p.lockers[0], bytes, SIMBA_NOTE_MAX + 1, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_note(p.lockers[1], NULL, &note));
    TCK_REQUIRE(t, note.length == SIMBA_NOTE_MAX && memcmp(note.bytes, bytes, SIMBA_NOTE_MAX) == 0);
    TCK_REQUIRE_RC(t, 0, simba_locker_note_set(p.lockers[0], "\0", 1, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_note(p.lockers[1], NULL, &note));
    TCK_REQUIRE(t, note.length == 1 && note.bytes[0] == '\0');
}

/* A locker that does not hold the mutex cannot write: not before it has it, not while another one has it, not afterwards. */
static void not_the_holder(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_new(t));
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, set_note(p.lockers[0], "before"));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "mine"));
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, set_note(p.lockers[1], "not mine"));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(p.lockers[0], NULL));
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, set_note(p.lockers[0], "after"));
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "mine");
}

/* The note stays when the mutex is given back and when it changes hands, and the next holder replaces it. */
static void handed_on(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_new(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "step 7"));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(p.lockers[0], NULL));
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "step 7");
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[1], 0, NULL));
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "step 7");
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[1], "step 8"));
    simba_note note = SIMBA_NOTE_INIT;
    TCK_REQUIRE_RC(t, 0, simba_client_note(p.clients[0]->handle, p.mutex, NULL, &note));
    TCK_REQUIRE(t, strcmp(note.bytes, "step 8") == 0 && note.token == simba_locker_token(p.lockers[1]));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(p.lockers[1], NULL));
    TCK_REQUIRE_RC(t, 0, tck_client_close(p.clients[1]));
    REQUIRE_NOTE(t, p.clients[0], p.mutex, "step 8");
}

/* Its client gives an answer up soon: on a busy machine the write may need another go. */
static void leave_note(tck_probe *probe)
{
    int rc = SIMBA_ETIMEDOUT;
    for (int i = 0; i < 10 && (rc == SIMBA_ETIMEDOUT || rc == SIMBA_EUNAVAILABLE); i++)
        rc = simba_contender_note_set(probe->contender, "left", 4, NULL);
    if (rc < 0)
        tck_fail(probe->arena->kit, __FILE__, __LINE__, "a note set in on_acquired is %s", tck_code(rc));
}

/* A holder writes a note in its callback. When its lease runs out, the contender that takes over finds the note. */
static void expired(tck *t)
{
    tck_client *cut = tck_client_nervous(t);
    tck_client *other = tck_client_new(t);
    tck_arena *arena = tck_arena_new(t, NULL);
    tck_probe *first = tck_probe_new(arena, cut);
    tck_probe *second = tck_probe_new(arena, other);
    first->on_acquired = leave_note;
    tck_probe_start(first);
    TCK_AWAIT(t, first->acquired == 1 && !first->in_callback);
    tck_fault_cut(cut->fault, TCK_CUT_SILENT);
    tck_probe_start(second);
    TCK_AWAIT(t, first->released == 1 && second->acquired == 1);
    REQUIRE_NOTE(t, other, arena->mutex, "left");
}

/* A holder that has been replaced and does not know it yet: the store refuses its write, by the token. */
static void replaced(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_patient(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "old"));
    tck_fault_pushes(p.clients[0]->fault, TCK_PUSHES_DROP);
    TCK_REQUIRE_RC(t, 0, simba_client_force_release(p.clients[1]->handle, p.mutex, NULL));
    TCK_REQUIRE(t, simba_locker_held_for_ms(p.lockers[0]) > 0);
    TCK_REQUIRE_RC(t, SIMBA_ELOST, set_note(p.lockers[0], "revoked")); /* nobody else has it now */
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "old");
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[1], t->timeout_ms, NULL));
    TCK_REQUIRE_RC(t, SIMBA_ELOST, set_note(p.lockers[0], "replaced"));
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "old");
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[1], "new"));
    TCK_REQUIRE_RC(t, SIMBA_ELOST, set_note(p.lockers[0], "late"));
    /* Its grant is not the latest that was revoked any more: the store may have forgotten it altogether. */
    TCK_REQUIRE_RC(t, 0, simba_client_force_release(p.clients[0]->handle, p.mutex, NULL));
    TCK_REQUIRE_RC(t, SIMBA_ELOST, set_note(p.lockers[0], "later"));
    REQUIRE_NOTE(t, p.clients[0], p.mutex, "new");
}

/* A write whose answer is lost is reported as such, and the next one goes through. */
static void reply_lost(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_faulty(t, 0));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    tck_fault_lose_reply_nth(p.clients[0]->fault, SIMBA_OP_WRITE_NOTE, 1);
    TCK_REQUIRE_RC(t, SIMBA_ETIMEDOUT, set_note(p.lockers[0], "one"));
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "two"));
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "two");
}

/* A reader that is told of a change of the note finds the new one. */
typedef struct reader {
    tck *kit;
    const char *mutex;
    simba_client *client;
    char seen[32];
} reader;

static void read_it(reader *self)
{
    simba_note note = SIMBA_NOTE_INIT;
    const int rc = simba_client_note(self->client, self->mutex, NULL, &note);
    tck_lock(self->kit);
    if (rc < 0)
        tck_fail_locked(self->kit, __FILE__, __LINE__, "reading in on_noted is %s", tck_code(rc));
    snprintf(self->seen, sizeof self->seen, "%s", note.bytes);
    tck_notify(self->kit);
    tck_unlock(self->kit);
}

static void observer_noted(simba_observer *observer, void *user)
{
    (void)observer;
    read_it(user);
}

static void contender_noted(simba_contender *contender, void *user)
{
    (void)contender;
    read_it(user);
}

static void ignore_change(simba_observer *observer, const simba_state *state, void *user)
{
    (void)observer;
    (void)state;
    (void)user;
}

static void free_observer(void *arg)
{
    simba_observer_free(arg);
}

static void free_contender(void *arg)
{
    simba_contender_free(arg);
}

static reader *new_reader(tck *t, tck_client *client, const char *mutex)
{
    reader *self = tck_alloc(t, sizeof *self);
    *self = (reader){.kit = t, .mutex = mutex, .client = client->handle};
    return self;
}

/* A contender that is told of notes. */
static simba_contender *new_contender(tck *t, tck_client *client, reader *user)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.timing = tck_timing_option(t, tck_timing_long(t));
    options.on_noted = contender_noted;
    options.user = user;
    simba_error err = {0};
    simba_contender *contender;
    const int rc = simba_contender_new(client->handle, user->mutex, &options, &err, &contender);
    if (rc < 0)
        tck_give_up(t, "simba_contender_new is %s: %s", tck_code(rc), err.text);
    tck_defer(t, NULL, free_contender, contender);
    return contender;
}

/* A holder hears of its own note, whether or not others of its client watch the mutex. */
static void told_the_writer(tck *t)
{
    tck_client *client = tck_client_new(t);
    reader *reads = new_reader(t, client, tck_mutex(t, NULL));
    simba_contender *holder = new_contender(t, client, reads);
    TCK_REQUIRE_RC(t, 0, simba_contender_start(holder));
    TCK_AWAIT(t, simba_contender_is_owner(holder));
    TCK_REQUIRE_RC(t, 0, simba_contender_note_set(holder, "mine", 4, NULL));
    TCK_AWAIT(t, strcmp(reads->seen, "mine") == 0);
}

/* Observers and waiters are told of a note, of the next one, and that a mutex was forgotten with its note. */
static void told(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_new(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    reader *sees = new_reader(t, p.clients[1], p.mutex);
    reader *waits = new_reader(t, p.clients[1], p.mutex);
    simba_observer_options watching = SIMBA_OBSERVER_OPTIONS_INIT;
    watching.on_changed = ignore_change;
    watching.on_noted = observer_noted;
    watching.user = sees;
    simba_observer *observer;
    TCK_REQUIRE_RC(t, 0, simba_observer_new(p.clients[1]->handle, p.mutex, &watching, NULL, &observer));
    tck_defer(t, NULL, free_observer, observer);
    simba_contender *waiter = new_contender(t, p.clients[1], waits);
    TCK_REQUIRE_RC(t, 0, simba_observer_start(observer));
    TCK_REQUIRE_RC(t, 0, simba_contender_start(waiter));
    static const char *const notes[] = {"one", "two", "three"};
    for (size_t i = 0; i < TCK_COUNT_OF(notes); i++) {
        TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], notes[i]));
        TCK_AWAIT(t, strcmp(sees->seen, notes[i]) == 0 && strcmp(waits->seen, notes[i]) == 0);
    }
    TCK_REQUIRE_RC(t, 0, simba_contender_stop(waiter));
    TCK_REQUIRE_RC(t, 0, simba_locker_release(p.lockers[0], NULL));
    TCK_REQUIRE_RC(t, 0, simba_client_forget(p.clients[0]->handle, p.mutex, NULL));
    TCK_AWAIT(t, sees->seen[0] == '\0');
}

typedef struct listed_note {
    const char *mutex;
    bool found;
} listed_note;

static void look_at_row(const simba_listing *row, void *user)
{
    listed_note *self = user;
    self->found |= strcmp(row->mutex, self->mutex) == 0 && row->note_length == 4 && memcmp(row->note, "page", 4) == 0 &&
                   row->note_token != 0 && row->note_written_at_ms != 0;
}

/* A list shows notes. */
static void listed(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_new(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "page"));
    listed_note sought = {p.mutex, false};
    TCK_REQUIRE_RC(t, 0, simba_client_list(p.clients[1]->handle, p.mutex, look_at_row, &sought, NULL));
    TCK_REQUIRE(t, sought.found);
    TCK_REQUIRE_RC(t, 0, simba_locker_release(p.lockers[0], NULL));
    sought.found = false;
    TCK_REQUIRE_RC(t, 0, simba_client_list(p.clients[1]->handle, p.mutex, look_at_row, &sought, NULL));
    TCK_REQUIRE(t, sought.found);
}

/* A mutex that nobody owns can be forgotten, with its note. Later tokens are greater all the same. */
static void forgotten(tck *t)
{
    pair p;
    make_pair(t, &p, tck_client_new(t));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[0], 0, NULL));
    const uint64_t token = simba_locker_token(p.lockers[0]);
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[0], "gone soon"));
    simba_error err = {0};
    TCK_REQUIRE_RC(t, SIMBA_ESTATE, simba_client_forget(p.clients[1]->handle, p.mutex, &err));
    TCK_REQUIRE(t, strstr(err.text, simba_locker_id(p.lockers[0])));
    TCK_REQUIRE(t, simba_locker_held_for_ms(p.lockers[0]) > 0);
    REQUIRE_NOTE(t, p.clients[1], p.mutex, "gone soon");
    TCK_REQUIRE_RC(t, 0, simba_locker_release(p.lockers[0], NULL));
    TCK_REQUIRE_RC(t, 0, simba_client_forget(p.clients[1]->handle, p.mutex, NULL));
    REQUIRE_NOTE(t, p.clients[0], p.mutex, "");
    TCK_REQUIRE_RC(t, SIMBA_ENOTFOUND, simba_client_forget(p.clients[1]->handle, p.mutex, NULL));
    TCK_REQUIRE_RC(t, 0, simba_locker_acquire(p.lockers[1], 0, NULL));
    TCK_REQUIRE(t, simba_locker_token(p.lockers[1]) > token);
    REQUIRE_NOTE(t, p.clients[0], p.mutex, "");
    TCK_REQUIRE_RC(t, 0, set_note(p.lockers[1], "anew"));
    REQUIRE_NOTE(t, p.clients[0], p.mutex, "anew");
}

const tck_case tck_cases_notes[] = {
    {"note-written", SIMBA_CAP_NOTE, 0, written},
    {"note-any-bytes", SIMBA_CAP_NOTE, 0, any_bytes},
    {"note-not-the-holder", SIMBA_CAP_NOTE, 0, not_the_holder},
    {"note-handed-on", SIMBA_CAP_NOTE, 0, handed_on},
    {"note-expired", SIMBA_CAP_NOTE, SIMBA_CAP_SESSION, expired},
    {"note-replaced", SIMBA_CAP_NOTE | SIMBA_CAP_LIST, 0, replaced},
    {"note-reply-lost", SIMBA_CAP_NOTE, 0, reply_lost},
    {"note-told", SIMBA_CAP_NOTE, 0, told},
    {"note-told-the-writer", SIMBA_CAP_NOTE, 0, told_the_writer},
    {"note-listed", SIMBA_CAP_NOTE | SIMBA_CAP_LIST, 0, listed},
    {"forget", SIMBA_CAP_NOTE, 0, forgotten},
    {0},
};
