/* An allocator that fails on command, for the library and for SQLite, and that knows how many of its allocations are
 * alive. With it tests try to run out of memory at every single allocation. */
#ifndef TESTS_LIB_FAILING_ALLOC_H
#define TESTS_LIB_FAILING_ALLOC_H

typedef enum failing_kind {
    FAILING_SIMBA,
    FAILING_SQLITE,
    FAILING_KINDS,
} failing_kind;

/* For the whole program, before anything else is called. */
void failing_install(void);

/* From the nth call of this kind on (1: the next one) `count` calls fail. Replaces an earlier setting. Any thread. */
void failing_arm(failing_kind kind, unsigned nth, unsigned count);
/* None fails any more. Returns how many did since the last arming. */
unsigned failing_disarm(void);

/* Calls since the last arming, and allocations that are alive. */
unsigned failing_calls(failing_kind kind);
long failing_live(failing_kind kind);

#endif
