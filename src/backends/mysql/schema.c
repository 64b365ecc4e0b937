/* See schema.h. */
#include "backends/mysql/schema.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A column of ours may be missing, a shared one must not. */
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
    OURS = 9, /* without the columns of notes */
    ALL_SHARED = (1 << SHARED) - 1,
    ALL_OURS = (1 << OURS) - 1,
    ALL = (1 << COLUMNS) - 1
};

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

/* --- looking ---------------------------------------------------------------------------------------- */

static void take_text(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s", text ? text : "");
}

static void take_table(MYSQL_ROW row, simba__my_schema *schema)
{
    schema->exists = row[0] != NULL;
    take_text(row[0], schema->engine, sizeof schema->engine);
    schema->is_transactional = strcasecmp(schema->engine, "InnoDB") == 0 || strcasecmp(schema->engine, "ROCKSDB") == 0;
    schema->max_packet = row[1] ? strtoull(row[1], NULL, 10) : 0;
    take_text(row[2], schema->server, sizeof schema->server);
    schema->durability = row[3] ? (int)strtol(row[3], NULL, 10) : 1;
    schema->read_only = row[4] && strcmp(row[4], "0") != 0 && strcmp(row[4], "OFF") != 0;
}

static bool ends_in(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Which of our columns it is, as a bit. */
static unsigned take_column(MYSQL_ROW row, simba__my_schema *schema)
{
    if (!row[0] || !row[1] || !row[2] || !row[3])
        return 0; /* no server says so */
    const unsigned characters = (unsigned)strtoul(row[1], NULL, 10);
    for (unsigned i = 0; i < COLUMNS; i++) {
        if (strcasecmp(row[0], columns[i].name) != 0)
            continue;
        if (strcmp(columns[i].name, "mutex") == 0) {
            schema->mutex_chars = characters;
            take_text(row[2], schema->collation, sizeof schema->collation);
            /* A column of bytes has no collation. */
            schema->is_exact = row[2][0] == '\0' || ends_in(row[2], "_bin");
        } else if (strcmp(columns[i].name, "owner_id") == 0) {
            schema->id_chars = characters;
        } else if (strcmp(columns[i].name, "version") == 0) {
            schema->version_max = strcasecmp(row[3], "bigint") == 0 ? INT64_MAX : UINT32_MAX;
        }
        return 1U << i;
    }
    return 0;
}

static int query(simba__my_conn *conn, const char *format, unsigned width, MYSQL_RES **ret_result,
                 simba__sql_failure *why)
{
    char sql[512];
    snprintf(sql, sizeof sql, format, conn->options->table); // NOLINT(clang-diagnostic-format-nonliteral)
    return simba__my_conn_query(conn, sql, width, ret_result, why);
}

/* Also which columns there are, as bits. */
static int look(simba__my_conn *conn, simba__my_schema *ret_schema, unsigned *ret_columns, simba__sql_failure *why)
{
    simba__my_schema schema = {0};
    unsigned found = 0;
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int rc = query(conn, table_sql, TABLE_WIDTH, &result, why);
    if (rc < 0)
        return rc;
    row = mysql_fetch_row(result);
    if (row)
        take_table(row, &schema);
    mysql_free_result(result);
    rc = query(conn, columns_sql, COLUMNS_WIDTH, &result, why);
    if (rc < 0)
        return rc;
    while ((row = mysql_fetch_row(result)) != NULL)
        found |= take_column(row, &schema);
    mysql_free_result(result);
    schema.is_complete = (found & ALL_SHARED) == ALL_SHARED;
    schema.layout = found == ALL ? SIMBA__MY_NOTES : (found & ALL_OURS) == ALL_OURS ? SIMBA__MY_OURS : SIMBA__MY_BARE;
    *ret_schema = schema;
    *ret_columns = found;
    return 0;
}

int simba__my_schema_look(simba__my_conn *conn, simba__my_schema *ret_schema, simba__sql_failure *why)
{
    unsigned found;
    return look(conn, ret_schema, &found, why);
}

int simba__my_schema_check(const simba__my_schema *schema, const simba__my_options *options, simba__sql_failure *why)
{
    const char *table = options->table;
    const char *database = options->database;
    if (!schema->exists)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "mysql %s: there is no table %s in %s; run `simba init`, or put create=yes into the URL",
                               options->where, table, database);
    if (!schema->is_complete)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ECORRUPT,
                               "mysql %s: the table %s in %s is not ours, or this user may not see its columns; "
                               "table=NAME in the URL names another one",
                               options->where, table, database);
    if (!schema->is_transactional)
        return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ESTORE,
                               "mysql %s: %s is a table of the engine %s, which has no transactions; "
                               "`alter table %s engine = InnoDB` would help",
                               options->where, table, schema->engine, table);
    return 0;
}

/* The statements that simba uses, but for no row. */
static const struct {
    const char *sql;
    unsigned width;
} rights[] = {
    {"select mutex from `%s` where false for update", 1},
    {"insert into `%s` (mutex, acquired_at, ttl_at, transition_at, owner_id, version) "
     "select '', 0, 0, 0, '', 0 from dual where false",
     0},
    {"update `%s` set version = version where false", 0},
};

