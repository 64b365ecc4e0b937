/* The referee of a contest for one mutex, for tests that break things while it goes on. It hears what every contender
 * is told, and checks at once the promises that hold whatever breaks: never two inside, no second valid lease, tokens
 * that grow, callbacks that alternate, do not overlap and end with stop.
 *
 * It records a violation in a callback and does not end the thread; the test looks at the records. Waits are for an
 * event and have a deadline. A watchdog ends the program when a call of the library does not return. */
#ifndef TESTS_LIB_REFEREE_H
#define TESTS_LIB_REFEREE_H

#include <simba.h>
#include <stdbool.h>
#include <stdint.h>

/* --- waiting and complaining ------------------------------------------------------------------------ */

int64_t ref_now_ms(void);

/* A duration, longer where everything is slower: multiplied by SIMBA_TEST_SLOWNESS, a whole number that the presets of
 * ThreadSanitizer and valgrind set. */
int64_t ref_scaled_ms(int64_t ms);
/* The same in a test of outages that end a moment before a lease does. A busy machine needs time of its own to connect anew,
 * which has nothing to do with the outage. So everything lasts three times as long, that moment too; but with
 * SIMBA_TEST_OUTAGES, on a quiet machine, it is as short as docs/safety.md says. */
int64_t ref_outage_ms(int64_t ms);

/* One lock for all data that callbacks write and tests read. Unlocking notifies the waiting thread. */
void ref_lock(void);
void ref_unlock(void);
/* With the lock: wait for a notification, but only for a moment, because the library's own state does not notify. False: too
 * late. */
bool ref_wait(int64_t deadline_ms);

/* Wait until the condition, which is evaluated with the lock, holds. The value says whether it does. */
#define REF_WITHIN(ms, condition)                                                                                      \
    ({                                                                                                                 \
        const int64_t deadline_ = ref_now_ms() + (ms);                                                                 \
        bool met_;                                                                                                     \
        ref_lock();                                                                                                    \
        while (!(met_ = (condition)) && ref_wait(deadline_)) {                                                         \
        }                                                                                                              \
        ref_unlock();                                                                                                  \
        met_;                                                                                                          \
    })

/* Record a failure, and go on. Any thread, with the lock or without. */
#define REF_COMPLAIN(...) ref_complain(__FILE__, __LINE__, __VA_ARGS__)
#define REF_EXPECT(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            REF_COMPLAIN("not so: %s", #condition);                                                                    \
    } while (0)
void ref_complain(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* How many failures there were since the program began. */
unsigned ref_complaints(void);

/* The scene that this thread plays, for complaints and for the watchdog. */
void ref_scene(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* End the program, and say in which scene, unless it is called again within this time, scaled; 0: never. */
void ref_watchdog(unsigned seconds);

/* How many entries a directory has, such as /proc/self/fd or /proc/self/task. */
unsigned ref_entries(const char *directory);

/* Make an empty folder, in memory if the system has that; delete it with everything in it. A failure ends the
 * program. */
enum { REF_FOLDER_MAX = 64 };
void ref_make_folder(char ret_path[REF_FOLDER_MAX]);
void ref_delete_folder(const char *path);

/* --- the fight -------------------------------------------------------------------------------------- */

enum { REF_CONTENDERS = 4 };

typedef struct ref_arena ref_arena;

typedef struct ref_contender {
    ref_arena *arena;
    simba_contender *handle; /* set by the test */
    unsigned acquired, released;
    bool leads;
    bool stopped; /* stop has returned */
    bool in_callback;
    simba_reason reason; /* of the latest release */
    uint64_t token;      /* of the latest grant */
} ref_contender;

struct ref_arena {
    char scene[160]; /* of the thread that set it up */
    ref_contender contenders[REF_CONTENDERS];
    const ref_contender *inside; /* the leader, as it was told */
    uint64_t last_token;         /* the greatest so far */
    unsigned grants;
    bool forced; /* see ref_force */
    uint64_t forced_at;
};

void ref_arena_init(ref_arena *arena);
/* The options for the nth contender. */
simba_contender_options ref_options(ref_arena *arena, unsigned nth);
/* Call simba_contender_start or stop, and record it. */
int ref_start(ref_contender *contender);
int ref_stop(ref_contender *contender);
/* Free the handle. */
void ref_free(ref_contender *contender);
/* An administrator is about to take the mutex away. Until its holder has learned of that, two may lead, as simba.h
 * says. Call `force` before. Then wait, with the lock, until `settled` holds: one new leader, and only one. */
void ref_force(ref_arena *arena);
bool ref_settled(ref_arena *arena);
/* After all have been stopped: check that every contender that was told of a gain was told of its loss. */
void ref_arena_check_end(const ref_arena *arena);

#endif
