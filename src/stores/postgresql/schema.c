/* The tables: what they are like, how they are made, and what to say about them. One statement after another, as the connection asks for
 * them. In the texts, @T is the table, @W that of the waiters; @S is the schema and @N the table without quotes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/postgresql/postgresql.h"
#include "util/assert.h"

#define SHARED "mutex,acquired_at,ttl_at,transition_at,owner_id,version,nonce,nonce_version,revoked_version"
#define LATER "note,note_token,note_number,note_written_at,forgotten_version"
#define LACKS(right, of) "case when not has_table_privilege(to_regclass('" of "'), '" right "') then '" right " on "
#define LACKS_TABLE(right) LACKS(right, "@T") "@N' end, "
#define LACKS_WAITERS(right) LACKS(right, "@W") "@N_waiters' end"
#define MISSING(columns)                                                                                               \
    "(select min(c) from unnest(string_to_array('" columns "', ',')) c where not exists (select from pg_attribute "    \
    "where attrelid = to_regclass('@T') and not attisdropped and attname = c)), "

/* One row. */
static const char look_sql[] = "select to_regclass('@T') is not null, " MISSING(SHARED) MISSING(
    LATER) "to_regclass('@W') is not null, "
           "'@S' = '' or to_regnamespace('\"@S\"') is not null, "
           "pg_is_in_recovery() or current_setting('transaction_read_only') = 'on', current_setting('server_version'), "
           "current_setting('server_version_num'), current_setting('fsync'), current_setting('synchronous_commit'), "
           "current_setting('synchronous_standby_names'), (select count(*) from pg_stat_replication), "
           "concat_ws(', ', " LACKS_TABLE("select") LACKS_TABLE("insert") LACKS_TABLE("update") LACKS_WAITERS(
               "select") ", " LACKS_WAITERS("insert") ", " LACKS_WAITERS("update") ", " LACKS_WAITERS("delete") ")";
enum {
    HAS_TABLE,
    MISSING_COLUMN,
    MISSING_LATER,
    HAS_WAITERS,
    HAS_SCHEMA,
    IS_READ_ONLY,
    SERVER,
    SERVER_NUMBER,
    FSYNC,
    SYNC_COMMIT,
    SYNC_STANDBYS,
    STANDBY_COUNT,
    LACKING,
    LOOK_COLUMNS,
};

static const char make_sql[] =
    "select pg_advisory_xact_lock(hashtextextended('simba init @N', 0));\n"
    "create table if not exists @T (mutex text collate \"C\" not null primary key, acquired_at bigint not null, "
    "ttl_at bigint not null, transition_at bigint not null, owner_id text collate \"C\" not null, "
    "version bigint not null, nonce bigint, nonce_version bigint, revoked_version bigint) with (fillfactor = 70);\n"
    "alter table @T add column if not exists note bytea, add column if not exists note_written_at bigint, "
    "add column if not exists note_token bigint, add column if not exists note_number bigint, "
    "add column if not exists forgotten_version bigint;\n"
    "create unlogged table if not exists @W (mutex text collate \"C\" not null, nonce bigint not null, "
    "channel text not null, since bigint not null, until bigint not null, invited bigint not null, "
    "primary key (mutex, nonce)) with (fillfactor = 70)";

static const char make_schema_sql[] = "create schema if not exists \"@S\"";

/* --- one statement after another --------------------------------------------------------------------------- */

static const char *write_text(simba__pg_conn *conn, const char *text)
{
    const char *const names[26] = {['T' - 'A'] = conn->table,
                                   ['W' - 'A'] = conn->waiters,
                                   ['S' - 'A'] = conn->options->schema,
                                   ['N' - 'A'] = conn->options->table};
    size_t length = 0;
    for (; *text && length < sizeof conn->schema.text; text++) {
        const char piece[2] = {*text, '\0'};
        length += (size_t)snprintf(conn->schema.text + length, sizeof conn->schema.text - length, "%s",
                                   *text == '@' ? names[*++text - 'A'] : piece);
    }
    SIMBA__ASSERT(length < sizeof conn->schema.text);
    return conn->schema.text;
}

