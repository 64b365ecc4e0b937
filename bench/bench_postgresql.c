/* What does the library cost on top of PostgreSQL? A lock and unlock is compared with the same two packets of statements in a blocking loop, and with the
 * least that takes a row and gives it back: an UPDATE and an UPDATE. The server's own count of statements says what ten thousand held
 * mutexes cost it. The benchmark starts the server, with its default settings except for the folder, and ends it. */
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { HELD = 10000 };

static int port;
static char url[160];
static pid_t server;

/* --- the server ------------------------------------------------------------------------------------------- */

static PGconn *connect_raw(void)
{
    char info[128];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=postgres", port);
    for (int i = 0; i < 3000; i++) {
        PGconn *pg = PQconnectdb(info);
        if (PQstatus(pg) == CONNECTION_OK)
            return pg;
        PQfinish(pg);
        bench_sleep_ms(10);
    }
    bench_fail("postgres", "takes no connections");
}

static void stop_server(void)
{
    kill(server, SIGQUIT);
    waitpid(server, NULL, 0);
}

static void become_nobody(void)
{
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    if (nobody && (setgroups(0, NULL) != 0 || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void start_server(void)
{
    char command[512], path[256], data[256], port_text[12];
    const char *dir = bench_temp_dir();
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    glob_t found;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0)
        bench_fail("postgres", "is not installed");
    const char *bin = found.gl_pathv[found.gl_pathc - 1];
    port = 20000 + getpid() % 20000;
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable&create=yes", port);
    if (nobody && chown(dir, nobody->pw_uid, nobody->pw_gid) != 0)
        bench_fail("folder", dir);
    server = fork();
    if (server == 0) {
        become_nobody();
        snprintf(command, sizeof command,
                 "%s/initdb -D %s/data -A trust -U postgres --no-locale -E UTF8 >/dev/null 2>&1", bin, dir);
        if (system(command) != 0 || !freopen("/dev/null", "w", stderr)) // NOLINT(cert-env33-c)
            _exit(126);
        snprintf(path, sizeof path, "%s/postgres", bin);
        snprintf(data, sizeof data, "%s/data", dir);
        snprintf(port_text, sizeof port_text, "%d", port);
        execl(path, "postgres", "-D", data, "-p", port_text, "-c", "listen_addresses=127.0.0.1", "-c",
              "unix_socket_directories=", "-c", "shared_preload_libraries=pg_stat_statements", (char *)NULL);
        _exit(127);
    }
    globfree(&found);
}

/* --- the same statements by hand --------------------------------------------------------------------------- */

static double ask(PGconn *pg, const char *sql, int count, const char *const *values)
{
    PGresult *result = PQexecParams(pg, sql, count, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        bench_fail(sql, PQerrorMessage(pg));
    const double value = PQntuples(result) > 0 && PQnfields(result) > 0 ? strtod(PQgetvalue(result, 0, 0), NULL) : 0;
    PQclear(result);
    return value;
}

#define NOW "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
#define LOCK                                                                                                           \
    "begin isolation level read committed; set local lock_timeout = '1s'; select mutex, acquired_at, ttl_at, "         \
    "transition_at, "                                                                                                  \
    "owner_id, version, nonce, nonce_version, revoked_version, note_token, note_number, forgotten_version from "       \
    "\"simba_mutex\" where mutex in (E'plain') order by mutex for update skip locked; "
#define LAST                                                                                                           \
    "select " NOW                                                                                                      \
    ", set_config('idle_in_transaction_session_timeout', '500ms', true), set_config('synchronous_commit', "            \
    "case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, true)"

/* A lock of one thread enters the queue if it has to wait, so its acquire reads the waiters too. */
static const char lock_text[] =
    LOCK "select mutex, nonce, channel, since, until, invited from \"simba_mutex_waiters\" where "
         "mutex in (E'plain'); " LAST;
static const char put_text[] =
    "insert into \"simba_mutex\" (mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, "
    "revoked_version) values (E'plain', %lld, %lld, %lld, E'%s', %lld, %d, %lld, 0) on conflict (mutex) do update set "
    "acquired_at = excluded.acquired_at, ttl_at = excluded.ttl_at, transition_at = excluded.transition_at, owner_id = "
    "excluded.owner_id, version = excluded.version, nonce = excluded.nonce, nonce_version = excluded.nonce_version, "
    "revoked_version = excluded.revoked_version; commit";

/* Several statements; the version in the first result with rows, and the time in the last. */
static void say(PGconn *pg, const char *sql, long long *ret_version, long long *ret_now)
{
    PGresult *result;
    if (!PQsendQuery(pg, sql))
        bench_fail(sql, PQerrorMessage(pg));
    while ((result = PQgetResult(pg))) {
        if (PQresultStatus(result) == PGRES_FATAL_ERROR)
            bench_fail(sql, PQerrorMessage(pg));
        if (ret_version && PQntuples(result) == 1 && PQnfields(result) == 12)
            *ret_version = strtoll(PQgetvalue(result, 0, 5), NULL, 10);
        else if (ret_now && PQntuples(result) == 1)
            *ret_now = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
    }
}

static void raw_pair(void *user)
{
    PGconn *pg = user;
    long long version = 0, now = 0;
    char sql[1024];
    say(pg, lock_text, &version, &now);
    snprintf(sql, sizeof sql, put_text, now, now + 10000, now + 16000, "0:4711@10.0.0.1", version + 1, 4711,
             version + 1);
    say(pg, sql, NULL, NULL);
    say(pg, lock_text, &version, &now);
    snprintf(sql, sizeof sql, put_text, 0LL, 0LL, 0LL, "", version + 1, 0, 0LL);
    say(pg, sql, NULL, NULL);
}

static double statements(PGconn *pg)
{
    return ask(pg, "select sum(calls) from pg_stat_statements", 0, NULL);
}

/* --- an UPDATE and an UPDATE ------------------------------------------------------------------------------ */

/* The least that a lock with a lease can do: each is a transaction of its own, which asks the server for the time. They are sent as the
 * store sends its statements, which has to do without prepared ones because of poolers. */
static void update_pair(void *user)
{
    static const char *const texts[] = {
        "update hand set owner = $1, token = token + 1, until = clock_timestamp() + interval '16 s' "
        "where mutex = $2 and (owner = '' or until <= clock_timestamp())",
        "update hand set owner = '', until = 'epoch' where owner = $1 and mutex = $2"};
    static const char *const values[] = {"0:4711@10.0.0.1", "plain"};
    PGconn *pg = user;
    for (int i = 0; i < 2; i++) {
        PGresult *result = PQexecParams(pg, texts[i], 2, NULL, values, NULL, NULL, 0);
        if (PQcmdTuples(result)[0] != '1')
            bench_fail("update", PQerrorMessage(pg));
        PQclear(result);
    }
}

/* --- the measurements -------------------------------------------------------------------------------------- */

static void measure_pairs(PGconn *pg, bool quick)
{
    double per_second[3];
    bench_locker l = bench_locker_open(url, "bench");
    bench_locker_pair(&l); /* makes the tables */
    ask(pg, "create table hand (mutex text primary key, owner text, token bigint, until timestamptz)", 0, NULL);
    ask(pg, "insert into hand values ('plain', '', 0, 'epoch')", 0, NULL);
    ask(pg, "insert into simba_mutex values ('plain', 0, 0, 0, '', 0)", 0, NULL);
    const bench_side sides[] = {{bench_locker_pair, &l}, {raw_pair, pg}, {update_pair, pg}};
    bench_take_turns(sides, 3, quick, per_second);
    bench_locker_close(&l);
    bench_row("lock + unlock", per_second[0], "pairs/s");
    bench_row("the same statements, blocking", per_second[1], "pairs/s");
    bench_row("an UPDATE and an UPDATE", per_second[2], "pairs/s");
    bench_row("ratio of the two", per_second[0] / per_second[1], "");
    bench_row("ratio to an UPDATE and an UPDATE", per_second[0] / per_second[2], "");
}

static void measure_held(PGconn *pg, bool quick)
{
    bench_crowd crowd = bench_crowd_start(url, "held", HELD, 10000, 6000);
    if (!bench_crowd_await_held(&crowd))
        bench_fail("held", "not all could be had");
    const simba_stats before = bench_crowd_stats(&crowd);
    const double calls = statements(pg);
    const int64_t from_ns = bench_now_ns();
    bench_sleep_ms(quick ? 12000 : 31000);
    const double elapsed_s = (double)(bench_now_ns() - from_ns) / 1e9;
    const double more = statements(pg) - calls - 1;
    const simba_stats after = bench_crowd_stats(&crowd);
    bench_row("renewals of 10,000 at ttl 10 s", (double)(after.renewals - before.renewals) / elapsed_s, "per s");
    bench_row("statements for that", more / elapsed_s, "per s");
    bench_row("renewals that failed", (double)after.renewals_failed, "");
    bench_crowd_end(&crowd);
}

int main(int argc, char **argv)
{
    const bool quick = bench_wants_quick(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    start_server();
    PGconn *pg = connect_raw();
    ask(pg, "create extension if not exists pg_stat_statements", 0, NULL);
    measure_pairs(pg, quick);
    measure_held(pg, quick);
    PQfinish(pg);
    stop_server();
    return 0;
}
