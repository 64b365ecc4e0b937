/* The declarations that the parts of `simba torture` share, also with `simba demo`. The pure parts have headers of their own: history.h, plan.h,
 * judge.h. */
#ifndef SIMBA_CLI_TORTURE_H
#define SIMBA_CLI_TORTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"
#include "term.h"
#include "torture/judge.h"
#include "torture/plan.h"
#include "torture/proxy.h"

/* --- run.c ---------------------------------------------------------------------------------------- */

#define TORTURE_MUTEX_SIZE 40
#define TORTURE_ID_SIZE 16

typedef struct torture_options {
    const char *command; /* for messages, and the beginning of the mutexes' names */
    const cli_globals *globals;
    const char *url; /* with its password */
    torture_setup setup;
    unsigned faults;     /* bits, see plan.h; at least one */
    bool sessions;       /* leases are sessions: there is no ttl and no transition to set */
    simba_timing timing; /* the ttl and the transition that everybody sets; SIMBA_INHERIT where leases are sessions */
    int64_t duration_ms;
    FILE *history; /* where events are written as they happen; may be NULL */
    char mutexes[TORTURE_MUTEXES_MAX][TORTURE_MUTEX_SIZE];
    char ids[TORTURE_CONTENDERS_MAX][TORTURE_ID_SIZE];
    const char *flag;              /* for contenders: "-v", "-vv"; NULL: none */
    bool report_events;            /* on standard error */
    bool report_owners;            /* contenders report whom they take for the leader, too */
    const torture_target *targets; /* the hosts of the URL; none: the network is left alone */
    unsigned target_count;
} torture_options;

typedef struct torture_outcome {
    torture_history history;
    unsigned faults[TORTURE_FAULT_COUNT]; /* how often each was done */
    int interrupted;                      /* the signal that ended it early; 0: none */
} torture_outcome;

/* Start the contenders, torment them for as long as was asked for, and stop them. When it returns none of them is left. Returns
 * CLI_GO or an exit code, after a message. */
int torture_run(const torture_options *options, torture_outcome *ret_outcome);

/* --- store.c --------------------------------------------------------------------------------------- */

/* Open the store and take each mutex once: so a mistake in the URL, the password or the store is reported once. Fills in the
 * names of the mutexes, unless they have names, the timing and what the protocol promises. Returns CLI_GO or an exit code. */
int torture_store_try(const cli_globals *globals, torture_options *options);
/* Remove the mutexes, as soon as their leases have ended, and print the names of those that stay. */
void torture_store_forget(const cli_globals *globals, const torture_options *options);

/* --- rewrite.c: whether the network can be broken, and how ------------------------------------------ */

/* The hosts of the URL. Returns how many, or 0 with the reason in `ret_reason`. */
unsigned torture_targets(const char *url, torture_target ret_targets[TORTURE_TARGETS_MAX], const char **ret_reason);
/* The URL with each of its hosts replaced by this port of the loopback interface. NULL: no memory. free() it. */
char *torture_rewrite(const char *url, const int *ports, unsigned count);

/* --- report.c, picture.c ---------------------------------------------------------------------------- */

typedef struct torture_report {
    const torture_setup *setup;
    const torture_history *history;
    const torture_verdict *verdict;
    const char *url;              /* without its password; NULL: a history is judged */
    const char *no_cuts;          /* why the network was left alone; NULL: it was not */
    const unsigned *faults;       /* of torture_outcome; NULL: a history is judged */
    char (*ids)[TORTURE_ID_SIZE]; /* NULL: contender-0 and so on */
    bool is_whole;                /* the picture is of all of it */
} torture_report;

void torture_report_text(const torture_report *report, const term *t);
/* Parts of it: the promises with a sign for each, and the worst findings. */
void torture_report_checks(const torture_verdict *verdict, const term *t);
void torture_report_findings(const torture_verdict *verdict, const term *t);
void torture_report_json(const torture_report *report, FILE *out);

/* The worst moment of a mutex, and a little before and after it, or the whole. */
void torture_picture_text(const torture_report *report, const term *t);
void torture_picture_svg(const torture_report *report, FILE *out);

#endif
