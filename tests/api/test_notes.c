/* Notes and forgetting, through the public interface: what each call answers in each state, and where it may be made. */
#include <simba/backend.h>

#include "support.h"

static simba_locker *locker_of(simba_client *client, const char *mutex)
{
    simba_locker *locker = NULL;
    assert_rc(0, simba_locker_new(client, mutex, NULL, NULL, &locker));
    return locker;
}

static void assert_note(simba_client *client, const char *mutex, const char *text)
{
    simba_note note = SIMBA_NOTE_INIT;
    assert_rc(0, simba_client_note(client, mutex, NULL, &note));
    assert_string_equal(note.bytes, text);
    assert_int_equal(note.length, strlen(text));
}

static void bad_arguments_are_refused(void **state)
{
    simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *locker = locker_of(client, "m");
    simba_note note = SIMBA_NOTE_INIT;
    simba_error err = {0};
    assert_rc(SIMBA_EINVAL, simba_client_note(NULL, "m", &err, &note));
    assert_rc(SIMBA_EINVAL, simba_client_note(client, "m", &err, NULL));
    assert_rc(SIMBA_EINVAL, simba_client_note(client, "", &err, &note));
    assert_rc(SIMBA_EINVAL, simba_client_note(client, NULL, &err, &note));
    assert_rc(SIMBA_EINVAL, simba_client_forget(NULL, "m", &err));
    assert_rc(SIMBA_EINVAL, simba_client_forget(client, "", &err));
    assert_rc(SIMBA_EINVAL, simba_contender_note_set(NULL, "x", 1, &err));
    assert_rc(SIMBA_EINVAL, simba_contender_note(NULL, &err, &note));
    assert_rc(SIMBA_EINVAL, simba_locker_note_set(NULL, "x", 1, &err));
    assert_rc(SIMBA_EINVAL, simba_locker_note(NULL, &err, &note));
    assert_rc(SIMBA_EINVAL, simba_locker_note(locker, &err, NULL));
    assert_rc(SIMBA_EINVAL, simba_run_note_set(NULL, "x", 1, &err));
    assert_rc(SIMBA_EINVAL, simba_run_note(NULL, &err, &note));
    assert_rc(0, simba_locker_acquire(locker, 0, NULL));
    assert_rc(SIMBA_EINVAL, simba_locker_note_set(locker, NULL, 1, &err));
    assert_rc(0, simba_locker_note_set(locker, NULL, 0, &err));
    char most[SIMBA_NOTE_MAX + 1] = "";
    assert_rc(SIMBA_EINVAL, simba_locker_note_set(locker, most, sizeof most, &err));
    assert_non_null(strstr(err.text, "1025 bytes, and may have 1024"));
    simba_client_close(client);
    assert_rc(SIMBA_ECLOSED, simba_locker_note_set(locker, "x", 1, &err));
    assert_rc(SIMBA_ECLOSED, simba_locker_note(locker, &err, &note));
}

enum { WRITERS = 4, WRITES = 50 };

static simba_locker *shared;

static void write_often(void *arg)
{
    for (int i = 0; i < WRITES; i++)
        EXPECT(simba_locker_note_set(shared, arg, 1, NULL) == 0);
}

/* Threads that write at the same time wait for each other, and none is told that leadership is lost. */
static void threads_write_in_turn(void **state)
{
    static char letters[WRITERS] = {'a', 'b', 'c', 'd'};
    SCOPED simba_client *client = client_open(NULL);
    struct runner runners[WRITERS];
    shared = locker_of(client, "m");
    assert_rc(0, simba_locker_acquire(shared, 0, NULL));
    for (int i = 0; i < WRITERS; i++)
        runner_start(&runners[i], write_often, &letters[i]);
    for (int i = 0; i < WRITERS; i++)
        runner_join(&runners[i]);
    simba_note note = SIMBA_NOTE_INIT;
    assert_rc(0, simba_locker_note(shared, NULL, &note));
    assert_int_equal(note.length, 1);
    simba_locker_free(shared);
}

static unsigned noted;

static void count_note(simba_contender *contender, void *user)
{
    simba_note note = SIMBA_NOTE_INIT;
    EXPECT(simba_contender_note(contender, NULL, &note) == 0);
    board_lock();
    noted++;
    board_unlock();
}

static void write_in_callback(simba_contender *contender, const simba_state *changed, void *user)
{
    EXPECT(simba_contender_note_set(contender, user, strlen(user), NULL) == 0);
}

