/* How many requests a store has at a time, who goes first, and what becomes of those whose time is over. The store here keeps what
 * it is handed until the test answers. */
#include "client/window.h"

#include <string.h>

#include "client/timers.h"
#include "lib/cm.h"
#include "util/error.h"

enum { ROOM = 2, TIMEOUT = 1000, SILENCE = 5000, MAX = 16 };

static struct {
    simba_host host; /* first */
    simba__timers timers;
    simba__window window;
    simba_local now;
    simba_request *has[MAX]; /* what the store has, in the order in which it was handed over */
    unsigned count;
    unsigned expired;
    bool drops_expired;  /* the store has not sent what expires, so nothing of it is left */
    char done[MAX + 1];  /* the first letters of the mutexes whose requests are over; in upper case if they failed */
    int code;            /* of the latest failure */
    simba_request again; /* asked as soon as a request is over; its mutex is NULL: nothing */
} w;

static void lose(const simba_request *request)
{
    unsigned i = 0;
    while (w.has[i] != request)
        i++;
    memmove(&w.has[i], &w.has[i + 1], (--w.count - i) * sizeof *w.has);
}

static void store_submit(void *store, simba_request *request)
{
    w.has[w.count++] = request;
}

static void store_expire(void *store, simba_request *request)
{
    w.expired++;
    if (!w.drops_expired)
        return;
    lose(request);
    (w.host.fail)(&w.host, request, SIMBA_ETIMEDOUT, "not sent");
}

static const char *const schemes[] = {"test", NULL};
static simba_backend backend = {.schemes = schemes, .window = ROOM, .submit = store_submit, .expire = store_expire};

static void host_complete(simba_host *host, simba_request *request)
{
    simba__window_complete(&w.window, request, NULL, w.now);
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    simba_error error = {0};
    simba__error_set(&error, code, "%s", format);
    request->reply.status = code;
    simba__window_complete(&w.window, request, &error, w.now);
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    return simba__timers_reserve(&w.timers, 1);
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local at)
{
    simba__timers_set(&w.timers, timer, at);
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    simba__timers_clear(&w.timers, timer);
}

static void ask(simba_op op, const char *mutex);

static void over(simba__request *request, const simba_error *error)
{
    const char letter = request->shown.mutex[0];
    w.done[strlen(w.done)] = error ? (char)(letter - 'a' + 'A') : letter;
    w.code = error ? error->code : w.code;
    const simba_request again = w.again;
    w.again.mutex = NULL;
    if (again.mutex)
        ask(again.op, again.mutex);
}

static simba__request *make(simba_op op, const char *mutex)
{
    simba__request *request = simba__request_new(&(simba_request){.op = op, .mutex = mutex, .id = "me"}, TIMEOUT);
    assert_non_null(request);
    request->done = over;
    request->of = &w;
    simba__window_add(&w.window, request);
    return request;
}

static void ask(simba_op op, const char *mutex)
{
    (void)make(op, mutex);
}

static void hand_over(void)
{
    simba__window_hand_over(&w.window, w.now);
}

static void answer(unsigned i)
{
    simba_request *request = w.has[i];
    lose(request);
    w.host.complete(&w.host, request);
    hand_over();
}

/* Time passes, and the timers that are due then fire. */
static void pass(int64_t ns)
{
    w.now.ns += ns;
    int fired = 0;
    for (simba_timer *timer = simba__timers_pop(&w.timers, w.now); timer; timer = simba__timers_pop(&w.timers, w.now)) {
        timer->fire(timer, w.now);
        assert_true(++fired < 100); /* otherwise it would go on for ever */
    }
    hand_over();
}

/* The first letters of what the store has. */
static const char *has(void)
{
    static char text[MAX + 1];
    for (unsigned i = 0; i < w.count; i++)
        text[i] = w.has[i]->mutex[0];
    text[w.count] = '\0';
    return text;
}

static int set_up(void **state)
{
    memset(&w, 0, sizeof w);
    w.now.ns = 1000000;
    w.host = (simba_host){.complete = host_complete,
                          .fail = host_fail,
                          .timer_add = host_timer_add,
                          .timer_set = host_timer_set,
                          .timer_clear = host_timer_clear};
    return simba__window_init(&w.window, &w.host, &backend, NULL, SILENCE);
}

