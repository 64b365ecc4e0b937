/* How the command speaks on standard error: as text, to systemd's journal, as JSON; and what it says, at a terminal, about a
 * mutex that somebody else has and a lease that cannot be renewed. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

/* --- forms ------------------------------------------------------------------------------------------ */

/* What an SQL expression over one line of JSON, ?1, comes to. */
static const char *ask(const char *sql, const char *line, size_t length)
{
    static char answers[8][512];
    static unsigned next;
    char *answer = answers[next++ % 8];
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    sqlite3_bind_text(statement, 1, line, (int)length, SQLITE_STATIC);
    if (sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s of %.*s: %s", sql, (int)length, line, sqlite3_errmsg(db));
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    snprintf(answer, sizeof answers[0], "%s", text ? text : "NULL");
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return answer;
}

/* What it comes to for the first line that has this event. All lines are objects that have what every one of them has. */
static const char *field(const char *lines, const char *event, const char *sql)
{
    const char *found = NULL;
    size_t found_length = 0;
    while (*lines) {
        const size_t length = strcspn(lines, "\n");
        assert_string_equal(ask("SELECT json_valid(?1)", lines, length), "1");
        assert_string_equal(ask("SELECT ?1 ->> 'ts' GLOB '20[0-9][0-9]-[01][0-9]-[0-3][0-9]T*:*:*.[0-9][0-9][0-9]Z' "
                                "AND ?1 ->> 'message' != '' AND "
                                "?1 ->> 'level' IN ('error', 'warning', 'info') AND ?1 ->> 'command' = 'run'",
                                lines, length),
                            "1");
        if (!found && strcmp(ask("SELECT ?1 ->> 'event'", lines, length), event) == 0) {
            found = lines;
            found_length = length;
        }
        lines += length + (lines[length] != '\0');
    }
    if (!found)
        fail_msg("nothing says %s", event);
    return ask(sql, found, found_length);
}

#define FIELD(event, expression) field(lines, event, "SELECT " expression)

/* Objects, one a line, whose fields can be read without taking sentences apart, whatever is in them. */
static void json_lines_are_objects(void **state)
{
    process holder = START("--id", "a \"b\" \\ ö", "--log-format", "json", "-v", "run", "m 1", "--", "sh", "-c",
                           "echo > \"$0\"; cat", in_dir("held"));
    await_file(in_dir("held"));
    assert_int_equal(RUN("--log-format=json", "-v", "--id", "c", "run", "--wait", "50ms", "m 1", "--", "true"), 75);
    assert_int_equal(finish(&holder), 0);

    const char *lines = err_of(&holder);
    assert_string_equal(FIELD("contends", "?1 ->> 'id'"), "a \"b\" \\ ö");
    assert_string_equal(FIELD("acquired", "?1 ->> 'mutex' || json_type(?1, '$.token')"), "m 1text");
    assert_string_equal(FIELD("acquired", "json_type(?1, '$.left_ms')"), "integer");
    assert_string_equal(FIELD("released", "?1 ->> 'reason'"), "stopped");
    assert_non_null(strstr(FIELD("connected", "?1 ->> 'store'"), "?ttl=1s&transition=1s"));
    lines = err_of(&last);
    assert_string_equal(FIELD("waits", "?1 ->> 'owner'"), "a \"b\" \\ ö");
    assert_string_equal(FIELD("waits", "(?1 ->> 'left_ms') BETWEEN 1 AND 2000"), "1");
    assert_string_equal(FIELD("note", "?1 ->> 'level'"), "error"); /* that it was not obtained, and for whom */
    assert_non_null(strstr(FIELD("note", "?1 ->> 'message'"), "owned by a \"b\" \\ ö"));
}

/* A mistake is an object as well. */
static void mistakes_are_objects(void **state)
{
    assert_int_equal(RUN("--log-format", "json", "run", "--wiat", "1s", "m", "--", "true"), 64);
    const char *lines = err_of(&last);
    assert_non_null(strstr(FIELD("note", "?1 ->> 'message'"), "did you mean --wait?"));
    assert_int_equal(RUN("--log-format", "xml", "list"), 64);
    assert_non_null(strstr(err_of(&last), "--log-format is text, journal or json, not \"xml\""));
}

static void be_a_service(void)
{
    struct stat info;
    char stream[64];
    if (fstat(STDERR_FILENO, &info) != 0)
        _exit(98);
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)info.st_dev, (uintmax_t)info.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
}

/* A service whose standard error was redirected since. */
static void be_redirected(void)
{
    setenv("JOURNAL_STREAM", "9:1234567", 1);
}

