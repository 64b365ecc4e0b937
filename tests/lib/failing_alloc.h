/* An allocator that fails on command, for the library and for SQLite. It counts its live allocations. With it, tests
 * run out of memory at every single allocation. */
#ifndef TESTS_LIB_FAILING_ALLOC_H
#define TESTS_LIB_FAILING_ALLOC_H

typedef enum failing_kind {
    FAILING_SIMBA,
    FAILING_SQLITE,
    FAILING_KINDS,
} failing_kind;

/* Install it for the whole program, before anything else is called. */
void failing_install(void);

/* From the nth call of this kind on (1: the next one) `count` calls fail. Replaces an earlier setting. Any thread. */
void failing_arm(failing_kind kind, unsigned nth, unsigned count);
/* Let no call fail any more. Returns how many did since the last arming. */
unsigned failing_disarm(void);

/* Calls since the last arming, and allocations that are alive. */
unsigned failing_calls(failing_kind kind);
long failing_live(failing_kind kind);

#endif