static int tear_down(void **state)
{
    while (w.count > 0) {
        simba_request *request = w.has[0];
        lose(request);
        (w.host.fail)(&w.host, request, SIMBA_ECANCELED, "closed");
    }
    simba__window_close(&w.window);
    simba__timers_fini(&w.timers);
    return 0;
}

/* The store has so many at a time and no more; the next one follows each answer. */
static void no_more_than_there_is_room_for(void **state)
{
    const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        ask(SIMBA_OP_ACQUIRE, names[i]);
    hand_over();
    assert_string_equal(has(), "ab");
    assert_false(simba__window_hand_over(&w.window, w.now));
    answer(1);
    assert_string_equal(has(), "ac");
    answer(0);
    assert_string_equal(has(), "cd");
    assert_string_equal(w.done, "ba");
}

/* However many acquires wait, a renewal and a release go at once, renewals first; and no renewal waits behind releases and notes. */
static void holders_never_wait_behind_others(void **state)
{
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        ask(SIMBA_OP_ACQUIRE, names[i]);
    hand_over();
    ask(SIMBA_OP_RELEASE, "r");
    ask(SIMBA_OP_WRITE_NOTE, "n");
    ask(SIMBA_OP_WRITE_NOTE, "m");
    ask(SIMBA_OP_RENEW, "h");
    hand_over();
    assert_string_equal(has(), "abhrn");
    answer(3);
    assert_string_equal(has(), "abhnm");
    ask(SIMBA_OP_RENEW, "i");
    hand_over();
    assert_string_equal(has(), "abhnmi");
}

/* A deadline counts from handing over: who waits in the queue does not fail while the store answers others. */
static void the_queue_is_waited_for_while_the_store_answers(void **state)
{
    const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"};
    for (int i = 0; i < 14; i++)
        ask(SIMBA_OP_ACQUIRE, names[i]);
    hand_over();
    while (w.count > 0) {
        pass(TIMEOUT - 1);
        answer(0);
        if (w.count > 0)
            answer(0);
    }
    assert_string_equal(w.done, "abcdefghijklmn"); /* the last ones have waited for longer than a silence lasts */
}

/* A renewal that had to wait, because other renewals had all places, fails while there is time for another one before its lease ends. */
static void a_renewal_that_has_waited_leaves_time_for_another(void **state)
{
    ask(SIMBA_OP_RENEW, "a");
    ask(SIMBA_OP_RENEW, "b");
    hand_over();
    simba__request *renewal = make(SIMBA_OP_RENEW, "r");
    renewal->latest.ns = w.now.ns + TIMEOUT + 5;
    hand_over();
    pass(TIMEOUT - 1);
    answer(0);
    assert_string_equal(has(), "br");
    pass(5);
    assert_string_equal(w.done, "aB");
    pass(1);
    assert_string_equal(w.done, "aBR");
    answer(0);
    answer(0);

    /* It is handed over so late that only one fits in: that one has all the time. */
    ask(SIMBA_OP_RENEW, "c");
    ask(SIMBA_OP_RENEW, "d");
    hand_over();
    renewal = make(SIMBA_OP_RENEW, "s");
    renewal->latest.ns = w.now.ns + 5;
    pass(5);
    answer(0);
    assert_string_equal(has(), "ds");
    pass(TIMEOUT - 1);
    assert_string_equal(w.done, "aBRcD");
    pass(1);
    assert_string_equal(w.done, "aBRcDS");
    answer(0);
    answer(0);
}

/* Whose time is over fails at once, and keeps its place until the store has completed it. */
static void an_expired_request_keeps_its_place(void **state)
{
    ask(SIMBA_OP_ACQUIRE, "a");
    hand_over();
    pass(1);
    ask(SIMBA_OP_ACQUIRE, "b");
    ask(SIMBA_OP_ACQUIRE, "c");
    hand_over();
    pass(TIMEOUT - 1);
    assert_string_equal(w.done, "A");
    assert_int_equal(w.code, SIMBA_ETIMEDOUT);
    assert_int_equal(w.expired, 1);
    assert_string_equal(has(), "ab");
    answer(0);
    assert_string_equal(w.done, "A"); /* nobody hears the late answer */
    assert_string_equal(has(), "bc");
}

/* What was not sent is gone as soon as it expires. */
static void an_expired_request_that_was_not_sent_makes_room(void **state)
{
    w.drops_expired = true;
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        ask(SIMBA_OP_ACQUIRE, names[i]);
    hand_over();
    pass(TIMEOUT);
    assert_string_equal(w.done, "AB");
    assert_string_equal(has(), "c");
}

