/* The table: what it is like, how it is made, and what to say about it. One statement after another, as the connection asks for them.
 *
 * stores/sql/row.h explains the columns. The first six are those of Simba on the JVM. The others are simba's, nullable and not named by
 * any statement of the JVM's, so that both can share the table. `simba init` adds what is missing. */
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/mysql/mysql.h"

static const struct {
    const char *name;
    const char *type; /* NULL: shared */
} columns[] = {
    {"mutex", NULL},
    {"acquired_at", NULL},
    {"ttl_at", NULL},
    {"transition_at", NULL},
    {"owner_id", NULL},
    {"version", NULL},
    {"nonce", "bigint unsigned null"},
    {"nonce_version", "bigint unsigned null"},
    {"revoked_version", "bigint unsigned null"},
    {"note", "varbinary(1024) null"},
    {"note_token", "bigint unsigned null"},
    {"note_number", "bigint unsigned null"},
    {"note_written_at", "bigint unsigned null"},
    {"forgotten_version", "bigint unsigned null"},
};
_Static_assert(SIMBA_NOTE_MAX == 1024, "the column note has room for a note");
enum {
    COLUMNS = sizeof columns / sizeof *columns,
    SHARED = 6,
    ALL_SHARED = (1 << SHARED) - 1,
    ALL = (1 << COLUMNS) - 1,
    PACKET_OF_ROW = 8192, /* the most that a request takes in a packet is half of this */
};

/* A frozen transaction ends after a second, with its row locks: on MariaDB by this setting, on MySQL by wait_timeout, which packet 1
 * sets. In repeatable read, because read committed fails under binlog_format=STATEMENT. */
static const char settings_sql[] =
    "set sql_mode = 'STRICT_ALL_TABLES', autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = 1, "
    "lock_wait_timeout = 1, sql_select_limit = 18446744073709551615"
    "/*M!100300 , idle_transaction_timeout = 1 */";
static const char isolation_sql[] = "set session transaction isolation level repeatable read";

static const char create_sql[] = "create table if not exists `%s` ("
                                 "mutex varchar(66) not null primary key,"
                                 "acquired_at bigint unsigned not null,"
                                 "ttl_at bigint unsigned not null,"
                                 "transition_at bigint unsigned not null,"
                                 "owner_id varchar(128) not null,"
                                 "version int unsigned not null%s"
                                 ") engine = InnoDB default character set utf8mb4 collate utf8mb4_bin";

/* Two queries, because the server answers a join of them slowly. */
static const char table_sql[] = "select (select engine from information_schema.tables "
                                "where table_schema = database() and table_name = '%s'), "
                                "@@max_allowed_packet, version(), @@innodb_flush_log_at_trx_commit, @@read_only";
static const char columns_sql[] = "select column_name, coalesce(character_maximum_length, 0), "
                                  "coalesce(collation_name, ''), data_type from information_schema.columns "
                                  "where table_schema = database() and table_name = '%s'";
enum { TABLE_WIDTH = 5, COLUMNS_WIDTH = 4 }; /* how many columns their results have */

/* The statements that simba uses, but for no row. */
static const char *const rights_sql[] = {
    "select mutex from `%s` where false for update",
    ("insert into `%s` (mutex, acquired_at, ttl_at, transition_at, owner_id, version) "
     "select '', 0, 0, 0, '', 0 from dual where false"),
    "update `%s` set version = version where false",
};

/* --- looking ---------------------------------------------------------------------------------------- */

static void take_text(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s", text ? text : "");
}

static void take_table(simba__my_schema *schema, const simba__sql_cell *cells)
{
    schema->exists = cells[0].text != NULL;
    take_text(cells[0].text, schema->engine, sizeof schema->engine);
    schema->max_packet = cells[1].text ? strtoull(cells[1].text, NULL, 10) : 0;
    take_text(cells[2].text, schema->server, sizeof schema->server);
    schema->durability = cells[3].text ? (int)strtol(cells[3].text, NULL, 10) : 1;
    schema->read_only = cells[4].text && strcmp(cells[4].text, "0") != 0 && strcmp(cells[4].text, "OFF") != 0;
}