static bool is_true(const simba__sql_cell *cell)
{
    return cell->text && strcmp(cell->text, "t") == 0;
}

static void take_text(const simba__sql_cell *cell, char *out, size_t size)
{
    snprintf(out, size, "%s", cell->text ? cell->text : "");
}

static long number(const simba__sql_cell *cell)
{
    return cell->text ? strtol(cell->text, NULL, 10) : 0;
}

void simba__pg_learn(void *any, const simba__sql_cell *cells, unsigned count)
{
    simba__pg_conn *conn = any;
    simba__pg_schema *schema = &conn->schema;
    if (schema->step != SIMBA__PG_LOOK || count != LOOK_COLUMNS)
        return;
    schema->is_known = true;
    schema->has_table = is_true(&cells[HAS_TABLE]);
    schema->is_shared_complete = !cells[MISSING_COLUMN].text;
    take_text(&cells[schema->is_shared_complete ? MISSING_LATER : MISSING_COLUMN], schema->missing,
              sizeof schema->missing);
    schema->has_waiters = is_true(&cells[HAS_WAITERS]);
    schema->has_schema = is_true(&cells[HAS_SCHEMA]);
    schema->is_read_only = is_true(&cells[IS_READ_ONLY]);
    take_text(&cells[SERVER], schema->server, sizeof schema->server);
    schema->version = number(&cells[SERVER_NUMBER]);
    schema->has_fsync = !cells[FSYNC].text || strcmp(cells[FSYNC].text, "off") != 0;
    take_text(&cells[SYNC_COMMIT], schema->sync_commit, sizeof schema->sync_commit);
    schema->has_sync_standbys = cells[SYNC_STANDBYS].length > 0;
    schema->standbys = number(&cells[STANDBY_COUNT]);
    take_text(&cells[LACKING], schema->lacking, sizeof schema->lacking);
}

static int check(const simba__pg_conn *conn, simba__sql_failure *why)
{
    const simba__pg_schema *schema = &conn->schema;
    const char *where = conn->options->where, *table = conn->options->table;
    if (!schema->is_known)
        return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_ECORRUPT, "postgresql %s: this is no PostgreSQL server",
                               where);
    if (!schema->has_table)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "postgresql %s: there is no table %s; run `simba init`, or put create=yes into the URL",
                               where, table);
    if (!schema->is_shared_complete)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ECORRUPT,
                               "postgresql %s: the table %s is not simba's: it has no column %s; table=NAME in the URL "
                               "names another one",
                               where, table, schema->missing);
    if (schema->missing[0] != '\0' || !schema->has_waiters)
        return simba__sql_fail(
            why, SIMBA__SQL_TELL, SIMBA_ESTORE,
            "postgresql %s: the %s %s%s is missing; run `simba init`, or put create=yes into the URL", where,
            schema->missing[0] ? "column" : "table", schema->missing[0] ? schema->missing : table,
            schema->missing[0] ? "" : "_waiters");
    return 0;
}

int simba__pg_check(void *any, simba__sql_table *ret_table, simba__sql_failure *why)
{
    *ret_table = (simba__sql_table){.mutex_chars = SIMBA_MUTEX_BYTES,
                                    .id_chars = SIMBA_ID_MAX,
                                    .is_exact = true,
                                    .version_max = INT64_MAX,
                                    .rows_max = SIMBA__SQL_ROWS_MAX};
    return check(any, why);
}

