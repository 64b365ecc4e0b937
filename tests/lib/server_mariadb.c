/* MariaDB servers, see server.h. */
#include "lib/server.h"

/* Everything is in `folder`, also its temporary tables: a server that starts deletes all tables that it finds in that
 * place, also those of other running servers, which then report errors or crash. */
static bool install(const char *folder)
{
    return server_run("%1$s mariadb-install-db --no-defaults --datadir=%2$s --tmpdir=%2$s --skip-test-db "
                      "--auth-root-authentication-method=normal --skip-name-resolve --innodb-log-file-size=8M "
                      "--innodb-data-file-path=ibdata1:4M:autoextend >/dev/null 2>&1 && "
                      "echo 'create database if not exists simba;' >%2$s/init.sql",
                      server_as_nobody(), folder);
}

bool server_start_mariadb(server *s, const char *const *more)
{
    /* Little memory, and no waiting for the disk: these tests are not about a loss of power. The paths are relative to
     * the data folder. */
    const char *const ours[] = {"mariadbd",
                                "--no-defaults",
                                "--datadir",
                                s->folder,
                                "--tmpdir",
                                s->folder,
                                "--port",
                                s->port_text,
                                "--socket=my.sock",
                                "--init-file=init.sql",
                                "--bind-address=127.0.0.1",
                                "--skip-name-resolve",
                                "--innodb-log-file-size=8M",
                                "--innodb-data-file-path=ibdata1:4M:autoextend",
                                "--innodb-buffer-pool-size=16M",
                                "--innodb-flush-log-at-trx-commit=2",
                                "--performance-schema=OFF",
                                "--max-connections=500",
                                NULL};
    server_set_argv(s, ours, more);
    return server_fill(s, "mariadb", "init.sql", install) && server_start(s);
}

static bool start_plain(server *s)
{
    return server_start_mariadb(s, NULL);
}

const server_kind server_kind_mariadb = {"mariadb", "mariadbd", start_plain};
