/* The SQLite store and a database of the version before: only `simba init` changes it, and only while nobody holds a mutex by it. */
#include "backends/test_sqlite.h"

/* As the version before made it. Its owner "old" holds "held" for so many ms; "once" was held before. */
static void make_old(fixture *f, int64_t left_ms)
{
    char sql[1024];
    char boot_id[40] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%39s", boot_id), 1);
    fclose(file);
    raw_once(
        f,
        "PRAGMA journal_mode = WAL; CREATE TABLE simba_mutex ("
        "mutex TEXT NOT NULL PRIMARY KEY, acquired_at INTEGER NOT NULL DEFAULT 0, ttl_at INTEGER NOT NULL DEFAULT 0,"
        "transition_at INTEGER NOT NULL DEFAULT 0, owner_id TEXT NOT NULL DEFAULT '', version INTEGER NOT NULL DEFAULT "
        "0,"
        "token INTEGER NOT NULL DEFAULT 0, nonce INTEGER NOT NULL DEFAULT 0, revoked_token INTEGER NOT NULL DEFAULT 0,"
        "until_boot_ns INTEGER NOT NULL DEFAULT 0, boot_id TEXT NOT NULL DEFAULT '') WITHOUT ROWID;"
        "CREATE TABLE simba_note (mutex TEXT NOT NULL PRIMARY KEY, note BLOB NOT NULL, note_token INTEGER NOT NULL,"
        "note_number INTEGER NOT NULL, written_at INTEGER NOT NULL) WITHOUT ROWID;"
        "PRAGMA application_id = 1399418210; PRAGMA user_version = 1;"
        "INSERT INTO simba_mutex (mutex, version, token, revoked_token) VALUES ('once', 7, 4000000000000000000, 5);"
        "INSERT INTO simba_note VALUES ('once', x'6b657074', 4, 1, 1)");
    snprintf(sql, sizeof sql, "INSERT INTO simba_mutex VALUES ('held', 1, 1, 1, 'old', 3, 1000, 77, 0, %lld, '%s')",
             (long long)(simba__clock_boot().ns + left_ms * SIMBA__NS_PER_MS), boot_id);
    raw_once(f, sql);
}

static testhost_request prepare(testhost *h)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    testhost_ask(h, &r);
    return r;
}

/* Every request is refused, and says what to do; nothing is changed. */
static void every_request_is_refused(void **state)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE,    SIMBA_OP_RENEW,     SIMBA_OP_RELEASE,
                                   SIMBA_OP_READ,       SIMBA_OP_LIST,      SIMBA_OP_FORCE_RELEASE,
                                   SIMBA_OP_WRITE_NOTE, SIMBA_OP_READ_NOTE, SIMBA_OP_FORGET};
    fixture *f = *state;
    make_old(f, 60000);
    open_store(f, &f->a);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        testhost_request r = testhost_request_of(&f->a, ops[i], ops[i] == SIMBA_OP_LIST ? NULL : "held", "me", 1, 1000);
        assert_int_equal(testhost_ask(&f->a, &r)->status, SIMBA_ESTORE);
        assert_non_null(strstr(r.error.text, f->path));
        assert_non_null(strstr(r.error.text, "older version of simba: run `simba init`"));
    }
    f->a.found_count = 0;
    ask(&f->a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    assert_string_equal(f->a.found[0].what, "schema");
    assert_int_equal(f->a.found[0].verdict, SIMBA_VERDICT_BROKEN);
    assert_string_equal(raw_text(f, "SELECT owner_id FROM simba_mutex WHERE mutex = 'held'"), "old");
    assert_string_equal(raw_text(f, "PRAGMA user_version"), "1");
    testhost_close(&f->a);
}

static fixture *beaten;

static int when_it_begins(unsigned kind, void *user, void *statement, void *text)
{
    fixture *f = beaten;
    if (f && strcmp(sqlite3_sql(statement), "BEGIN IMMEDIATE") == 0) {
        beaten = NULL;
        make_old(f, 60000);
    }
    return 0;
}

static int add_hook(sqlite3 *db, char **message, const void *api)
{
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, when_it_begins, NULL);
}

