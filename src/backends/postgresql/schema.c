/* See schema.h. */
#include "backends/postgresql/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 9 };

/* The columns of LOOK. */
enum {
    HAS_TABLE,
    COLUMN_COUNT,
    HAS_FUNCTION,
    HAS_SCHEMA,
    IS_READ_ONLY,
    SERVER_VERSION,
    FSYNC,
    SYNC_COMMIT,
    SYNC_STANDBYS,
    STANDBY_COUNT,
    LACKING,
    LOOK_COLUMNS,
};

static bool is_true(const PGresult *result, int column)
{
    return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

bool simba__pg_schema_take(const PGresult *result, simba__pg_schema *ret_schema)
{
    if (PQntuples(result) != 1 || PQnfields(result) != LOOK_COLUMNS)
        return false;
    *ret_schema = (simba__pg_schema){
        .has_table = is_true(result, HAS_TABLE),
        .has_columns = strtol(PQgetvalue(result, 0, COLUMN_COUNT), NULL, 10) == COLUMNS,
        .has_function = is_true(result, HAS_FUNCTION),
        .has_schema = is_true(result, HAS_SCHEMA),
        .is_read_only = is_true(result, IS_READ_ONLY),
        .has_fsync = strcmp(PQgetvalue(result, 0, FSYNC), "off") != 0,
        .has_sync_standbys = PQgetvalue(result, 0, SYNC_STANDBYS)[0] != '\0',
        .standbys = strtol(PQgetvalue(result, 0, STANDBY_COUNT), NULL, 10),
    };
    snprintf(ret_schema->server, sizeof ret_schema->server, "%s", PQgetvalue(result, 0, SERVER_VERSION));
    snprintf(ret_schema->sync_commit, sizeof ret_schema->sync_commit, "%s", PQgetvalue(result, 0, SYNC_COMMIT));
    snprintf(ret_schema->lacking, sizeof ret_schema->lacking, "%s", PQgetvalue(result, 0, LACKING));
    return true;
}

int simba__pg_schema_check(const simba__pg_schema *schema, const simba__pg_options *options, simba__sql_failure *why)
{
    if (!schema->has_table)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "postgresql %s: there is no table %s; run `simba init`, or put create=yes into the URL",
                               options->where, options->table);
    if (!schema->has_columns)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ECORRUPT,
                               "postgresql %s: the table %s is not ours; table=NAME in the URL names another one",
                               options->where, options->table);
    if (!schema->has_function)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "postgresql %s: the function %s_decide_1 or the table %s_waiters is missing; run "
                               "`simba init`, or put create=yes into the URL",
                               options->where, options->table, options->table);
    return 0;
}

int simba__pg_schema_check_rights(const simba__pg_schema *schema, const simba__pg_options *options,
                                  simba__sql_failure *why)
{
    if (schema->lacking[0] == '\0')
        return 0;
    return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_EPERM, "postgresql %s: this user lacks %s", options->where,
                           schema->lacking);
}

/* --- what to say about it ---------------------------------------------------------------------------------- */

static simba_finding judge(simba_verdict verdict, const char *what, const char *text, const char *remedy)
{
    return (simba_finding){sizeof(simba_finding), verdict, what, text, verdict == SIMBA_VERDICT_OK ? NULL : remedy};
}

static simba_finding judge_schema(const simba__pg_schema *schema, const simba__pg_options *options, char *text,
                                  size_t size)
{
    simba__sql_failure why;
    if (simba__pg_schema_check(schema, options, &why) < 0) {
        snprintf(text, size, "%s", why.error.text);
        return judge(SIMBA_VERDICT_BROKEN, "schema", text,
                     schema->has_columns || !schema->has_table ? "Run `simba init`." : NULL);
    }
    snprintf(text, size, "The tables of %s and the function %s_decide_1 are those of this version.", options->table,
             options->table);
    return judge(SIMBA_VERDICT_OK, "schema", text, NULL);
}

static simba_finding judge_durability(const simba__pg_schema *schema, char *text, size_t size)
{
    snprintf(text, size, "Server version %s, fsync is %s; synchronous_commit is %s, and the store asks for %s.",
             schema->server, schema->has_fsync ? "on" : "off", schema->sync_commit,
             strcmp(schema->sync_commit, "remote_apply") == 0 ? "the same" : "on");
    return judge(schema->has_fsync ? SIMBA_VERDICT_OK : SIMBA_VERDICT_WARNING, "durability", text,
                 "Set fsync to on: a crash of the machine may undo grants.");
}

static simba_finding judge_standbys(const simba__pg_schema *schema, char *text, size_t size)
{
    const bool is_at_risk = schema->standbys > 0 && !schema->has_sync_standbys;
    snprintf(text, size,
             is_at_risk                  ? "Standbys (%ld) get what was committed a moment later."
             : schema->has_sync_standbys ? "A commit waits for standbys (%ld are connected)."
                                         : "No standby is connected (%ld).",
             schema->standbys);
    return judge(is_at_risk ? SIMBA_VERDICT_WARNING : SIMBA_VERDICT_OK, "standbys", text,
                 "Set synchronous_standby_names: a standby that is promoted may lack the latest grants.");
}

static simba_finding judge_tls(const simba__pg_options *options, char *text, size_t size)
{
    bool is_network = false;
    for (size_t i = 0; i < options->host_count; i++)
        is_network |= options->hosts[i].host[0] != '/';
    const char *mode = simba__pg_option(options, "sslmode");
    const bool is_fine = !is_network || strcmp(mode, "verify-full") == 0;
    snprintf(text, size, is_network ? "sslmode is %s." : "The server is reached by a socket file.", mode);
    return judge(is_fine ? SIMBA_VERDICT_OK : SIMBA_VERDICT_WARNING, "tls", text,
                 "Leave sslmode out of the URL, or say verify-full: otherwise another server may pose as this one.");
}

static simba_finding judge_rights(const simba__pg_schema *schema, char *text, size_t size)
{
    const bool is_fine = schema->lacking[0] == '\0' || !schema->has_function;
    snprintf(text, size, is_fine ? "This user has the rights that it needs." : "This user lacks %s.", schema->lacking);
    return judge(is_fine ? SIMBA_VERDICT_OK : SIMBA_VERDICT_BROKEN, "rights", text, "Grant these rights to the user.");
}

int simba__pg_schema_examine(const simba__pg_schema *schema, const simba__pg_options *options,
                             int (*found)(void *user, const simba_finding *finding), void *user)
{
    enum { SCHEMA, DURABILITY, STANDBYS, TLS, RIGHTS, WRITING, FINDINGS };
    char texts[FINDINGS][400];
    const simba_finding findings[FINDINGS] = {
        judge_schema(schema, options, texts[SCHEMA], sizeof *texts),
        judge_durability(schema, texts[DURABILITY], sizeof *texts),
        judge_standbys(schema, texts[STANDBYS], sizeof *texts),
        judge_tls(options, texts[TLS], sizeof *texts),
        judge_rights(schema, texts[RIGHTS], sizeof *texts),
        judge(schema->is_read_only ? SIMBA_VERDICT_BROKEN : SIMBA_VERDICT_OK, "writing",
              schema->is_read_only ? "The server is read-only, perhaps a standby." : "The server can be written to.",
              "Name the primary in the URL, or all servers, and leave target_session_attrs out."),
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < FINDINGS; i++)
        rc = found(user, &findings[i]);
    return rc;
}
