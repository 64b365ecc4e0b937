/* What the library does with nonsense: the right code, a sentence that names the culprit, an untouched `ret_`, and no
 * crash. Every test goes through a table of bad values, so that a new setting needs one line here. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

static int untouched_object;
#define UNTOUCHED ((void *)&untouched_object)

static simba_client *client;

static int open_for_all(void **state)
{
    test_setup(state);
    client = client_open(NULL);
    return 0;
}

static int close_for_all(void **state)
{
    const int rc = simba_client_close(client);
    return test_teardown(state) == 0 && rc == 0 ? 0 : -1;
}

/* --- refusals ----------------------------------------------------------------------------------- */

static bool is_utf8(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int more = *s < 0x80 ? 0 : *s >= 0xF0 ? 3 : *s >= 0xE0 ? 2 : *s >= 0xC2 ? 1 : -1;
        if (more < 0)
            return false;
        for (s++; more > 0; more--, s++)
            if ((*s & 0xC0) != 0x80)
                return false;
    }
    return true;
}

static void assert_refused(int rc, int code, const simba_error *err, const char *culprit, const char *what, int line)
{
    if (rc != code)
        fail_msg("line %d: %s is %s, not %s (%s)", line, what, simba_error_name(rc), simba_error_name(code), err->text);
    if (err->code != code)
        fail_msg("line %d: %s leaves the code %s, not %s", line, what, simba_error_name(err->code),
                 simba_error_name(code));
    if (!strstr(err->text, culprit))
        fail_msg("line %d: %s does not name \"%s\" but says: %s", line, what, culprit, err->text);
    if (!memchr(err->text, '\0', sizeof err->text) || !is_utf8(err->text))
        fail_msg("line %d: %s leaves a text that is not a string in UTF-8", line, what);
}

/* Make the call, which mentions `err`, with and without words. */
#define REFUSED(expected, culprit, call)                                                                               \
    do {                                                                                                               \
        simba_error words_ = {0};                                                                                      \
        simba_error *err = &words_;                                                                                    \
        const int rc_ = (call);                                                                                        \
        assert_refused(rc_, (expected), &words_, (culprit), #call, __LINE__);                                          \
        err = NULL;                                                                                                    \
        assert_rc((expected), (call));                                                                                 \
    } while (0)

static void refuse_open(const char *url, const simba_client_options *options, int code, const char *culprit)
{
    simba_client *ret = UNTOUCHED;
    REFUSED(code, culprit, simba_client_open(url, options, err, &ret));
    assert_ptr_equal(ret, UNTOUCHED);
}

static void refuse_contender(const char *mutex, const simba_contender_options *options, int code, const char *culprit)
{
    simba_contender *ret = UNTOUCHED;
    REFUSED(code, culprit, simba_contender_new(client, mutex, options, err, &ret));
    assert_ptr_equal(ret, UNTOUCHED);
}

static void refuse_locker(const char *mutex, const simba_locker_options *options, int code, const char *culprit)
{
    simba_locker *ret = UNTOUCHED;
    REFUSED(code, culprit, simba_locker_new(client, mutex, options, err, &ret));
    assert_ptr_equal(ret, UNTOUCHED);
}

static void refuse_scheduler(const char *mutex, const simba_scheduler_options *options, int code, const char *culprit)
{
    simba_scheduler *ret = UNTOUCHED;
    REFUSED(code, culprit, simba_scheduler_new(client, mutex, options, err, &ret));
    assert_ptr_equal(ret, UNTOUCHED);
}

static void refuse_observer(const char *mutex, const simba_observer_options *options, int code, const char *culprit)
{
    simba_observer *ret = UNTOUCHED;
    REFUSED(code, culprit, simba_observer_new(client, mutex, options, err, &ret));
    assert_ptr_equal(ret, UNTOUCHED);
}

static void no_work(simba_run *run, void *user)
{
}

static void no_news(simba_observer *observer, const simba_state *state, void *user)
{
}

static void no_executor(void *user, void (*run)(void *arg), void *arg)
{
}

static simba_scheduler_options scheduler_options(void)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    options.work = no_work;
    options.period_ms = 1000;
    return options;
}