static void take_column(simba__my_schema *schema, const simba__sql_cell *cells)
{
    if (!cells[0].text || !cells[1].text || !cells[2].text || !cells[3].text)
        return; /* no server says so */
    const unsigned characters = (unsigned)strtoul(cells[1].text, NULL, 10);
    for (unsigned i = 0; i < COLUMNS; i++) {
        if (strcasecmp(cells[0].text, columns[i].name) != 0)
            continue;
        schema->columns |= 1U << i;
        if (i == SIMBA__SQL_MUTEX) {
            schema->mutex_chars = characters;
            take_text(cells[2].text, schema->mutex_collation, sizeof schema->mutex_collation);
        } else if (i == SIMBA__SQL_OWNER_ID) {
            schema->id_chars = characters;
            take_text(cells[2].text, schema->id_collation, sizeof schema->id_collation);
        } else if (i == SIMBA__SQL_VERSION) {
            take_text(cells[3].text, schema->version_type, sizeof schema->version_type);
        }
    }
}

void simba__my_learn(void *any, const simba__sql_cell *cells, unsigned count)
{
    simba__my_conn *conn = any;
    if (conn->schema.step == SIMBA__MY_TABLE && count == TABLE_WIDTH)
        take_table(&conn->schema, cells);
    else if (conn->schema.step == SIMBA__MY_COLUMNS && count == COLUMNS_WIDTH)
        take_column(&conn->schema, cells);
}

/* --- may it be used? ---------------------------------------------------------------------------------- */

/* A column of bytes has no collation. */
static bool is_exact(const char *collation)
{
    const size_t length = strlen(collation);
    return length == 0 || (length >= 4 && strcmp(collation + length - 4, "_bin") == 0);
}

static bool is_ascii(const char *collation)
{
    return collation[0] != '\0' && strncmp(collation, "utf8mb4", 7) != 0;
}

static bool is_mariadb(const simba__my_schema *schema)
{
    return strcasestr(schema->server, "mariadb") != NULL;
}

/* SKIP LOCKED. */
static bool is_recent(const simba__my_schema *schema)
{
    unsigned long numbers[3] = {0};
    char *at = (char *)schema->server;
    for (size_t i = 0; i < 3; i++) {
        numbers[i] = strtoul(at, &at, 10);
        at += *at == '.';
    }
    const unsigned long version = numbers[0] * 1000000 + numbers[1] * 1000 + numbers[2];
    return version >= (is_mariadb(schema) ? 10006000UL : 8000001UL);
}

static int check(const simba__my_conn *conn, simba__sql_failure *why)
{
    const simba__my_schema *schema = &conn->schema;
    const char *table = conn->options->table, *database = conn->options->database, *where = conn->options->where;
    const bool is_transactional =
        strcasecmp(schema->engine, "InnoDB") == 0 || strcasecmp(schema->engine, "ROCKSDB") == 0;
    if (!is_recent(schema))
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "mysql %s: the server is %s; simba needs MySQL 8.0.1 or MariaDB 10.6", where,
                               schema->server);
    if (!schema->exists)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "mysql %s: there is no table %s in %s; run `simba init`, or put create=yes into the URL",
                               where, table, database);
    if ((schema->columns & ALL_SHARED) != ALL_SHARED)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ECORRUPT,
                               "mysql %s: the table %s in %s is not simba's, or this user may not see its columns; "
                               "table=NAME in the URL names another one",
                               where, table, database);
    if (!is_transactional)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "mysql %s: %s is a table of the engine %s, which has no transactions; "
                               "`alter table %s engine = InnoDB` would help",
                               where, table, schema->engine, table);
    for (unsigned i = SHARED; i < COLUMNS; i++)
        if (!(schema->columns & 1U << i))
            return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                                   "mysql %s: the table %s in %s lacks the column %s; run `simba init`", where, table,
                                   database, columns[i].name);
    return 0;
}