int simba__my_schema_check_rights(simba__my_conn *conn, simba__sql_failure *why)
{
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        char sql[512];
        MYSQL_RES *result = NULL;
        snprintf(sql, sizeof sql, rights[i].sql, conn->options->table); // NOLINT(clang-diagnostic-format-nonliteral)
        const int rc = rights[i].width > 0 ? simba__my_conn_query(conn, sql, rights[i].width, &result, why)
                                           : simba__my_conn_say(conn, sql, why);
        if (rc < 0)
            return rc;
        mysql_free_result(result);
    }
    return 0;
}

/* --- making ----------------------------------------------------------------------------------------- */

/* The missing columns of ours, each after this text. */
static void write_columns(unsigned found, const char *before, char *out, size_t size)
{
    int length = 0;
    for (unsigned i = SHARED; i < COLUMNS; i++)
        if (!(found & 1U << i))
            length +=
                snprintf(out + length, size - (size_t)length, "%s%s %s", before, columns[i].name, columns[i].type);
}

static int create(simba__my_conn *conn, simba__sql_failure *why)
{
    char sql[1024], ours[512];
    write_columns(0, ",", ours, sizeof ours);
    snprintf(sql, sizeof sql, create_sql, conn->options->table, ours);
    return simba__my_conn_say(conn, sql, why);
}

static int add_columns(simba__my_conn *conn, unsigned found, simba__sql_failure *why)
{
    char sql[1024], ours[512];
    write_columns(found, ", add column ", ours, sizeof ours);
    snprintf(sql, sizeof sql, "alter table `%s` %s", conn->options->table, ours + 2);
    const int rc = simba__my_conn_say(conn, sql, why);
    return rc < 0 && mysql_errno(conn->mysql) == ER_DUP_FIELDNAME ? 0 : rc; /* another process was faster */
}

int simba__my_schema_prepare(simba__my_conn *conn, simba__my_schema *ret_schema, simba__sql_failure *why)
{
    unsigned found = 0;
    int rc = look(conn, ret_schema, &found, why);
    if (rc < 0 || (ret_schema->exists && (!ret_schema->is_complete || ret_schema->layout == SIMBA__MY_NOTES)))
        return rc;
    rc = ret_schema->exists ? add_columns(conn, found, why) : create(conn, why);
    return rc < 0 ? rc : look(conn, ret_schema, &found, why);
}

/* --- what to say about it ----------------------------------------------------------------------------- */

static void examine_table(const simba__my_schema *schema, const char *table, simba__sql_item *item)
{
    static const char *const layouts[SIMBA__MY_LAYOUTS] = {"lacks the column nonce", "has no room for notes",
                                                           "is that of this version"};
    simba__sql_item_tell(item, schema->layout == SIMBA__MY_NOTES, SIMBA_VERDICT_WARNING, "schema",
                         schema->layout == SIMBA__MY_BARE
                             ? "Run `simba init`. Without it a lost answer to an acquire costs the rest of that lease."
                             : "Run `simba init`, which adds the columns.",
                         "The table %s %s.", table, layouts[schema->layout]);
    simba__sql_item_tell(item, schema->is_exact, SIMBA_VERDICT_WARNING, "names",
                         "Names that it takes for the same are refused. Make the column mutex utf8mb4_bin.",
                         schema->is_exact ? "Names are compared exactly (%s)." : "Names are compared by %s.",
                         schema->collation[0] ? schema->collation : "binary");
    simba__sql_item_tell(item, schema->id_chars >= SIMBA_ID_MAX, SIMBA_VERDICT_WARNING, "ids",
                         "Longer ones are refused. Make the column owner_id varchar(128).",
                         "Ids may have %u characters.", schema->id_chars);
    simba__sql_item_tell(item, schema->durability == 1, SIMBA_VERDICT_WARNING, "durability",
                         "Set it to 1: a crash of the server may undo grants of the last second.",
                         "innodb_flush_log_at_trx_commit is %d, server version %s.", schema->durability,
                         schema->server);
}

void simba__my_schema_examine(simba__my_conn *conn, const simba__my_schema *schema, simba__sql_item *item)
{
    simba__sql_failure why;
    if (simba__my_schema_check(schema, conn->options, &why) < 0) {
        simba__sql_item_tell(item, false, SIMBA_VERDICT_BROKEN, "schema", schema->exists ? NULL : "Run `simba init`.",
                             "%s", why.error.text);
        return;
    }
    examine_table(schema, conn->options->table, item);
    if (schema->read_only)
        simba__sql_item_tell(item, false, SIMBA_VERDICT_BROKEN, "writing", "Name the primary in the URL.",
                             "The server is read-only, perhaps a replica.");
    else if (simba__my_schema_check_rights(conn, &why) < 0)
        simba__sql_item_tell(item, false, SIMBA_VERDICT_BROKEN, "rights",
                             "Grant this user select, insert and update on the table.", "%s", why.error.text);
}
