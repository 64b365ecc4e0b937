/* The table: what it is like, how it is made, and what to say about it.
 *
 * sql/row.h explains the columns. The first six are those of Simba on the JVM. Three more are ours, nullable and not named by any
 * statement of the JVM's, so that both can share the table. Five more are those of notes: note, note_written_at, note_token,
 * note_number, forgotten_version.
 * Without those five there are no notes, and no mutex can be forgotten. Without our first three (an old table, nobody has run
 * `simba init`) one thing is missing: a contender that loses the answer to an acquire cannot know that it was granted, and
 * waits for the end of that lease like everybody else. */
#ifndef SIMBA_BACKENDS_MYSQL_SCHEMA_H
#define SIMBA_BACKENDS_MYSQL_SCHEMA_H

#include "backends/mysql/conn.h"
#include "backends/mysql/statements.h"
#include "backends/sql/batch.h"

typedef struct simba__my_schema {
    bool exists;
    bool is_complete;        /* it has the six columns */
    simba__my_layout layout; /* which columns of ours it has beside them */
    bool is_transactional;   /* the engine can roll back */
    bool is_exact;           /* names differ if any byte does */
    unsigned mutex_chars, id_chars;
    uint64_t version_max; /* the greatest that the column has room for */
    uint64_t max_packet;  /* of the server */
    char engine[32];
    char collation[64]; /* of the names */
    char server[64];    /* its version */
    int durability;     /* innodb_flush_log_at_trx_commit */
    bool read_only;
} simba__my_schema;

/* Examine the table. Changes nothing. */
int simba__my_schema_look(simba__my_conn *conn, simba__my_schema *ret_schema, simba__sql_failure *why);
/* Make the table, or the columns that it lacks; then examine it. */
int simba__my_schema_prepare(simba__my_conn *conn, simba__my_schema *ret_schema, simba__sql_failure *why);
/* May this user do with the table what simba does? Tries statements that change nothing; the error names the missing
 * right. */
int simba__my_schema_check_rights(simba__my_conn *conn, simba__sql_failure *why);
/* 0, or why it cannot be used. */
int simba__my_schema_check(const simba__my_schema *schema, const simba__my_options *options, simba__sql_failure *why);

/* The findings about it. */
void simba__my_schema_examine(simba__my_conn *conn, const simba__my_schema *schema, simba__sql_item *item);

#endif