int simba__my_check(void *any, simba__sql_table *ret_table, simba__sql_failure *why)
{
    simba__my_conn *conn = any;
    const simba__my_schema *schema = &conn->schema;
    const uint64_t rows = schema->max_packet / PACKET_OF_ROW;
    *ret_table =
        (simba__sql_table){.mutex_chars = schema->mutex_chars,
                           .id_chars = schema->id_chars,
                           .mutex_is_ascii = is_ascii(schema->mutex_collation),
                           .id_is_ascii = is_ascii(schema->id_collation),
                           .is_exact = is_exact(schema->mutex_collation),
                           .make_exact = "make it utf8mb4_bin",
                           .version_max = strcasecmp(schema->version_type, "bigint") == 0 ? INT64_MAX : UINT32_MAX,
                           .rows_max = rows < 1                     ? 1
                                       : rows < SIMBA__SQL_ROWS_MAX ? (size_t)rows
                                                                    : SIMBA__SQL_ROWS_MAX};
    if (!is_mariadb(schema)) {
        conn->words.begin = "set wait_timeout = 1; start transaction";
        conn->words.write = conn->words.write_waiters = "set wait_timeout = @@global.wait_timeout; ";
    } else {
        conn->words.begin = "start transaction";
        conn->words.write = conn->words.write_waiters = "";
    }
    return check(conn, why);
}

/* --- one statement after another ---------------------------------------------------------------------- */

/* The missing columns of simba's, each after this text. */
static void write_columns(unsigned found, const char *before, char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (unsigned i = SHARED; i < COLUMNS; i++)
        if (!(found & 1U << i))
            length +=
                (size_t)snprintf(out + length, size - length, "%s%s %s", before, columns[i].name, columns[i].type);
}

static void write_make(simba__my_schema *schema, const char *table)
{
    char simbas[512];
    write_columns(schema->exists ? schema->columns : 0, schema->exists ? ", add column " : ",", simbas, sizeof simbas);
    if (schema->exists)
        snprintf(schema->text, sizeof schema->text, "alter table `%s` %s", table, simbas + 2);
    else
        snprintf(schema->text, sizeof schema->text, create_sql, table, simbas);
}

/* Another process was faster; or the table can be used although this user may not add the columns that it lacks: `check` tells. */
static bool is_no_failure(const simba__my_conn *conn, simba__sql_purpose purpose, const simba__sql_failure *why)
{
    if (conn->schema.step != SIMBA__MY_MAKE)
        return false;
    return mysql_errno(conn->mysql) == ER_DUP_FIELDNAME ||
           (purpose == SIMBA__SQL_TO_OPEN && conn->schema.exists && why->error.code == SIMBA_EPERM);
}

static bool is_to_be_made(const simba__my_conn *conn, simba__sql_purpose purpose)
{
    const simba__my_schema *schema = &conn->schema;
    const bool may = purpose == SIMBA__SQL_TO_PREPARE || (purpose == SIMBA__SQL_TO_OPEN && conn->options->create);
    const bool is_whole = schema->exists && schema->columns == ALL;
    const bool is_foreign = schema->exists && (schema->columns & ALL_SHARED) != ALL_SHARED;
    return may && !schema->has_made && !is_whole && !is_foreign && is_recent(schema);
}

static simba__my_step next_step(simba__my_conn *conn, simba__sql_purpose purpose)
{
    simba__sql_failure why;
    switch (conn->schema.step) {
    case SIMBA__MY_COLUMNS:
        if (is_to_be_made(conn, purpose))
            return SIMBA__MY_MAKE;
        return purpose == SIMBA__SQL_TO_OPEN || check(conn, &why) < 0 ||
                       (purpose == SIMBA__SQL_TO_EXAMINE && conn->schema.read_only)
                   ? SIMBA__MY_LOOKED
                   : SIMBA__MY_RIGHTS;
    case SIMBA__MY_MAKE:
        conn->schema.has_made = true;
        return SIMBA__MY_TABLE;
    default:
        return conn->schema.step + 1;
    }
}