static simba_observer_options observer_options(void)
{
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    options.on_changed = no_news;
    return options;
}

/* --- names -------------------------------------------------------------------------------------- */

static char *repeated(const char *text, unsigned times)
{
    static char out[2048];
    out[0] = '\0';
    for (unsigned i = 0; i < times; i++)
        strcat(out, text);
    return out;
}

/* The longest id, and ones with single separators, are fine; strings that were passed in are copied. */
static void good_ids(void **state)
{
    char ids[3][SIMBA_ID_MAX + 1] = {"1:2@10.0.0.1", "@", ""};
    strcpy(ids[2], repeated("x", SIMBA_ID_MAX));
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        char id[SIMBA_ID_MAX + 1];
        char mutex[] = "copied";
        strcpy(id, ids[i]);
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        options.id = id;
        simba_contender *contender;
        assert_rc(0, simba_contender_new(client, mutex, &options, NULL, &contender));
        memset(id, '#', sizeof id - 1);
        memset(mutex, '#', sizeof mutex - 1);
        assert_string_equal(simba_contender_id(contender), ids[i]);
        assert_string_equal(simba_contender_mutex(contender), "copied");
        simba_contender_free(contender);
    }
}

/* --- timing ------------------------------------------------------------------------------------- */

static const struct bad_timing {
    size_t offset;
    int64_t ms;
    const char *culprit;
} bad_timings[] = {
#define BAD(field, ms, culprit)                                                                                        \
    {                                                                                                                  \
        offsetof(simba_timing, field), ms, culprit                                                                     \
    }
    BAD(ttl_ms, 0, "ttl"),
    BAD(ttl_ms, -1, "ttl"),
    BAD(ttl_ms, SIMBA_TTL_MIN_MS - 1, "ttl"),
    BAD(ttl_ms, INT64_MIN + 1, "ttl"),
    BAD(ttl_ms, INT64_MAX, "ttl"),
    BAD(ttl_ms, SIMBA_LEASE_MAX_MS + 1, "ttl"),
    BAD(ttl_ms, SIMBA_LEASE_MAX_MS, "ttl + transition"),
    BAD(transition_ms, -1, "transition"),
    BAD(transition_ms, INT64_MIN + 1, "transition"),
    BAD(transition_ms, INT64_MAX, "transition"),
    BAD(transition_ms, SIMBA_LEASE_MAX_MS, "ttl + transition"),
    BAD(initial_delay_ms, -1, "initial delay"),
    BAD(initial_delay_ms, INT64_MAX, "initial delay"),
    BAD(hold_limit_ms, -1, "hold limit"),
    BAD(hold_limit_ms, INT64_MAX, "hold limit"),
    BAD(stop_margin_ms, -1, "stop margin"),
    BAD(stop_margin_ms, 10000, "stop margin"),
    BAD(stop_margin_ms, INT64_MAX, "stop margin"),
    BAD(stop_margin_ms, INT64_MIN + 1, "stop margin"),
    BAD(jitter_min_ms, INT64_MAX, "jitter"),
    BAD(jitter_min_ms, INT64_MIN + 1, "jitter"),
    BAD(jitter_min_ms, 1001, "jitter"),
    BAD(jitter_max_ms, -1, "jitter"),
    BAD(jitter_max_ms, -201, "jitter"),
    BAD(jitter_max_ms, INT64_MAX, "jitter"),
#undef BAD
};

static simba_timing timing_of(const struct bad_timing *bad)
{
    simba_timing timing = SIMBA_TIMING_INHERIT;
    *(int64_t *)(void *)((char *)&timing + bad->offset) = bad->ms;
    return timing;
}

