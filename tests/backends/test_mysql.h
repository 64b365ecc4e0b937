/* What the tests of the MySQL store share: a server of their own for the whole program, stores opened on it, and a second
 * way to the server, by plain statements. */
#ifndef TESTS_BACKENDS_TEST_MYSQL_H
#define TESTS_BACKENDS_TEST_MYSQL_H

#include <mysql.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/asking.h"
#include "lib/server.h"
#include "stores/mysql/mysql.h"
#include "util/clock.h"

static server mariadb;
static char mysql_url[128];
/* Two stores on the same server; as good as two processes, since they share nothing else. */
static testhost a;
__attribute__((unused)) static testhost b;
static MYSQL *raw; /* the second way */

/* The table of Simba on the JVM, in its older form. */
#define JVM_TABLE                                                                                                      \
    "create table simba_mutex (mutex varchar(66) not null primary key, acquired_at bigint unsigned not null, "         \
    "ttl_at bigint unsigned not null, transition_at bigint unsigned not null, owner_id char(32) not null, "            \
    "version int unsigned not null) engine = InnoDB"

static inline MYSQL *connect_raw(void)
{
    MYSQL *made = mysql_init(NULL);
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    mysql_options(made, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(made, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(made, "127.0.0.1", "root", "", "simba", (unsigned)mariadb.port, NULL, CLIENT_FOUND_ROWS))
        fail_msg("%s", mysql_error(made));
    return made;
}

/* One plain statement; the first row of its result, with blanks between the columns, or how many rows it matched. */
static inline const char *say_on(MYSQL *mysql, const char *sql)
{
    static _Thread_local char out[4096];
    if (mysql_query(mysql, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(mysql));
    MYSQL_RES *result = mysql_store_result(mysql);
    if (!result) {
        snprintf(out, sizeof out, "%llu", (unsigned long long)mysql_affected_rows(mysql));
        return out;
    }
    out[0] = '\0';
    MYSQL_ROW row = mysql_fetch_row(result);
    for (unsigned i = 0; row && i < mysql_num_fields(result); i++) {
        const size_t length = strlen(out);
        snprintf(out + length, sizeof out - length, "%s%s", i ? " " : "", row[i] ? row[i] : "NULL");
    }
    mysql_free_result(result);
    return out;
}

#define STORE (&simba__backend_mysql)
#define STORE_URL mysql_url
#include "backends/sql_asking.h"

/* One of the server's own counters. */
static inline long long counter(const char *name)
{
    const char *text = say("show global status like '%s'", name);
    const char *blank = strchr(text, ' ');
    return blank ? atoll(blank + 1) : -1;
}

static inline void start_mariadb(const char *const *more)
{
    if (!server_start_mariadb(&mariadb, more))
        fail_msg("mariadbd does not start; see %s/log", mariadb.folder);
    raw = connect_raw();
}

static inline int group_setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    server_init(&mariadb);
    snprintf(mysql_url, sizeof mysql_url, "mysql://root@127.0.0.1:%d/simba?create=yes", mariadb.port);
    start_mariadb(NULL);
    return 0;
}

static inline int group_teardown(void **state)
{
    if (raw)
        mysql_close(raw);
    server_fini(&mariadb);
    return 0;
}

static inline int setup(void **state)
{
    say("set lock_wait_timeout = 5");
    say("drop table if exists simba_mutex");
    return 0;
}

#define RUN_MYSQL_TESTS(tests) SERVER_RUN_TESTS("mariadbd", tests, group_setup, group_teardown)

/* Watch, and be told what there is. */
static inline void watch(testhost *h, simba_watch *watched)
{
    const size_t before = h->push_count;
    assert_int_equal(testhost_watch(h, watched), 0);
    for (int i = 0; i < 10000 && h->push_count == before; i++)
        testhost_pump(h, NULL, 1);
    assert_int_equal(h->push_count, before + 1);
    h->push_count = 0;
}

/* The next poll. */
__attribute__((unused)) static void poll_once(testhost *h)
{
    const simba__sql_store *sql = h->store;
    testhost_advance(h, 45);
    while (sql->reads_by)
        testhost_pump(h, NULL, 1);
}

/* Until the server's clock, which leases are written down by, shows another millisecond. */
static inline void await_tick(void)
{
    char before[32];
    snprintf(before, sizeof before, "%s", say("select current_timestamp(3)"));
    while (strcmp(say("select current_timestamp(3)"), before) == 0)
        ;
}

#endif
