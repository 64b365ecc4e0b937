/* Oracle's MySQL 8, see server.h. Distributions do not have it beside MariaDB: scripts/mysql8 fetches it, and sets
 * SIMBA_MYSQL8 to its path. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/server.h"

/* The statements that the server runs when it starts make our database, and a user of each kind that it knows. */
static bool initialize(const server *s, const char *base)
{
    return server_run(
        "%1$s '%2$s/bin/mysqld' --no-defaults --basedir='%2$s' --datadir=%3$s/data --initialize-insecure "
        ">%3$s/initialize.log 2>&1 && cat >%3$s/init.sql <<END\n"
        "create database if not exists simba;\n"
        "create user if not exists sha2@'%%' identified with caching_sha2_password by 'a-secret-word';\n"
        "create user if not exists native@'%%' identified with mysql_native_password by 'a-secret-word';\n"
        "create user if not exists root@'127.0.0.1' identified with caching_sha2_password by '';\n"
        "grant all on *.* to sha2@'%%', native@'%%', root@'127.0.0.1';\nEND",
        server_as_nobody(), base, s->folder);
}

bool server_start_mysql8(server *s)
{
    static char program[256], base[256], data[96], socket[96], init[96], pid[96], ca[96], cert[96], key[96];
    const char *from = getenv("SIMBA_MYSQL8");
    if (!from || !server_make_certificates(s->folder))
        return false;
    snprintf(program, sizeof program, "%s/bin/mysqld", from);
    snprintf(base, sizeof base, "--basedir=%s", from);
    snprintf(data, sizeof data, "--datadir=%s/data", s->folder);
    snprintf(socket, sizeof socket, "--socket=%s/my.sock", s->folder);
    snprintf(init, sizeof init, "--init-file=%s/init.sql", s->folder);
    snprintf(pid, sizeof pid, "--pid-file=%s/pid", s->folder);
    snprintf(ca, sizeof ca, "--ssl-ca=%s/ca.pem", s->folder);
    snprintf(cert, sizeof cert, "--ssl-cert=%s/cert.pem", s->folder);
    snprintf(key, sizeof key, "--ssl-key=%s/key.pem", s->folder);
    if (!initialize(s, from))
        return false;
    const char *const words[] = {program,
                                 "--no-defaults",
                                 base,
                                 data,
                                 socket,
                                 init,
                                 pid,
                                 ca,
                                 cert,
                                 key,
                                 "--port",
                                 s->port_text,
                                 "--bind-address=127.0.0.1",
                                 "--mysqlx=OFF",
                                 "--skip-name-resolve",
                                 "--innodb-flush-log-at-trx-commit=2",
                                 "--max-connections=500",
                                 NULL};
    server_set_argv(s, words, NULL);
    return server_start(s);
}

const server_kind server_kind_mysql8 = {"mysql8", "\"$SIMBA_MYSQL8\"/bin/mysqld", server_start_mysql8};