/* All of it on the thread of a loop, which nothing else drives: in the loop, in on_acquired and in on_noted. */
static void a_loop_writes_and_reads(void **state)
{
    simba_client *client = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.dispatch = SIMBA_DISPATCH_FD;
    assert_rc(0, simba_client_open("memory://looped", &options, NULL, &client));
    simba_contender_options own = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    own.on_acquired = write_in_callback;
    own.on_noted = count_note;
    own.user = "from inside";
    noted = 0;
    assert_rc(0, simba_contender_new(client, "m", &own, NULL, &contender));
    assert_rc(0, simba_contender_start(contender));
    while (!simba_contender_is_owner(contender) || noted == 0)
        assert_true(simba_client_dispatch(client) >= 0);
    assert_note(client, "m", "from inside");
    assert_rc(0, simba_contender_note_set(contender, "again", 5, NULL));
    assert_note(client, "m", "again");
    simba_contender_free(contender);
    simba_client_close(client);
}

static void count_acquired(simba_contender *contender, const simba_state *changed, void *user)
{
    board_lock();
    noted++;
    board_unlock();
}

static void write_at_the_end(simba_contender *contender, const simba_state *changed, simba_reason reason, void *user)
{
    EXPECT(simba_contender_note_set(contender, user, strlen(user), NULL) == 0);
}

/* Whoever is told that it has to end may leave a note, also if the whole client closes. */
static void the_last_word_is_kept(void **state)
{
    static const simba_dispatch forms[] = {SIMBA_DISPATCH_POOL, SIMBA_DISPATCH_FD};
    SCOPED simba_client *other = client_open(NULL);
    noted = 0;
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        simba_client *client = client_open_form(forms[i]);
        simba_contender_options own = SIMBA_CONTENDER_OPTIONS_INIT;
        simba_contender *contender = NULL;
        own.on_acquired = count_acquired;
        own.on_released = write_at_the_end;
        own.user = i == 0 ? "first" : "second";
        assert_rc(0, simba_contender_new(client, "m", &own, NULL, &contender));
        assert_rc(0, simba_contender_start(contender));
        /* Without on_acquired there is no on_released. */
        while (forms[i] == SIMBA_DISPATCH_FD && noted == i)
            assert_true(simba_client_dispatch(client) >= 0);
        AWAIT(noted == i + 1);
        assert_rc(0, simba_client_close(client));
        simba_contender_free(contender);
        assert_note(other, "m", own.user);
    }
}

static void work(simba_run *run, void *user)
{
    simba_note note = SIMBA_NOTE_INIT;
    EXPECT(simba_run_note_set(run, "ran", 3, NULL) == 0);
    EXPECT(simba_run_note(run, NULL, &note) == 0 && strcmp(note.bytes, "ran") == 0);
    board_lock();
    noted = 1;
    board_unlock();
}

static void a_run_writes_and_reads(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_scheduler *scheduler = NULL;
    options.period_ms = 1000;
    options.work = work;
    noted = 0;
    assert_rc(0, simba_scheduler_new(client, "m", &options, NULL, &scheduler));
    assert_rc(0, simba_scheduler_start(scheduler));
    AWAIT(noted == 1);
    simba_scheduler_free(scheduler);
}

/* A store without notes says so, and is as good as ever for all else. */
static void a_store_may_keep_no_notes(void **state)
{
    static const char *const schemes[] = {"noteless", NULL};
    simba_backend table = *simba_backend_find("memory");
    simba_client *client = NULL;
    simba_error err = {0};
    simba_note note = SIMBA_NOTE_INIT;
    table.schemes = schemes;
    table.caps &= ~(unsigned)SIMBA_CAP_NOTE;
    assert_rc(0, simba_backend_register(&table));
    assert_rc(0, simba_client_open("noteless://x", NULL, NULL, &client));
    simba_contender_options own = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    own.on_noted = count_note; /* would fail */
    assert_rc(0, simba_contender_new(client, "m", &own, NULL, &contender));
    assert_rc(0, simba_contender_start(contender));
    AWAIT(simba_contender_is_owner(contender));
    assert_rc(SIMBA_ENOTSUP, simba_contender_note_set(contender, "x", 1, &err));
    assert_non_null(strstr(err.text, "noteless:// keeps no notes"));
    assert_rc(SIMBA_ENOTSUP, simba_client_note(client, "m", &err, &note));
    assert_rc(SIMBA_ENOTSUP, simba_client_forget(client, "m", &err));
    simba_contender_free(contender);
    simba_client_close(client);
}

/* A table of the contract before notes has other structs, and is refused. */
static void an_older_contract_is_refused(void **state)
{
    static const char *const schemes[] = {"ancient", NULL};
    simba_backend table = *simba_backend_find("memory");
    table.schemes = schemes;
    table.version = SIMBA_BACKEND_VERSION - 1;
    assert_rc(SIMBA_EINVAL, simba_backend_register(&table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_arguments_are_refused),    TEST(threads_write_in_turn),  TEST(the_last_word_is_kept),
        TEST(a_loop_writes_and_reads),      TEST(a_run_writes_and_reads), TEST(a_store_may_keep_no_notes),
        TEST(an_older_contract_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