/* If the store says nothing at all, nobody waits in the queue any longer. */
static void a_silent_store_fails_the_queue(void **state)
{
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        ask(SIMBA_OP_ACQUIRE, names[i]);
    hand_over();
    pass(SILENCE - 1);
    assert_string_equal(w.done, "AB");
    pass(1);
    assert_string_equal(w.done, "ABC");
    assert_int_equal(w.code, SIMBA_EUNAVAILABLE);
    ask(SIMBA_OP_ACQUIRE, "d");
    answer(0); /* it speaks again */
    assert_string_equal(has(), "bd");
}

/* The silence is that of somebody who was asked: a client that asked nothing for a long time has heard nothing. */
static void idle_is_not_silent(void **state)
{
    ask(SIMBA_OP_ACQUIRE, "a");
    hand_over();
    answer(0);
    pass(10 * SILENCE);
    const char *const names[] = {"b", "c", "d"};
    for (int i = 0; i < 3; i++)
        ask(SIMBA_OP_ACQUIRE, names[i]);
    hand_over();
    pass(1);
    assert_string_equal(w.done, "a");
    assert_string_equal(has(), "bc");
}

/* Where leases are sessions, a release stays: nothing else would end the grant as long as the session lives. */
static void a_release_of_a_session_outlasts_the_silence(void **state)
{
    backend.caps = SIMBA_CAP_SESSION;
    assert_int_equal(simba__window_init(&w.window, &w.host, &backend, NULL, SILENCE), 0);
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        ask(SIMBA_OP_RELEASE, names[i]);
    hand_over();
    pass(SILENCE);
    assert_string_equal(w.done, "AB");
    assert_true(simba__timers_earliest(&w.timers).ns > w.now.ns); /* and nobody looks all the time */
    backend.caps = 0;
    answer(0);
    assert_string_equal(has(), "bc");
}

/* Who is not waited for any more leaves the queue; what the store has stays there. */
static void only_what_is_queued_is_withdrawn(void **state)
{
    simba__request *first = make(SIMBA_OP_ACQUIRE, "a");
    ask(SIMBA_OP_ACQUIRE, "b");
    simba__request *last = make(SIMBA_OP_ACQUIRE, "c");
    hand_over();
    simba__window_withdraw(&w.window, first);
    simba__window_withdraw(&w.window, last);
    assert_string_equal(w.done, "C");
    assert_int_equal(w.code, SIMBA_ECANCELED);
    assert_string_equal(has(), "ab");
}

/* Who asks again because of a failure while the store is silent is told so at once. */
static void asking_again_while_the_store_is_silent(void **state)
{
    const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        ask(SIMBA_OP_ACQUIRE, names[i]);
    hand_over();
    pass(TIMEOUT);
    w.again = (simba_request){.op = SIMBA_OP_ACQUIRE, .mutex = "e"};
    pass(SILENCE);
    assert_string_equal(w.done, "ABCDE");
    ask(SIMBA_OP_ACQUIRE, "f");
    answer(0);
    answer(0);
    assert_string_equal(has(), "f");
}

/* The names and the note are the request's own. */
static void a_request_has_its_own_copies(void **state)
{
    char mutex[] = "mutex", id[] = "id", note[] = {'n', '\0', 't'};
    simba__request *request = simba__request_new(
        &(simba_request){.op = SIMBA_OP_WRITE_NOTE, .mutex = mutex, .id = id, .note = note, .note_size = sizeof note},
        TIMEOUT);
    memset(mutex, 'x', sizeof mutex - 1);
    memset(id, 'x', sizeof id - 1);
    memset(note, 'x', sizeof note);
    assert_string_equal(request->shown.mutex, "mutex");
    assert_string_equal(request->shown.id, "id");
    assert_memory_equal(request->shown.note, "n\0t", 3);
    request->done = over;
    request->of = &w;
    simba__window_add(&w.window, request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_more_than_there_is_room_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(holders_never_wait_behind_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_queue_is_waited_for_while_the_store_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_renewal_that_has_waited_leaves_time_for_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expired_request_keeps_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expired_request_that_was_not_sent_makes_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_store_fails_the_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_is_not_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_release_of_a_session_outlasts_the_silence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_what_is_queued_is_withdrawn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(asking_again_while_the_store_is_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_request_has_its_own_copies, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