/* Every duration has a range, at every level at which it can be set. */
static void bad_timing(void **state)
{
    for (size_t i = 0; i < COUNT_OF(bad_timings); i++) {
        const struct bad_timing *bad = &bad_timings[i];
        simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
        simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
        simba_locker_options locker = SIMBA_LOCKER_OPTIONS_INIT;
        simba_scheduler_options scheduler = scheduler_options();
        options.timing = contender.timing = locker.timing = scheduler.timing = timing_of(bad);
        refuse_open(store_url(), &options, SIMBA_EINVAL, bad->culprit);
        refuse_contender("m", &contender, SIMBA_EINVAL, bad->culprit);
        refuse_locker("m", &locker, SIMBA_EINVAL, bad->culprit);
        refuse_scheduler("m", &scheduler, SIMBA_EINVAL, bad->culprit);
    }
}

/* What a contender inherits counts too: a margin that fits the client's lease may not fit the contender's. */
static void margin_that_does_not_fit(void **state)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.timing.stop_margin_ms = 2000;
    SCOPED simba_client *careful = client_open(&options);
    simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
    contender.timing = lease(1000, 500);
    simba_contender *ret = UNTOUCHED;
    REFUSED(SIMBA_EINVAL, "stop margin", simba_contender_new(careful, "m", &contender, err, &ret));
    assert_ptr_equal(ret, UNTOUCHED);
}

/* --- clients ------------------------------------------------------------------------------------ */

/* A setting of the URL that is out of range is an error of the URL. */
static void url_settings_out_of_range(void **state)
{
    static const char *const urls[] = {"memory://x?ttl=1ms", "memory://x?ttl=0s", "memory://x?ttl=200000h"};
    for (size_t i = 0; i < COUNT_OF(urls); i++)
        refuse_open(urls[i], NULL, SIMBA_EURL, "ttl");
    refuse_open("memory://x?stop-margin=10s", NULL, SIMBA_EURL, "stop margin");
}

/* The URL and the program may not contradict each other; to say the same is no contradiction. */
static void contradictions(void **state)
{
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.timing.ttl_ms = 6000;
    refuse_open("memory://x?ttl=5s", &options, SIMBA_EURL, "ttl");
    options.timing.hold_limit_ms = 1;
    refuse_open("memory://x?ttl=6s&hold-limit=2ms", &options, SIMBA_EURL, "hold-limit");
    simba_client *agreed;
    assert_rc(0, simba_client_open("memory://x?ttl=6s&hold-limit=1ms", &options, NULL, &agreed));
    client_close(agreed);
}

/* A scheme that nobody has heard of is named, also where its beginning is that of a store. */
static void unknown_schemes(void **state)
{
    static const char *const unheard_of[] = {"nosuch", "redisx", "redis+", "mysqlx", "maria", "sqlite3", "zookeeperx"};
    for (size_t i = 0; i < COUNT_OF(unheard_of); i++) {
        char url[64];
        snprintf(url, sizeof url, "%s://host/x", unheard_of[i]);
        refuse_open(url, NULL, SIMBA_EURL, unheard_of[i]);
    }
}

/* Options of a client are checked, enumerations among them. */
static void bad_client_options(void **state)
{
#define WITH(change, culprit)                                                                                          \
    do {                                                                                                               \
        simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;                                                      \
        change;                                                                                                        \
        refuse_open(store_url(), &options, SIMBA_EINVAL, culprit);                                                     \
    } while (0)
    WITH(options.dispatch = (simba_dispatch)3, "dispatch");
    WITH(options.dispatch = (simba_dispatch)-1, "dispatch");
    WITH(options.dispatch = SIMBA_DISPATCH_EXECUTOR, "executor");
    WITH(options.executor = no_executor, "executor");
    WITH(options.max_callback_threads = 0, "max_callback_threads");
    WITH(options.drift_ppm = 500001, "drift");
    WITH(options.drift_ppm = UINT32_MAX, "drift");
    WITH(options.op_timeout_ms = 0, "operation timeout");
    WITH(options.op_timeout_ms = -1, "operation timeout");
    WITH(options.op_timeout_ms = INT64_MAX, "operation timeout");
    WITH(options.op_timeout_ms = INT64_MIN, "operation timeout");
    WITH(options.log_level = (simba_log_level)5, "log_level");
    WITH(options.log_level = (simba_log_level)-1, "log_level");
#undef WITH
    REFUSED(SIMBA_EINVAL, "ret_client", simba_client_open(store_url(), NULL, err, NULL));
}

