/* Every interleaving within bounds: two or three contenders of one mutex, all called the same, and one store. At each step
 * the world has choices: time goes on by a tick, somebody's timer fires, a message arrives, is lost or repeated, a callback
 * begins or returns, somebody is started, stopped, killed or forced away. All of them are taken, each from a copy of the
 * world, and a world that has been seen is not gone into again. The contenders are the machines of src/core, and the rules
 * of a store with rows are those of core/row.h, so what is explored is what ships.
 *
 *   explore_world.c   contenders and their applications, and the choices
 *   explore_store.c   the store: rows with and without push, and sessions
 *   explore_check.c   the promises
 *   explore_normal.c  one form for all worlds that differ in names and points in time alone
 *   explore_search.c  finds the shortest way to what is broken
 *   explore_report.c  bounds as text, and what came of it
 */
#ifndef TESTS_SIM_EXPLORE_H
#define TESTS_SIM_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { EXPLORE_CONTENDERS = 3 };

typedef enum explore_store { EXPLORE_PUSH, EXPLORE_POLL, EXPLORE_SESSION, EXPLORE_STORES } explore_store;

/* How often something may happen on one way. Time itself has no bound. */
typedef struct explore_bounds {
    explore_store store;
    unsigned contenders;
    unsigned tick_ms;
    unsigned ttl, transition; /* ticks; a session lasts as long as both together */
    unsigned margin, limit;   /* ticks; the stop margin and the hold limit */
    unsigned losses;          /* messages that are lost or repeated, requests that fail */
    unsigned kills;           /* processes */
    unsigned starts;          /* after a stop or a kill */
    unsigned stops;           /* by the application */
    unsigned forces;          /* by an administrator */
    unsigned pauses;          /* ticks at which a contender has not done what it is time for */
    unsigned delays;          /* ticks that a message is under way */
    unsigned
        drifts; /* 1: the clock of the first is too slow and that of the last too fast, as far as allowed; 2: twice as
                          * far, and so on, which breaks an assumption and therefore promises */
    const char *only;    /* look for breaks of this promise alone; NULL: of all */
    unsigned jobs;       /* threads */
    uint64_t states_max; /* more of them than this: give up */
} explore_bounds;

typedef struct explore_verdict {
    const char *promise; /* the first that was broken; NULL: none */
    char text[256];
    int64_t at_ns; /* when, counted from the beginning of the log */
    uint64_t states, choices;
    unsigned depth;   /* choices on the longest way that had to be gone, or on the way to what was broken */
    bool is_complete; /* all within the bounds was seen */
} explore_verdict;

const char *explore_store_name(explore_store store);
/* The bounds that are explored in a minute. */
void explore_default(explore_store store, explore_bounds *ret_bounds);
/* `log`: where the way to what was broken goes, as an event log; NULL: nowhere. */
void explore(const explore_bounds *bounds, FILE *log, explore_verdict *ret_verdict);

/* Change the bounds by "losses=2,kills=1". False: that is not understood. */
bool explore_parse(const char *text, explore_bounds *bounds);
/* Explore, and say what came of it, drawn if a promise was broken (into the file `svg` as well, if that is not NULL). False: one
 * was, or not all was seen. */
bool explore_and_tell(explore_bounds *bounds, const char *svg, FILE *out);

#endif
