/* Oracle's MySQL 8, see server.h. Distributions do not have it beside MariaDB: scripts/mysql8 fetches it, and sets
 * SIMBA_MYSQL8 to its path. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/server.h"

static bool initialize(const server *s, const char *base)
{
    char command[512];
    snprintf(command, sizeof command,
             "%s '%s/bin/mysqld' --no-defaults --basedir='%s' --datadir=%s/data --initialize-insecure "
             ">%s/initialize.log 2>&1",
             geteuid() == 0 ? "setpriv --reuid=nobody --regid=nogroup --clear-groups" : "", base, base, s->folder,
             s->folder);
    return system(command) == 0; // NOLINT(cert-env33-c): words of our own
}

/* The statements that the server runs when it starts: they make our database, and a user of each kind that it knows. */
static bool write_init(const char *folder)
{
    char path[96];
    snprintf(path, sizeof path, "%s/init.sql", folder);
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    fputs("create database if not exists simba;\n"
          "create user if not exists sha2@'%' identified with caching_sha2_password by 'a-secret-word';\n"
          "create user if not exists native@'%' identified with mysql_native_password by 'a-secret-word';\n"
          "create user if not exists root@'127.0.0.1' identified with caching_sha2_password by '';\n"
          "grant all on *.* to sha2@'%', native@'%', root@'127.0.0.1';\n",
          file);
    return fclose(file) == 0;
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
    if (!initialize(s, from) || !write_init(s->folder))
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
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        s->argv[i] = words[i];
    return server_start(s);
}

const server_kind server_kind_mysql8 = {"mysql8", "\"$SIMBA_MYSQL8\"/bin/mysqld", server_start_mysql8};
