/* The findings of an EXAMINE about a server, one after the other. */
#ifndef SIMBA_BACKENDS_SQL_FINDINGS_H
#define SIMBA_BACKENDS_SQL_FINDINGS_H

#include "backends/sql/batch.h"

typedef struct simba__sql_findings {
    simba__sql_item *item; /* the request */
    int rc;                /* 0, or SIMBA_ENOMEM: the findings after that are left out */
} simba__sql_findings;

/* All is well; or else this is the verdict, and the remedy, which may be NULL. `what` and `remedy` are constants. */
void simba__sql_tell(simba__sql_findings *findings, bool is_fine, simba_verdict otherwise, const char *what,
                     const char *remedy, const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
