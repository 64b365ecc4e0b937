/* The parts of `simba demo`: the scenario (demo.c), the judgement of it (judge.c), and what is put on the screen (report.c). Its
 * contenders are processes of `simba torture`, and what they report is a history as in torture/history.h. */
#ifndef SIMBA_CLI_DEMO_H
#define SIMBA_CLI_DEMO_H

#include "torture/contenders.h"

#define DEMO_NODES 3

/* What the scenario knows of a contender, beside what its process does. */
typedef struct demo_node {
    int sees; /* the leader it last heard of */
    unsigned renewals;
    uint64_t token;   /* under which it led last; 0: never */
    int64_t until_ns; /* when that lease ends, as told */
} demo_node;

/* Does this event tell that the contender leads since just now, or that it has renewed its lease? */
bool demo_is_acquired(const demo_node *before, const torture_event *event);
bool demo_is_renewed(const demo_node *before, const torture_event *event);

/* --- judge.c: was it all as promised? ------------------------------------------------------ */

#define DEMO_CHECKS_MAX 8

typedef struct demo_check {
    bool passed;
    const char *what;
    char detail[96];
} demo_check;

typedef struct demo_verdict {
    demo_check checks[DEMO_CHECKS_MAX];
    size_t check_count;
    bool passed; /* all of them */
    int64_t failover_ns;
    int64_t handover_ns;
    int64_t lease_left_ns; /* of the killed leader, at the kill */
} demo_verdict;

/* How long after the kill somebody must lead, at the latest. */
int64_t demo_failover_limit_ns(const torture_setup *setup);

/* Judges the leaderships, in the order of time. */
void demo_judge(const torture_contenders *contenders, const torture_verdict *found, demo_verdict *ret_verdict);

/* --- report.c: on the screen --------------------------------------------------------------- */

void demo_show_event(const term *t, const char *name, const demo_node *before, const torture_event *event);
void demo_show_verdict(const term *t, const torture_contenders *contenders, const torture_verdict *found,
                       const demo_verdict *verdict);

#endif
