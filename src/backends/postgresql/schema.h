/* The tables and the function as the server has them: whether they can be used, and what to report about them.
 * statements.c makes them. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_SCHEMA_H
#define SIMBA_BACKENDS_POSTGRESQL_SCHEMA_H

#include "backends/postgresql/options.h"
#include "backends/sql/batch.h"

typedef struct simba__pg_schema {
    bool has_table;
    bool has_columns;  /* all that ever were */
    bool has_function; /* and the later additions: the table of waiters, and the columns of notes */
    bool has_schema;   /* the one that the URL names */
    bool is_read_only;
    bool has_fsync;
    bool has_sync_standbys; /* commits wait for standbys */
    long standbys;          /* that are connected */
    char server[64];        /* its version */
    char sync_commit[16];
    char lacking[320]; /* rights that this user does not have */
} simba__pg_schema;

/* From the result of LOOK. False: it is no such result. */
bool simba__pg_schema_take(const PGresult *result, simba__pg_schema *ret_schema);
/* 0, or why it cannot be used: because of what is missing, or of rights. */
int simba__pg_schema_check(const simba__pg_schema *schema, const simba__pg_options *options, simba__sql_failure *why);
int simba__pg_schema_check_rights(const simba__pg_schema *schema, const simba__pg_options *options,
                                  simba__sql_failure *why);

/* The findings about it. */
void simba__pg_schema_examine(const simba__pg_schema *schema, const simba__pg_options *options, simba__sql_item *item);

#endif
