/* Contenders on a real MariaDB server that is maltreated, see plays.h. The server writes every change to its disk before it
 * answers, since a server that forgets can promise nothing. */
#include <mysql.h>
#include <signal.h>
#include <stdio.h>

#include "faults/plays.h"

static MYSQL *connect_raw(void)
{
    MYSQL *mysql = mysql_init(NULL);
    const unsigned protocol = MYSQL_PROTOCOL_TCP;
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    if (!mysql_real_connect(mysql, "127.0.0.1", "root", "", "simba", (unsigned)subject.port, NULL, 0))
        fail_msg("%s", mysql_error(mysql));
    return mysql;
}

static void say_on(MYSQL *mysql, const char *sql)
{
    if (mysql_query(mysql, sql) != 0)
        fail_msg("%s: %s", sql, mysql_error(mysql));
    mysql_free_result(mysql_store_result(mysql));
}

static void say(const char *sql)
{
    MYSQL *mysql = connect_raw();
    say_on(mysql, sql);
    mysql_close(mysql);
}

static bool start(void)
{
    if (!server_start_mariadb(&subject, (const char *const[]){"--innodb-flush-log-at-trx-commit=1", NULL}))
        return false;
    say("create user if not exists worker@'%'");
    say("grant all on simba.* to worker@'%'");
    return true;
}

static const char *url(int port)
{
    static char text[128];
    snprintf(text, sizeof text, "mysql://worker@127.0.0.1:%d/simba?create=yes&connect-timeout=1s&timeout=1s", port);
    return text;
}

static void freeze(bool frozen)
{
    server_signal(&subject, frozen ? SIGSTOP : SIGCONT);
}

static void end_connections(void)
{
    say("kill user worker");
}

static void make_read_only(bool read_only)
{
    say(read_only ? "set global read_only = 1" : "set global read_only = 0");
}

static MYSQL *locker;

static void lock_row(const char *mutex)
{
    char sql[96];
    snprintf(sql, sizeof sql, "update simba_mutex set version = version where mutex = '%s'", mutex);
    locker = connect_raw();
    say_on(locker, "begin");
    say_on(locker, sql);
}

static void unlock_row(void)
{
    mysql_close(locker);
}

static const acts_on_server acts = {"mariadbd",      start,          SIGKILL,  url,       freeze,
                                    end_connections, make_read_only, lock_row, unlock_row};

int main(void)
{
    const struct CMUnitTest tests[] = {SQL_PLAYS_TESTS};
    return RUN_PLAYS(tests);
}