/* --- the others --------------------------------------------------------------------------------- */

/* A scheduler needs work and a period, and both in range. */
static void bad_scheduler_options(void **state)
{
#define WITH(change, culprit)                                                                                          \
    do {                                                                                                               \
        simba_scheduler_options options = scheduler_options();                                                         \
        change;                                                                                                        \
        refuse_scheduler("m", &options, SIMBA_EINVAL, culprit);                                                        \
    } while (0)
    refuse_scheduler("m", NULL, SIMBA_EINVAL, "work");
    WITH(options.work = NULL, "work");
    WITH(options.period_ms = 0, "period_ms");
    WITH(options.period_ms = -1, "period_ms");
    WITH(options.period_ms = INT64_MIN, "period_ms");
    WITH(options.period_ms = INT64_MAX, "period_ms");
    WITH(options.initial_delay_ms = -1, "initial_delay_ms");
    WITH(options.initial_delay_ms = INT64_MAX, "initial_delay_ms");
    WITH(options.initial_delay_ms = INT64_MIN, "initial_delay_ms");
    WITH(options.schedule = (simba_schedule)4, "schedule");
    WITH(options.schedule = (simba_schedule)-1, "schedule");
#undef WITH
}

/* An observer needs somebody to tell, and a positive poll interval. */
static void bad_observer_options(void **state)
{
#define WITH(change, culprit)                                                                                          \
    do {                                                                                                               \
        simba_observer_options options = observer_options();                                                           \
        change;                                                                                                        \
        refuse_observer("m", &options, SIMBA_EINVAL, culprit);                                                         \
    } while (0)
    refuse_observer("m", NULL, SIMBA_EINVAL, "on_changed");
    WITH(options.on_changed = NULL, "on_changed");
    WITH(options.poll_ms = 0, "poll_ms");
    WITH(options.poll_ms = -1, "poll_ms");
    WITH(options.poll_ms = INT64_MIN, "poll_ms");
    WITH(options.poll_ms = INT64_MAX, "poll_ms");
#undef WITH
}

/* The longest poll interval and period are usable, although ten times ten years is beyond any clock. */
static void extreme_intervals(void **state)
{
    simba_observer_options observing = observer_options();
    observing.poll_ms = SIMBA_LEASE_MAX_MS;
    simba_observer *observer;
    assert_rc(0, simba_observer_new(client, "m", &observing, NULL, &observer));
    assert_rc(0, simba_observer_start(observer));
    simba_observer_free(observer);

    simba_scheduler_options scheduling = scheduler_options();
    scheduling.period_ms = SIMBA_LEASE_MAX_MS;
    scheduling.initial_delay_ms = SIMBA_LEASE_MAX_MS;
    simba_scheduler *scheduler;
    assert_rc(0, simba_scheduler_new(client, "m", &scheduling, NULL, &scheduler));
    assert_rc(0, simba_scheduler_start(scheduler));
    simba_scheduler_free(scheduler);
}

