/* When the store watches a mutex for the handles that name it, and who of them hears what it pushes. */

#include <string.h>

#include "client/handles.h"
#include "lib/cm.h"

static struct {
    simba__watches watches;
    char calls[64]; /* of the store: w watch, o watch with observers, u unwatch */
    bool refuses;
    char heard[16]; /* the names of the handles that heard a push */
    char uses;      /* the name of the handle that can use an invitation; '\0': none */
} w;

struct contender {
    simba__candidate candidate; /* first */
    char name;
};

static int store_watch(void *store, simba_watch *watch)
{
    if (w.refuses)
        return SIMBA_ENOMEM;
    w.calls[strlen(w.calls)] = watch->observed ? 'o' : 'w';
    return 0;
}

static void store_unwatch(void *store, simba_watch *watch)
{
    w.calls[strlen(w.calls)] = 'u';
}

static const simba_backend backend = {.watch = store_watch, .unwatch = store_unwatch};

static void settle(void)
{
    simba__watches_settle(&w.watches, &backend, NULL);
}

/* One handle more or less wants to hear of it, and of every change if it `observes`. */
static void want(simba__watch *watch, int by, bool observes)
{
    simba__handle handle = {.watch = watch, .wants = by < 0, .observes = observes};
    simba__watches_want(&w.watches, &handle, by > 0);
}

static void step(simba__handle *handle, simba__event *event)
{
    const char name = ((struct contender *)(void *)handle)->name;
    w.heard[strlen(w.heard)] = name;
    event->used = name == w.uses;
}

static const simba__handle_type contends = {.step = step, .contends = true};
static const simba__handle_type observes = {.step = step};

static int set_up(void **state)
{
    memset(&w, 0, sizeof w);
    return 0;
}

static int tear_down(void **state)
{
    simba__watches_fini(&w.watches);
    return 0;
}

/* One watch serves all who want one, and ends with the last of them. */
static void one_watch_for_all(void **state)
{
    simba__watch *watch = simba__watches_get(&w.watches, "m");
    assert_ptr_equal(simba__watches_get(&w.watches, "m"), watch);
    settle();
    assert_string_equal(w.calls, ""); /* named, and wanted by nobody */
    want(watch, 1, false);
    want(watch, 1, false);
    settle();
    want(watch, -1, false);
    settle();
    assert_string_equal(w.calls, "w");
    want(watch, -1, false);
    settle();
    assert_string_equal(w.calls, "wu");
    simba__watches_put(&w.watches, watch);
    simba__watches_put(&w.watches, watch);
    settle();
    assert_null(simba__watches_find(&w.watches, "m"));
}

/* What the store sees stays as it is while it watches: an observer who comes or goes makes a new watch. */
static void observers_change_the_watch(void **state)
{
    simba__watch *watch = simba__watches_get(&w.watches, "m");
    (void)simba__watches_get(&w.watches, "m");
    want(watch, 1, false);
    settle();
    want(watch, 1, true);
    settle();
    want(watch, -1, true);
    settle();
    assert_string_equal(w.calls, "wuouw");
}

/* Wanted and not wanted again before the store heard of it: it hears nothing. */
static void only_the_outcome_counts(void **state)
{
    simba__watch *watch = simba__watches_get(&w.watches, "m");
    want(watch, 1, false);
    want(watch, -1, false);
    settle();
    assert_string_equal(w.calls, "");
}

/* Where watching costs nothing, a watch stays while somebody names the mutex. */
static void a_free_watch_stays(void **state)
{
    w.watches.keeps = true;
    simba__watch *watch = simba__watches_get(&w.watches, "m");
    want(watch, 1, false);
    settle();
    want(watch, -1, false);
    settle();
    assert_string_equal(w.calls, "w");
    simba__watches_put(&w.watches, watch);
    settle();
    assert_string_equal(w.calls, "wu");
}

/* A watch for which there was no memory is tried again. */
static void a_refused_watch_is_tried_again(void **state)
{
    w.refuses = true;
    simba__watch *watch = simba__watches_get(&w.watches, "m");
    simba__handle handle = {.watch = watch};
    simba__watches_want(&w.watches, &handle, true);
    settle();
    assert_false(watch->watched);
    w.refuses = false;
    simba__watches_want(&w.watches, &handle, true);
    settle();
    assert_string_equal(w.calls, "w");
    simba__watches_want(&w.watches, &handle, true);
    settle();
    assert_string_equal(w.calls, "w");
    assert_int_equal(watch->interested, 1);
}

/* A client that closes watches nothing any more. */
static void the_end(void **state)
{
    simba__watch *watch = simba__watches_get(&w.watches, "m");
    want(watch, 1, false);
    settle();
    simba__watches_end(&w.watches);
    settle();
    assert_string_equal(w.calls, "wu");
}

/* a holds, b and c wait, o observes. */
static void push(simba_push_kind kind, const char *expected)
{
    struct contender contenders[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'o'}};
    simba__watch *watch = simba__watches_get(&w.watches, "m");
    for (int i = 0; i < 4; i++) {
        simba__candidate *candidate = &contenders[i].candidate;
        candidate->handle.type = i < 3 ? &contends : &observes;
        candidate->machine.phase = i == 0 ? SIMBA__HOLD : SIMBA__SEEK;
        simba__list_append(&watch->handles, &candidate->handle.of_watch);
    }
    memset(w.heard, 0, sizeof w.heard);
    simba__watches_push(watch, &(simba_push){.kind = kind}, (simba_local){1});
    assert_string_equal(w.heard, expected);
    watch->handles = (simba__list){0};
    simba__watches_put(&w.watches, watch);
    settle();
}

/* Of those who wait, an invitation goes to as many as it takes until one can use it; all others hear of it. */
static void an_invitation_is_for_one(void **state)
{
    w.uses = 'b';
    push(SIMBA_PUSH_RELEASED, "abo");
    push(SIMBA_PUSH_CHANGED, "abo");
    w.uses = 'c';
    push(SIMBA_PUSH_RELEASED, "abco");
    w.uses = '\0';
    push(SIMBA_PUSH_RELEASED, "abco");
}

/* News is for everybody; that only the note has changed is none of theirs. */
static void news_is_for_all(void **state)
{
    w.uses = 'b';
    push(SIMBA_PUSH_ACQUIRED, "abco");
    push(SIMBA_PUSH_NOTED, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_watch_for_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(observers_change_the_watch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_outcome_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_free_watch_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_watch_is_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_invitation_is_for_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(news_is_for_all, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("watches", tests, NULL, NULL);
}