/* Both versions found no database, and the version before made its own first. */
static void the_version_before_was_faster(void **state)
{
    fixture *f = *state;
    beaten = f;
    sqlite3_auto_extension((void (*)(void))add_hook);
    open_store(f, &f->a);
    sqlite3_reset_auto_extension();
    assert_null(beaten);
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "once", "me", 1, 0);
    assert_int_equal(testhost_ask(&f->a, &r)->status, SIMBA_ESTORE);
    assert_non_null(strstr(r.error.text, "older version of simba: run `simba init`"));
    testhost_close(&f->a);
}

/* While somebody holds a mutex by the old table, it stays: who holds it and for how long is said. */
static void not_while_a_mutex_is_held(void **state)
{
    fixture *f = *state;
    make_old(f, 59500);
    open_store(f, &f->a);
    const testhost_request refused = prepare(&f->a);
    assert_int_equal(refused.request.reply.status, SIMBA_ESTATE);
    assert_non_null(strstr(refused.error.text, "old holds held for another "));
    assert_non_null(strstr(refused.error.text, " s; end all programs"));
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_mutex"), "2");
    assert_string_equal(raw_text(f, "PRAGMA user_version"), "1");
    f->a.now_shift_ns += 60000 * SIMBA__NS_PER_MS;
    assert_int_equal(prepare(&f->a).request.reply.status, 0);
    assert_mine(acquire(&f->a, "held", "me", 1));
    testhost_close(&f->a);
}

/* Tokens go on, and notes stay. Programs of the version before find no table, or a newer version. Clients of this version
 * that are open go on by themselves. */
static void it_is_upgraded(void **state)
{
    fixture *f = *state;
    make_old(f, -1);
    open_store(f, &f->a);
    open_store(f, &f->b);
    testhost_request early = testhost_request_of(&f->b, SIMBA_OP_ACQUIRE, "once", "b", 2, 0);
    assert_int_equal(testhost_ask(&f->b, &early)->status, SIMBA_ESTORE);
    sqlite3 *old = open_raw(f); /* an old program that still runs */
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(old, "UPDATE simba_mutex SET version = version + 1", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(prepare(&f->a).request.reply.status, 0);
    assert_int_equal(sqlite3_step(statement), SQLITE_ERROR);
    assert_non_null(strstr(sqlite3_errmsg(old), "no such table"));
    sqlite3_finalize(statement);
    sqlite3_close(old);

    assert_string_equal(raw_text(f, "PRAGMA user_version"), "2");
    const simba_reply won = acquire(&f->b, "once", "b", 2);
    assert_mine(won);
    assert_true(won.owner.token > UINT64_C(4000000000000000000));
    assert_owned_by(acquire(&f->a, "once", "a", 1), "b");
    assert_string_equal(read_note(&f->a, "once").bytes, "kept");
    assert_string_equal(raw_text(f, "SELECT version || ' ' || revoked_token FROM simba_lock WHERE mutex = 'once'"),
                        "8 5");
    assert_int_equal(f->a.warnings + f->b.warnings, 0);
    assert_int_equal(prepare(&f->a).request.reply.status, 0); /* once more does no harm */
    assert_owned_by(acquire(&f->a, "once", "a", 1), "b");
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* A database from before there were notes. */
static void one_without_notes(void **state)
{
    fixture *f = *state;
    make_old(f, -1);
    raw_once(f, "DROP TABLE simba_note");
    open_store(f, &f->a);
    assert_int_equal(prepare(&f->a).request.reply.status, 0);
    const uint64_t token = acquire(&f->a, "once", "a", 1).owner.token;
    assert_mine(write_note(&f->a, "once", "a", 1, token, 1, "new"));
    assert_string_equal(read_note(&f->a, "once").bytes, "new");
    testhost_close(&f->a);
}

/* A lease of an earlier boot keeps nobody waiting. */
static void leases_of_another_boot(void **state)
{
    fixture *f = *state;
    make_old(f, 60000);
    raw_once(f, "UPDATE simba_mutex SET boot_id = '00000000-0000-0000-0000-000000000000'");
    open_store(f, &f->a);
    assert_int_equal(prepare(&f->a).request.reply.status, 0);
    assert_mine(acquire(&f->a, "held", "me", 1));
    testhost_close(&f->a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_request_is_refused),  TEST(the_version_before_was_faster),
        TEST(not_while_a_mutex_is_held), TEST(it_is_upgraded),
        TEST(one_without_notes),         TEST(leases_of_another_boot),
    };
    return cmocka_run_group_tests_name("sqlite upgrade", tests, NULL, NULL);
}
