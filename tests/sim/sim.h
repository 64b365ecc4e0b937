/* One simulated run: a plan goes in, a verdict comes out. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdio.h>

#include "sim/plan.h"

typedef struct sim_verdict {
    const char *promise; /* the first that was broken, "S1" … "L4"; NULL: none */
    char text[256];      /* how */
    int64_t at_ns;
    bool two;     /* two held at once, or the second was granted before the first had been told */
    bool exposed; /* fencing tokens told the one that should not have acted from the one that should */
    uint64_t hash;
    uint64_t events;
    int64_t contender_ns; /* how long contenders contended, added up */
} sim_verdict;

typedef struct sim sim;

/* Was the code of this store built? */
bool sim_has_store(sim_store_kind store);
/* Do tokens tell two holders apart although this assumption is broken? In an SQL store they are versions of the row, and a
 * store that forgets a grant forgets its token too. */
bool sim_has_tokens(sim_store_kind store, sim_broken broken);

sim *sim_new(void);
void sim_free(sim *sim);

/* `log`: where every event goes as a line of an event log, in the format of `simba timeline`; NULL: nowhere. */
void sim_run(sim *sim, const sim_plan *plan, FILE *log, sim_verdict *ret_verdict);

/* Leave out of the plan what is not needed for the same promise to be broken. */
void sim_shrink(sim *sim, sim_plan *plan, const char *promise);

#endif
