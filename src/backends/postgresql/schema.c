/* See schema.h. */
#include "backends/postgresql/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 9, NOTE_COLUMNS = 5 };

/* The columns of LOOK. */
enum {
    HAS_TABLE,
    COLUMN_COUNT,
    NOTE_COLUMN_COUNT,
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
        .has_function =
            is_true(result, HAS_FUNCTION) && strtol(PQgetvalue(result, 0, NOTE_COLUMN_COUNT), NULL, 10) == NOTE_COLUMNS,
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
        return simba__sql_fail(
            why, SIMBA__SQL_TELL, SIMBA_ESTORE,
            "postgresql %s: the function %s_decide_4, the table %s_waiters or columns are missing; run "
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

static bool is_by_network(const simba__pg_options *options)
{
    for (size_t i = 0; i < options->host_count; i++)
        if (options->hosts[i].host[0] != '/')
            return true;
    return false;
}

void simba__pg_schema_examine(const simba__pg_schema *schema, const simba__pg_options *options, simba__sql_item *item)
{
    simba__sql_failure why = {0};
    const bool is_whole = simba__pg_schema_check(schema, options, &why) == 0;
    const bool is_behind = schema->standbys > 0 && !schema->has_sync_standbys;
    const bool has_rights = schema->lacking[0] == '\0' || !is_whole;
    const char *sslmode = simba__pg_option(options, "sslmode");
    simba__sql_item_tell(item, is_whole, SIMBA_VERDICT_BROKEN, "schema",
                         why.error.code == SIMBA_ESTORE ? "Run `simba init`." : NULL, "%s",
                         is_whole ? "The tables and the function are those of this version." : why.error.text);
    simba__sql_item_tell(item, schema->has_fsync, SIMBA_VERDICT_WARNING, "durability",
                         "Set fsync to on: a crash of the machine may undo grants.",
                         "Server version %s, fsync is %s; synchronous_commit is %s, and the store asks for %s.",
                         schema->server, schema->has_fsync ? "on" : "off", schema->sync_commit,
                         strcmp(schema->sync_commit, "remote_apply") == 0 ? "the same" : "on");
    simba__sql_item_tell(item, !is_behind, SIMBA_VERDICT_WARNING, "standbys",
                         "Set synchronous_standby_names: a standby that is promoted may lack the latest grants.",
                         "%ld standbys are connected; a commit %s for them.", schema->standbys,
                         schema->has_sync_standbys ? "waits" : "does not wait");
    simba__sql_item_tell(
        item, !is_by_network(options) || strcmp(sslmode, "verify-full") == 0, SIMBA_VERDICT_WARNING, "tls",
        "Leave sslmode out of the URL, or say verify-full: otherwise another server may pose as this one.",
        "sslmode is %s%s.", sslmode, is_by_network(options) ? "" : "; the server is reached by a socket file");
    simba__sql_item_tell(item, has_rights, SIMBA_VERDICT_BROKEN, "rights", "Grant these rights to the user.",
                         "This user lacks %s.", has_rights ? "no right that it needs" : schema->lacking);
    simba__sql_item_tell(item, !schema->is_read_only, SIMBA_VERDICT_BROKEN, "writing",
                         "Name the primary in the URL, or all servers, and leave target_session_attrs out.",
                         "The server is %s.",
                         schema->is_read_only ? "read-only, perhaps a standby" : "one that can be written to");
}