const char *simba__pg_look(void *any, simba__sql_purpose purpose, bool begins, simba__sql_failure *why)
{
    simba__pg_conn *conn = any;
    simba__pg_schema *schema = &conn->schema;
    simba__sql_failure unusable;
    const bool may_make = purpose == SIMBA__SQL_TO_PREPARE || (purpose == SIMBA__SQL_TO_OPEN && conn->options->create);
    if (begins) {
        *schema = (simba__pg_schema){.step = SIMBA__PG_LOOK};
        return write_text(conn, look_sql);
    }
    if (why->error.code < 0)
        return NULL;
    switch (schema->step) {
    case SIMBA__PG_LOOK:
        if (may_make && schema->is_known && !schema->has_made && check(conn, &unusable) == SIMBA_ESTORE) {
            schema->step = schema->has_schema ? SIMBA__PG_MAKE : SIMBA__PG_MAKE_SCHEMA;
            return write_text(conn, schema->has_schema ? make_sql : make_schema_sql);
        }
        schema->step = SIMBA__PG_LOOKED;
        if (purpose == SIMBA__SQL_TO_OPEN && !schema->is_known)
            (void)check(conn, why);
        if (purpose == SIMBA__SQL_TO_PREPARE && check(conn, why) == 0 && schema->lacking[0] != '\0')
            (void)simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_EPERM, "postgresql %s: this user lacks %s",
                                  conn->options->where, schema->lacking);
        return NULL;
    case SIMBA__PG_MAKE_SCHEMA:
        schema->step = SIMBA__PG_MAKE;
        return write_text(conn, make_sql);
    case SIMBA__PG_MAKE:
        *schema = (simba__pg_schema){.step = SIMBA__PG_LOOK, .has_made = true};
        return write_text(conn, look_sql);
    default:
        return NULL;
    }
}

/* --- what to say about it ---------------------------------------------------------------------------------- */

static bool is_by_network(const simba__pg_options *options)
{
    for (size_t i = 0; i < options->host_count; i++)
        if (options->hosts[i].host[0] != '/')
            return true;
    return false;
}

void simba__pg_examine(void *any, simba__sql_findings *findings)
{
    const simba__pg_conn *conn = any;
    const simba__pg_schema *schema = &conn->schema;
    const simba__pg_options *options = conn->options;
    simba__sql_failure why = {0};
    const bool is_whole = check(conn, &why) == 0;
    const bool is_behind = schema->standbys > 0 && !schema->has_sync_standbys;
    const bool has_rights = schema->lacking[0] == '\0' || !is_whole;
    const char *sslmode = simba__pg_option(options, "sslmode");
    simba__sql_find(findings, is_whole, SIMBA_VERDICT_BROKEN, "schema",
                    strstr(why.error.text, "simba init") ? "Run `simba init`." : NULL, "%s",
                    is_whole ? "The tables are those of this version." : why.error.text);
    simba__sql_find(findings, schema->has_fsync, SIMBA_VERDICT_WARNING, "durability",
                    "Set fsync to on: a crash of the machine may undo grants.",
                    "Server version %s, fsync is %s; synchronous_commit is %s, and the store asks for %s.",
                    schema->server, schema->has_fsync ? "on" : "off", schema->sync_commit,
                    strcmp(schema->sync_commit, "remote_apply") == 0 ? "the same" : "on");
    simba__sql_find(findings, !is_behind, SIMBA_VERDICT_WARNING, "standbys",
                    "Set synchronous_standby_names: a standby that is promoted may lack the latest grants.",
                    "%ld standbys are connected; a commit %s for them.", schema->standbys,
                    schema->has_sync_standbys ? "waits" : "does not wait");
    simba__sql_find(
        findings, !is_by_network(options) || strcmp(sslmode, "verify-full") == 0, SIMBA_VERDICT_WARNING, "tls",
        "Leave sslmode out of the URL, or say verify-full: otherwise another server may pose as this one.",
        "sslmode is %s%s.", sslmode, is_by_network(options) ? "" : "; the server is reached by a socket file");
    simba__sql_find(findings, has_rights, SIMBA_VERDICT_BROKEN, "rights", "Grant these rights to the user.",
                    "This user lacks %s.", has_rights ? "no right that it needs" : schema->lacking);
    simba__sql_find(findings, !schema->is_read_only, SIMBA_VERDICT_BROKEN, "writing",
                    "Name the primary in the URL, or all servers, and leave target_session_attrs out.",
                    "The server is %s.",
                    schema->is_read_only ? "read-only, perhaps a standby" : "one that can be written to");
}
