/* The judge of `simba torture`: a pure function from a history to a verdict.
 *
 * What is judged, in the words of docs/safety.md:
 *
 *   alone     S1: at no instant do two contenders of one mutex both hold a lease that is valid by their own clock. A contender
 *             holds from the end of its first look that found the lease valid to the moment at which the last look says that it
 *             ends. A release ends it earlier. Death and pauses do not: nobody may be granted what a dead leader's lease covers.
 *   tokens    S3: each grant has a greater token than those before it, and none comes twice.
 *   kept      the store does not end a lease before its time. One that does has forgotten a grant.
 *   in_time   L1, L2: after the end of a leadership somebody leads within what was promised.
 *   cause     L3: nobody loses the leadership unless there was trouble that lasted for long enough.
 *   alive     no contender ended by itself.
 *
 * The judge gives the benefit of the doubt wherever the history leaves any: a look takes time, and it counts by the end that makes
 * the claim smaller. What is judged by time is counted anew from every fault that began or ended meanwhile. */
#ifndef SIMBA_CLI_TORTURE_JUDGE_H
#define SIMBA_CLI_TORTURE_JUDGE_H

#include "torture/history.h"

typedef enum torture_check {
    TORTURE_ALONE,
    TORTURE_TOKENS,
    TORTURE_KEPT,
    TORTURE_ALIVE,
    TORTURE_IN_TIME,
    TORTURE_CAUSE,
    TORTURE_CHECKS, /* the gravest first */
} torture_check;

/* How a leadership ended. */
#define TORTURE_ENDS(X)                                                                                                \
    X(START, "start")        /* it is the first one: there was nobody before */                                        \
    X(HAND_OVER, "handover") /* its holder gave the mutex back */                                                      \
    X(KILL, "kill")          /* its holder was killed */                                                               \
    X(PAUSE, "pause")        /* was paused until its lease had ended */                                                \
    X(NETWORK, "network")    /* was cut off, stalled or delayed until then */                                          \
    X(OTHER, "other")        /* anything else, such as trouble with the store itself */

typedef enum torture_end {
#define TORTURE_END_ENUM(name, word) TORTURE_END_##name,
    TORTURE_ENDS(TORTURE_END_ENUM)
#undef TORTURE_END_ENUM
        TORTURE_END_COUNT
} torture_end;

const char *torture_end_word(torture_end end);
/* Within what time somebody leads after such an end, if nothing else happens. A leader that was cut off may have been heard by the
 * store until its lease ended: then nobody can follow for another lease. */
int64_t torture_promised_ns(const torture_setup *setup, torture_end end);

/* One leadership. */
typedef struct torture_reign {
    int contender;
    unsigned life;
    unsigned mutex;
    uint64_t token;
    int64_t begun_ns;    /* when the first look began that found it leading */
    int64_t from_ns;     /* when that look had ended: it led by then */
    int64_t acted_to_ns; /* the last look that found the lease valid */
    int64_t until_ns;    /* the end of the lease, as the looks have found it */
    int64_t ended_ns;    /* released or killed; -1: neither */
    int64_t claim_ns;    /* nobody else may lead before this: the lease, as far as it was not given back */
    bool released;
    bool killed;
    char why[32]; /* as the library gave it */
} torture_reign;

typedef struct torture_finding {
    torture_check check;
    int64_t at_ns;
    int64_t for_ns; /* how long it lasted, or how much too late it was; 0: it has no length */
    unsigned mutex;
    char text[200];
} torture_finding;

/* How long it took until somebody led, after ends of one kind. */
typedef struct torture_times {
    size_t count;
    int64_t median_ns;
    int64_t longest_ns;
    int64_t longest_at_ns;
    unsigned longest_mutex;
} torture_times;

#define TORTURE_FINDINGS_MAX 100

typedef struct torture_verdict {
    size_t broken[TORTURE_CHECKS]; /* how often */
    torture_finding findings[TORTURE_FINDINGS_MAX];
    size_t finding_count;  /* how many findings are listed */
    torture_finding worst; /* if anything is broken: the gravest, and of those the longest */
    torture_reign *reigns; /* by mutex, and by time */
    size_t reign_count;
    torture_times times[TORTURE_END_COUNT];
    size_t losses; /* leaderships that ended against the holder's will, with or without a cause */
    size_t late;   /* how often the host did not let a contender run */
    size_t failed; /* how often the store failed requests of a contender that nothing was done to */
    int64_t length_ns;
    bool kept; /* nothing is broken */
} torture_verdict;

/* Sorts the history first. Free the verdict with torture_verdict_free. */
void torture_judge(const torture_setup *setup, torture_history *history, torture_verdict *ret_verdict);
void torture_verdict_free(torture_verdict *verdict);

/* --- evidence.c: when was what the matter with whom? -------------------------------------------------- */

typedef enum torture_trouble { TORTURE_BY_FAULT, TORTURE_BY_DEATH, TORTURE_BY_HOST, TORTURE_BY_STORE } torture_trouble;

/* The time for which something was the matter with a contender, or with all of them. */
typedef struct torture_span {
    int contender;
    torture_trouble trouble;
    int64_t from_ns;
    int64_t to_ns;
    char what[32];
} torture_span;

typedef struct torture_spans {
    torture_span *spans;
    size_t count;
} torture_spans;

/* From a history that is sorted. A trouble that goes on at the end of the history ends there. free() the spans. */
torture_spans torture_spans_of(const torture_history *history, int64_t end_ns);
/* Is it about this contender? */
bool torture_span_hits(const torture_span *span, int contender);

/* --- evidence.c --------------------------------------------------------------------------------------- */

/* The leaderships of a sorted history, by mutex and by time. free() them. */
torture_reign *torture_reigns_of(const torture_history *history, int64_t end_ns, size_t *ret_count);

#endif
