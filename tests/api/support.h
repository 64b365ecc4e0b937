/* What the tests of the public interface share.
 *
 * The board is one lock for all that callbacks write and tests read; whoever changes something notifies the waiting
 * thread. Waits are for an event on the board and have a deadline. Nothing here aborts a thread: what goes wrong in a callback
 * is noted, and fails the test when it ends. A watchdog ends the program if a call of the library does not return. */
#ifndef TESTS_API_SUPPORT_H
#define TESTS_API_SUPPORT_H

#include <pthread.h>
#include <setjmp.h>
#include <simba.h>
#include <simba/backend.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TIMEOUT_MS 10000
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A test with its own store, the watchdog, and a look at what callbacks noted. */
#define TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, test_teardown)
int test_setup(void **state);
int test_teardown(void **state);

/* --- the board ---------------------------------------------------------------------------------- */

void board_lock(void);
void board_unlock(void); /* notifies */
/* With the lock: wait for a notification, a moment at most, as the library's own state does not notify. False: too late. */
bool board_wait(int64_t deadline_ms);
int64_t now_ms(void);

/* Wait until the condition, which is evaluated under the lock, holds. The value says whether it came to. */
#define WITHIN(ms, condition)                                                                                          \
    ({                                                                                                                 \
        const int64_t deadline_ = now_ms() + (ms);                                                                     \
        bool met_;                                                                                                     \
        board_lock();                                                                                                  \
        while (!(met_ = (condition)) && board_wait(deadline_)) {                                                       \
        }                                                                                                              \
        board_unlock();                                                                                                \
        met_;                                                                                                          \
    })

/* In the test's own thread: fail it if the condition does not come to hold. */
#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        if (!WITHIN(TIMEOUT_MS, condition))                                                                            \
            fail_msg("waited in vain for: %s", #condition);                                                            \
    } while (0)

/* In any thread: note a failure, and go on. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            note_failure(__FILE__, __LINE__, #condition);                                                              \
    } while (0)
void note_failure(const char *file, int line, const char *text);

#define assert_rc(expected, call) assert_string_equal(simba_error_name(call), simba_error_name(expected))

/* Callbacks that dawdle wait at a latch. Passing one that never opens is noted as a failure. */
struct latch {
    bool open;
    unsigned waiting;
};
void latch_await(struct latch *latch);
void latch_open(struct latch *latch);

struct runner {
    pthread_t thread;
    void (*run)(void *arg);
    void *arg;
    bool done;
};
void runner_start(struct runner *runner, void (*function)(void *arg), void *arg);
/* Fails the test if it does not end in time. */
void runner_join(struct runner *runner);

/* --- clients ------------------------------------------------------------------------------------ */

/* memory://…, another one in every test. */
const char *store_url(void);
/* Of that store; the options may be NULL. */
simba_client *client_open(const simba_client_options *options);
simba_client *client_open_form(simba_dispatch form);
void client_close(simba_client *client);
/* SCOPED simba_client *client = client_open(NULL): closed at the end of its scope. */
void client_cleanup(simba_client **client);
#define SCOPED __attribute__((cleanup(client_cleanup)))
simba_stats client_stats(simba_client *client);
/* Does somebody own it? Asked through the client. */
bool is_owned(simba_client *client, const char *mutex);

/* All inherited but for these two. */
simba_timing lease(int64_t ttl_ms, int64_t transition_ms);

/* An executor whose jobs wait in a queue until somebody takes them. */
struct executor {
    struct job *first, **last;
    unsigned given, taken;
    bool over;
    struct latch *blocks; /* the next call of the executor itself waits here */
    struct runner workers[3];
};
simba_client *client_open_executor(struct executor *executor);
/* Take a job and run it on this thread. False: there is none. */
bool executor_run(struct executor *executor);
/* Have three threads take jobs. End: when there are none left. */
void executor_start(struct executor *executor);
void executor_end(struct executor *executor);

/* A store of the test's own: register its table with all that is left out, which is the least that a store may do. It answers at
 * once. The host of the latest that was opened. */
int stub_register(simba_backend table);
extern simba_host *stub_host;

/* How many entries a directory has, such as /proc/self/fd. */
unsigned entries_of(const char *directory);

/* --- players ------------------------------------------------------------------------------------ */

/* A contender that keeps a record, and checks that its callbacks are serial and alternate. It lives as long as the
 * program, so that a test may give up at any line. */
struct player {
    simba_contender *contender; /* the test's to free */

    /* To be set before the start: run inside the callbacks, without the lock. */
    void (*in_acquired)(struct player *player);
    void (*in_released)(struct player *player);
    void (*in_changed)(struct player *player);
    void *user;
    struct player *other;
    struct latch latch;

    /* On the board. */
    unsigned acquired, released, changed;
    bool leads, in_callback;
    pthread_t thread;    /* of the latest callback */
    simba_reason reason; /* of the latest on_released */
    simba_state acquired_state;
    uint64_t token;      /* as the contender said in on_acquired */
    int64_t held_for_ms; /* the same */
    int64_t acquired_at; /* now_ms() */
    int64_t released_at;

    struct player *next;
};

struct player *player_new(simba_client *client, const char *mutex, const char *id, const simba_timing *timing);
/* Made and started; it may have been told already. */
struct player *player_start(simba_client *client, const char *mutex);
/* Frees the contender. */
void player_free(struct player *player);

#endif