const char *simba__my_look(void *any, simba__sql_purpose purpose, bool begins, simba__sql_failure *why)
{
    simba__my_conn *conn = any;
    simba__my_schema *schema = &conn->schema;
    const char *table = conn->options->table;
    if (begins) {
        *schema = (simba__my_schema){.step = purpose == SIMBA__SQL_TO_OPEN ? SIMBA__MY_SETTINGS : SIMBA__MY_TABLE};
    } else if (why->error.code < 0 && schema->step >= SIMBA__MY_RIGHTS && purpose == SIMBA__SQL_TO_EXAMINE) {
        schema->rights = *why;
        schema->step = SIMBA__MY_LOOKED;
    } else if (why->error.code < 0 && !is_no_failure(conn, purpose, why)) {
        return NULL;
    } else {
        schema->step = next_step(conn, purpose);
    }
    why->error.code = 0;
    switch (schema->step) {
    case SIMBA__MY_SETTINGS:
        return settings_sql;
    case SIMBA__MY_ISOLATION:
        return isolation_sql;
    case SIMBA__MY_TABLE:
        snprintf(schema->text, sizeof schema->text, table_sql, table);
        return schema->text;
    case SIMBA__MY_COLUMNS:
        schema->columns = 0;
        snprintf(schema->text, sizeof schema->text, columns_sql, table);
        return schema->text;
    case SIMBA__MY_MAKE:
        write_make(schema, table);
        return schema->text;
    case SIMBA__MY_LOOKED:
        if (purpose == SIMBA__SQL_TO_PREPARE)
            (void)check(conn, why);
        return NULL;
    default:
        // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral)
        snprintf(schema->text, sizeof schema->text, rights_sql[schema->step - SIMBA__MY_RIGHTS], table);
        return schema->text;
    }
}

/* --- what to say about it ----------------------------------------------------------------------------- */

void simba__my_examine(void *any, simba__sql_findings *findings)
{
    const simba__my_conn *conn = any;
    const simba__my_schema *schema = &conn->schema;
    const bool exact = is_exact(schema->mutex_collation);
    simba__sql_failure why = {0};
    if (check(conn, &why) < 0) {
        simba__sql_find(findings, false, SIMBA_VERDICT_BROKEN, "schema",
                        strstr(why.error.text, "simba init") ? "Run `simba init`." : NULL, "%s", why.error.text);
        return;
    }
    simba__sql_find(findings, true, SIMBA_VERDICT_OK, "schema", NULL, "The table %s is that of this version.",
                    conn->options->table);
    simba__sql_find(findings, exact, SIMBA_VERDICT_WARNING, "names",
                    "Names that it takes for the same are refused. Make the column mutex utf8mb4_bin.",
                    exact ? "Names are compared exactly (%s)." : "Names are compared by %s.",
                    schema->mutex_collation[0] ? schema->mutex_collation : "binary");
    simba__sql_find(findings, schema->id_chars >= SIMBA_ID_MAX, SIMBA_VERDICT_WARNING, "ids",
                    "Longer ones are refused. Make the column owner_id varchar(128).", "Ids may have %u characters.",
                    schema->id_chars);
    simba__sql_find(findings, schema->durability == 1, SIMBA_VERDICT_WARNING, "durability",
                    "Set it to 1: a crash of the server may undo grants of the last second.",
                    "innodb_flush_log_at_trx_commit is %d, server version %s.", schema->durability, schema->server);
    if (schema->read_only)
        simba__sql_find(findings, false, SIMBA_VERDICT_BROKEN, "writing", "Name the primary in the URL.",
                        "The server is read-only, perhaps a replica.");
    else if (schema->rights.error.code < 0)
        simba__sql_find(findings, false, SIMBA_VERDICT_BROKEN, "rights",
                        "Grant this user select, insert and update on the table.", "%s", schema->rights.error.text);
}