/* Only -1 means for ever; the longest timeout does not overflow. */
static void bad_timeouts(void **state)
{
    SIMBA_LOCKER_SCOPED simba_locker *locker = NULL;
    assert_rc(0, simba_locker_new(client, "m", NULL, NULL, &locker));
    REFUSED(SIMBA_EINVAL, "timeout_ms", simba_locker_acquire(locker, -2, err));
    REFUSED(SIMBA_EINVAL, "timeout_ms", simba_locker_acquire(locker, INT64_MIN, err));
    assert_rc(0, simba_locker_acquire(locker, INT64_MAX, NULL));
    REFUSED(SIMBA_EINVAL, "timeout_ms", simba_locker_acquire(locker, -2, err));
    assert_rc(0, simba_locker_release(locker, NULL));
}

/* A NULL where a handle belongs is an error, never a crash. */
static void null_handles(void **state)
{
    simba_contender *contender = UNTOUCHED;
    simba_locker *locker = UNTOUCHED;
    simba_scheduler *scheduler = UNTOUCHED;
    simba_observer *observer = UNTOUCHED;
    simba_stats stats = SIMBA_STATS_INIT;
    simba_owner owner;
    simba_grant grant = {.token = 1};
    simba_settings settings = SIMBA_SETTINGS_INIT;
    const simba_scheduler_options scheduling = scheduler_options();
    const simba_observer_options observing = observer_options();

    REFUSED(SIMBA_EINVAL, "client", simba_contender_new(NULL, "m", NULL, err, &contender));
    REFUSED(SIMBA_EINVAL, "client", simba_locker_new(NULL, "m", NULL, err, &locker));
    REFUSED(SIMBA_EINVAL, "client", simba_scheduler_new(NULL, "m", &scheduling, err, &scheduler));
    REFUSED(SIMBA_EINVAL, "client", simba_observer_new(NULL, "m", &observing, err, &observer));
    assert_ptr_equal(contender, UNTOUCHED);
    assert_ptr_equal(locker, UNTOUCHED);
    assert_ptr_equal(scheduler, UNTOUCHED);
    assert_ptr_equal(observer, UNTOUCHED);
    REFUSED(SIMBA_EINVAL, "client", simba_client_list(NULL, NULL, NULL, NULL, err));
    REFUSED(SIMBA_EINVAL, "client", simba_client_force_release(NULL, "m", err));
    REFUSED(SIMBA_EINVAL, "client", simba_client_give_back(NULL, "m", &grant, err));
    assert_rc(SIMBA_EINVAL, simba_contender_grant(NULL, &grant));
    assert_rc(SIMBA_EINVAL, simba_locker_grant(NULL, &grant));
    assert_rc(SIMBA_EINVAL, simba_locker_owner(NULL, &owner));
    assert_int_equal(0, simba_contender_owner_left_ms(NULL));
    assert_int_equal(0, simba_locker_owner_left_ms(NULL));
    simba_lease lease_ = SIMBA_LEASE_INIT;
    assert_rc(SIMBA_EINVAL, simba_contender_lease(NULL, &lease_));
    assert_rc(SIMBA_EINVAL, simba_locker_lease(NULL, &lease_));
    assert_int_equal(SIMBA_REASON_NONE, simba_locker_reason(NULL));
    assert_rc(SIMBA_EINVAL, simba_client_settings(NULL, &settings));
    assert_rc(SIMBA_EINVAL, simba_client_fd(NULL));
    assert_rc(SIMBA_EINVAL, simba_client_dispatch(NULL));
    assert_rc(SIMBA_EINVAL, simba_client_stats(NULL, &stats));
    assert_null(simba_client_url(NULL));

    assert_rc(SIMBA_EINVAL, simba_contender_start(NULL));
    assert_rc(SIMBA_EINVAL, simba_contender_stop(NULL));
    assert_rc(SIMBA_EINVAL, simba_contender_owner(NULL, &owner));
    assert_null(simba_contender_mutex(NULL));
    assert_null(simba_contender_id(NULL));
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_contender_status(NULL));
    assert_int_equal(0, simba_contender_held_for_ms(NULL));
    assert_int_equal(0, simba_contender_token(NULL));
    assert_false(simba_contender_is_owner(NULL));
    assert_false(simba_contender_in_ttl(NULL));

    REFUSED(SIMBA_EINVAL, "locker", simba_locker_acquire(NULL, 0, err));
    REFUSED(SIMBA_EINVAL, "locker", simba_locker_release(NULL, err));
    REFUSED(SIMBA_EINVAL, "locker", simba_locker_once_end(NULL, 0, err));
    assert_rc(SIMBA_EINVAL, simba_locker_cancel(NULL));
    assert_int_equal(0, simba_locker_held_for_ms(NULL));
    assert_int_equal(0, simba_locker_token(NULL));
    assert_null(simba_locker_id(NULL));

    assert_rc(SIMBA_EINVAL, simba_scheduler_start(NULL));
    assert_rc(SIMBA_EINVAL, simba_scheduler_stop(NULL));
    assert_int_equal(SIMBA_STATUS_INITIAL, simba_scheduler_status(NULL));
    assert_false(simba_scheduler_is_leader(NULL));

    assert_rc(SIMBA_EINVAL, simba_observer_start(NULL));
    assert_rc(SIMBA_EINVAL, simba_observer_stop(NULL));
    assert_rc(SIMBA_EINVAL, simba_observer_owner(NULL, &owner));
    assert_null(simba_observer_mutex(NULL));
}

