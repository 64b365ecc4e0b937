/* How fast is an uncontended lock and unlock, and how much of that is the store's own cost? On memory:// there is no
 * store to speak of, so that is the library alone. On SQLite the library is compared with a loop of the two UPDATEs
 * that no implementation could do without. The two take turns within one run, because the speed of a machine varies. */
#include <sqlite3.h>
#include <stdio.h>

#include "bench.h"

#define MUTEX "bench"
#define PAIRS 64         /* of one round: so short that both sides meet the same conditions */
#define ROUNDS_MAX 20000 /* of one side */

static int64_t stretch_ns = INT64_C(5000000000); /* how long to measure one thing */

/* Does one lock and unlock, or exits. */
typedef void (*pair_fn)(void *user);

/* The durations of the rounds of one side. */
typedef struct side {
    pair_fn pair;
    void *user;
    size_t count;
    int64_t rounds_ns[ROUNDS_MAX];
} side;

static void run_round(side *s)
{
    const int64_t start_ns = bench_now_ns();
    for (int i = 0; i < PAIRS; i++)
        s->pair(s->user);
    s->rounds_ns[s->count++] = bench_now_ns() - start_ns;
}

/* Pairs per second in the round at the fastest tenth: the speed of the machine when it is left alone, but no single
 * lucky round. */
static double quiet_rate(side *s)
{
    bench_sort(s->rounds_ns, s->count);
    const size_t tenth = s->count / 10;
    return PAIRS * 1e9 / (double)s->rounds_ns[tenth];
}

/* Run the two in turns, round by round, until the time is over. `other` may be NULL. */
static void take_turns(side *one, side *other)
{
    const int64_t until_ns = bench_now_ns() + stretch_ns;
    do {
        run_round(one);
        if (other != NULL)
            run_round(other);
    } while (bench_now_ns() < until_ns && one->count < ROUNDS_MAX);
}

/* --- simba -------------------------------------------------------------------------------------- */

typedef struct locked {
    simba_client *client;
    simba_locker *locker;
} locked;

static locked open_locker(const char *url)
{
    locked l = {NULL, NULL};
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &l.client), url, &error);
    bench_check(simba_locker_new(l.client, MUTEX, NULL, &error, &l.locker), "locker", &error);
    return l;
}

static void close_locker(locked *l)
{
    simba_locker_free(l->locker);
    simba_client_close(l->client);
}

static void simba_pair(void *user)
{
    const locked *l = user;
    simba_error error;
    bench_check(simba_locker_acquire(l->locker, 5000, &error), "acquire", &error);
    bench_check(simba_locker_release(l->locker, &error), "release", &error);
}

/* --- plain SQLite ------------------------------------------------------------------------------- */

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

static raw open_raw(const char *path, const char *sync)
{
    raw r = {NULL, NULL, NULL};
    char pragma[96];
    snprintf(pragma, sizeof pragma, "PRAGMA journal_mode = WAL; PRAGMA synchronous = %s", sync);
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

/* --- the measurements --------------------------------------------------------------------------- */

static void measure_memory(void)
{
    static side simba = {.pair = simba_pair};
    locked l = open_locker("memory://bench");
    simba.user = &l;
    take_turns(&simba, NULL);
    close_locker(&l);
    bench_add("memory, lock + unlock", quiet_rate(&simba), 0, "pairs/s", BENCH_AT_LEAST, 100000);
}

static void measure_sqlite(const char *sync, const char *pragma, double goal)
{
    static side simba;
    static side plain;
    char url[700];
    char path[700];
    char what[64];
    snprintf(url, sizeof url, "sqlite://%s/simba-%s.db?sync=%s", bench_temp_dir(), sync, sync);
    snprintf(path, sizeof path, "%s/raw-%s.db", bench_temp_dir(), sync);
    locked l = open_locker(url);
    raw r = open_raw(path, pragma);
    simba = (side){.pair = simba_pair, .user = &l};
    plain = (side){.pair = raw_pair, .user = &r};
    take_turns(&simba, &plain);
    close_raw(&r);
    close_locker(&l);

    const double simba_rate = quiet_rate(&simba);
    const double plain_rate = quiet_rate(&plain);
    snprintf(what, sizeof what, "SQLite %s, two plain UPDATEs", pragma);
    bench_add(what, plain_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    snprintf(what, sizeof what, "SQLite %s, lock + unlock", pragma);
    bench_add(what, simba_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    snprintf(what, sizeof what, "SQLite %s, ratio of the two", pragma);
    bench_add(what, simba_rate / plain_rate, 2, "", BENCH_AT_LEAST, goal);
}

int main(int argc, char **argv)
{
    if (bench_wants_quick(argc, argv))
        stretch_ns /= 5;
    measure_memory();
    measure_sqlite("normal", "NORMAL", 0.80);
    measure_sqlite("full", "FULL", 0.85);
    return bench_print("Uncontended locker, one thread, the quietest tenth of many short rounds");
}