/* Under systemd each line has its level, so that `journalctl -p` can tell them apart; but not in a file. */
static void journal_lines_have_levels(void **state)
{
    before_simba = be_a_service;
    process holder = START("-v", "run", "m", "--", "sh", "-c", "echo > \"$0\"; exec sleep 1000", in_dir("held"));
    await_file(in_dir("held"));
    assert_int_equal(RUN("--id", "b", "run", "--no-wait", "m", "--", "true"), 75);
    assert_memory_equal(err_of(&last), "<3>simba run: not obtained", 26);
    assert_int_equal(RUN("--log-format", "text", "run", "--no-wait", "m", "--", "true"), 75);
    assert_memory_equal(err_of(&last), "simba run: ", 11);
    before_simba = be_redirected;
    assert_int_equal(RUN("run", "--no-wait", "m", "--", "true"), 75);
    assert_memory_equal(err_of(&last), "simba run: ", 11);
    assert_int_equal(RUN("--log-format", "journal", "release", "--force", "--yes", "m"), 0);
    assert_int_equal(finish(&holder), 79);
    assert_memory_equal(err_of(&holder), "<6>simba run: info: contends; mutex=m id=", 41);
    assert_non_null(strstr(err_of(&holder), "\n<4>simba run: warning: leadership was lost; mutex=m id="));
    assert_non_null(strstr(err_of(&holder), " reason=revoked\n"));
}

/* The configuration file may say it too; the option goes before it. */
static void the_format_is_configured(void **state)
{
    char text[600];
    snprintf(text, sizeof text, "simba.log-format = json\nsimba.sqlite.url = %s\n", getenv("SIMBA_URL"));
    unsetenv("SIMBA_URL");
    write_file(in_dir("simba.conf"), text);
    assert_int_equal(RUN("-v", "--config", in_dir("simba.conf"), "run", "m", "--", "true"), 0);
    const char *lines = err_of(&last);
    assert_string_equal(FIELD("acquired", "?1 ->> 'mutex'"), "m");
    assert_int_equal(RUN("-v", "--log-format", "text", "--config", in_dir("simba.conf"), "run", "m", "--", "true"), 0);
    assert_memory_equal(err_of(&last), "simba run: info: contends; ", 27);
    write_file(in_dir("simba.conf"), "\nsimba.log-format = yaml\n");
    assert_int_equal(RUN("--config", in_dir("simba.conf"), "list"), 78);
    assert_non_null(strstr(err_of(&last), "simba.conf:2: \"yaml\" is none of text, journal and json"));
}

/* --- at a terminal ------------------------------------------------------------------------------------ */

/* With -v the library says for whom it waits, and once is enough. */
static void waiting_is_said_once(void **state)
{
    process holder = START("--id", "holder", "run", "m", "--", "sh", "-c", "echo > \"$0\"; cat", in_dir("held"));
    await_file(in_dir("held"));
    terminal t = START_ON_TERMINAL("-v", "run", "--wait", "1500ms", "m", "--", "true");
    await_shown(&t, "waits for its owner; mutex=m id=");
    assert_int_equal(finish_terminal(&t), 75);
    assert_null(strstr(t.text, "waiting for m"));
    assert_int_equal(finish(&holder), 0);
}

/* How many seconds the terminal says that are left. */
static double seconds_in(const terminal *t, const char *before)
{
    return strtod(strstr(t->text, before) + strlen(before), NULL);
}

/* The store is gone while a command runs: a person is told that the lease cannot be renewed, and when the command will be
 * stopped, and it is stopped then. */
static void an_outage_is_said_at_a_terminal(void **state)
{
    /* A lease of 8 s, of which the command has 3 to end by itself: a busy machine may keep it from the processor for a while. */
    set_lease("1s", "7s");
    terminal run = START_ON_TERMINAL("run", "--grace", "3s", "m", "--", "sh", "-c",
                                     "trap 'echo 1 > \"$1\"; exit 0' TERM; echo > \"$0\"; while :; do sleep 0.01; done",
                                     in_dir("up"), in_dir("stopped"));
    await_file(in_dir("up"));
    const pid_t freezer = start_helper("freeze", in_dir("store.db"), in_dir("frozen"));
    const char words[] = "warning: the lease of m cannot be renewed; the command will be stopped in ";
    await_shown(&run, words);
    const int64_t said_ns = now_ns();
    await_shown(&run, " s unless the store answers.");
    const double seconds = seconds_in(&run, words);
    assert_true(seconds > 0.5 && seconds < 5);
    await_file(in_dir("stopped"));
    const double passed = (double)(now_ns() - said_ns) / 1e9;
    assert_true(passed > seconds - 0.5);
    assert_int_equal(finish_terminal(&run), 79);
    assert_non_null(strstr(run.text, "leadership of m ended (expired); the command was stopped, with SIGTERM."));
    end_process(freezer);
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(json_lines_are_objects),   TEST(mistakes_are_objects), TEST(journal_lines_have_levels),
        TEST(the_format_is_configured), TEST(waiting_is_said_once), TEST(an_outage_is_said_at_a_terminal),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