/* A NULL where the answer should go is an error too. */
static void null_answers(void **state)
{
    const simba_scheduler_options scheduling = scheduler_options();
    const simba_observer_options observing = observer_options();
    REFUSED(SIMBA_EINVAL, "ret_contender", simba_contender_new(client, "m", NULL, err, NULL));
    REFUSED(SIMBA_EINVAL, "ret_locker", simba_locker_new(client, "m", NULL, err, NULL));
    REFUSED(SIMBA_EINVAL, "ret_scheduler", simba_scheduler_new(client, "m", &scheduling, err, NULL));
    REFUSED(SIMBA_EINVAL, "ret_observer", simba_observer_new(client, "m", &observing, err, NULL));
    REFUSED(SIMBA_EINVAL, "row", simba_client_list(client, NULL, NULL, NULL, err));
    assert_rc(SIMBA_EINVAL, simba_client_stats(client, NULL));
    assert_rc(SIMBA_EINVAL, simba_duration_parse("1s", NULL));

    simba_contender *contender;
    assert_rc(0, simba_contender_new(client, "m", NULL, NULL, &contender));
    assert_rc(SIMBA_EINVAL, simba_contender_owner(contender, NULL));
    simba_contender_free(contender);
    simba_observer *observer;
    assert_rc(0, simba_observer_new(client, "m", &observing, NULL, &observer));
    assert_rc(SIMBA_EINVAL, simba_observer_owner(observer, NULL));
    simba_observer_free(observer);
}

/* An allocator is three functions or none. */
static void half_an_allocator(void **state)
{
    assert_rc(SIMBA_EINVAL, simba_set_allocator(malloc, NULL, NULL));
    assert_rc(SIMBA_EINVAL, simba_set_allocator(malloc, realloc, NULL));
    assert_rc(SIMBA_EINVAL, simba_set_allocator(NULL, NULL, free));
}

#define BAD_INPUT(function) cmocka_unit_test_setup_teardown(function, open_for_all, close_for_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BAD_INPUT(good_ids),
        BAD_INPUT(bad_timing),
        BAD_INPUT(margin_that_does_not_fit),
        BAD_INPUT(url_settings_out_of_range),
        BAD_INPUT(contradictions),
        BAD_INPUT(unknown_schemes),
        BAD_INPUT(bad_client_options),
        BAD_INPUT(bad_scheduler_options),
        BAD_INPUT(bad_observer_options),
        BAD_INPUT(extreme_intervals),
        BAD_INPUT(bad_timeouts),
        BAD_INPUT(null_handles),
        BAD_INPUT(null_answers),
        BAD_INPUT(half_an_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
