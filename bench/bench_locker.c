/* How fast is an uncontended lock and unlock on SQLite, beside a loop of the two UPDATEs that no implementation could do without? */
#include <sqlite3.h>
#include <stdio.h>

#include "bench.h"

#define MUTEX "bench"

/* The table of the library's own store, and the least that takes a mutex in it and gives it back. */
static const char *const raw_schema =
    "CREATE TABLE simba_mutex (mutex TEXT NOT NULL PRIMARY KEY, acquired_at INTEGER NOT NULL, ttl_at INTEGER NOT NULL,"
    " transition_at INTEGER NOT NULL, owner_id TEXT NOT NULL, version INTEGER NOT NULL, token INTEGER NOT NULL,"
    " nonce INTEGER NOT NULL, revoked_token INTEGER NOT NULL, until_boot_ns INTEGER NOT NULL, boot_id TEXT NOT NULL)"
    " WITHOUT ROWID;"
    "INSERT INTO simba_mutex VALUES ('" MUTEX "', 0, 0, 0, '', 0, 0, 0, 0, 0, '')";

static const char *const raw_acquire =
    "UPDATE simba_mutex SET acquired_at = ?3 / 1000, ttl_at = ?3 / 1000 + 10000, transition_at = ?3 / 1000 + 16000,"
    " owner_id = ?1, version = version + 1, token = max(token + 1, ?3), nonce = ?2, until_boot_ns = ?4 + 16000000000,"
    " boot_id = 'd9e9ab2b-8b75-4bb4-b8d2-5f4d2c1b0a9f'"
    " WHERE mutex = '" MUTEX "' AND (owner_id = '' OR until_boot_ns <= ?4)";

static const char *const raw_release =
    "UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', version = version + 1,"
    " nonce = 0, until_boot_ns = 0 WHERE mutex = '" MUTEX "' AND owner_id = ?1 AND nonce = ?2";

typedef struct raw {
    sqlite3 *db;
    sqlite3_stmt *acquire;
    sqlite3_stmt *release;
} raw;

static raw open_raw(const char *path)
{
    raw r = {NULL, NULL, NULL};
    const char *pragma = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL";
    const bool opened = sqlite3_open(path, &r.db) == SQLITE_OK &&
                        sqlite3_exec(r.db, pragma, NULL, NULL, NULL) == SQLITE_OK &&
                        sqlite3_exec(r.db, raw_schema, NULL, NULL, NULL) == SQLITE_OK &&
                        sqlite3_prepare_v2(r.db, raw_acquire, -1, &r.acquire, NULL) == SQLITE_OK &&
                        sqlite3_prepare_v2(r.db, raw_release, -1, &r.release, NULL) == SQLITE_OK;
    if (!opened)
        bench_fail(path, sqlite3_errmsg(r.db));
    return r;
}

static void close_raw(raw *r)
{
    sqlite3_finalize(r->acquire);
    sqlite3_finalize(r->release);
    sqlite3_close(r->db);
}

static void run_update(const raw *r, sqlite3_stmt *update)
{
    const int code = sqlite3_step(update);
    sqlite3_reset(update);
    if (code != SQLITE_DONE || sqlite3_changes(r->db) != 1)
        bench_fail("plain UPDATE", code != SQLITE_DONE ? sqlite3_errmsg(r->db) : "changed no row");
}

static void raw_pair(void *user)
{
    const raw *r = user;
    const int64_t now_ns = bench_now_ns();
    sqlite3_bind_text(r->acquire, 1, "0:1@127.0.0.1", -1, SQLITE_STATIC);
    sqlite3_bind_int64(r->acquire, 2, 4711);
    sqlite3_bind_int64(r->acquire, 3, now_ns / 1000);
    sqlite3_bind_int64(r->acquire, 4, now_ns);
    run_update(r, r->acquire);
    sqlite3_bind_text(r->release, 1, "0:1@127.0.0.1", -1, SQLITE_STATIC);
    sqlite3_bind_int64(r->release, 2, 4711);
    run_update(r, r->release);
}

int main(int argc, char **argv)
{
    char url[700];
    char path[700];
    double per_second[2];
    const bool quick = bench_wants_quick(argc, argv);
    snprintf(url, sizeof url, "sqlite://%s/simba.db?sync=normal", bench_temp_dir());
    snprintf(path, sizeof path, "%s/raw.db", bench_temp_dir());
    bench_locker l = bench_locker_open(url, MUTEX);
    raw r = open_raw(path);
    const bench_side sides[] = {{bench_locker_pair, &l}, {raw_pair, &r}};
    bench_take_turns(sides, 2, quick, per_second);
    close_raw(&r);
    bench_locker_close(&l);
    bench_row("SQLite NORMAL, lock + unlock", per_second[0], "pairs/s");
    bench_row("SQLite NORMAL, two plain UPDATEs", per_second[1], "pairs/s");
    bench_row("SQLite NORMAL, ratio of the two", per_second[0] / per_second[1], "");
    return 0;
}
