/* MariaDB servers, see server.h. Making a data folder takes a second or two, so the tests make one per build
 * directory (or wherever they run) and copy it: tests/mariadb-template, which may be deleted at any time. */
#include "lib/server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define TEMPLATE "mariadb-template"

static bool run(const char *format, const char *a, const char *b)
{
    char command[1024];
    snprintf(command, sizeof command, format, a, b); // NOLINT(clang-diagnostic-format-nonliteral)
    return system(command) == 0;                     // NOLINT(cert-env33-c): words of our own
}

/* As nobody, if we are root: the server refuses to run as root. */
static const char *as_nobody(void)
{
    return geteuid() == 0 ? "setpriv --reuid=nobody --regid=nogroup --clear-groups" : "";
}

/* Everything is in `folder`, also its temporary tables: a server that starts deletes all tables that it finds in that
 * place, also those of other running servers, which then report errors or crash. */
static bool install(const char *folder)
{
    return run(
        "%1$s mariadb-install-db --no-defaults --datadir=%2$s --tmpdir=%2$s --auth-root-authentication-method=normal "
        "--skip-test-db --skip-name-resolve --innodb-log-file-size=8M --innodb-data-file-path=ibdata1:4M:autoextend "
        ">/dev/null 2>&1",
        as_nobody(), folder);
}

/* Several programs may come at once: the first one makes the template, in the server's own folder, and leaves a
 * copy. */
static bool fill(const char *folder)
{
    const int lock = open(TEMPLATE ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0)
        return install(folder);
    bool filled = false;
    if (flock(lock, LOCK_EX) == 0) {
        filled = access(TEMPLATE "/mysql", F_OK) == 0 && run("cp -a %s/. %s/", TEMPLATE, folder);
        if (!filled && install(folder)) {
            filled = true;
            run("rm -rf %s.new && cp -a %s %1$s.new && rm -rf %1$s && mv %1$s.new %1$s", TEMPLATE, folder);
        }
    }
    close(lock);
    return filled;
}

/* The statements that the server runs when it starts: they make a database for us. */
static bool write_init(const char *folder)
{
    char path[96];
    snprintf(path, sizeof path, "%s/init.sql", folder);
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    fputs("create database if not exists simba;\n", file);
    return fclose(file) == 0;
}

bool server_start_mariadb(server *s, const char *const *more)
{
    char data[96];
    snprintf(data, sizeof data, "%s/mysql", s->folder);
    if (access(data, F_OK) != 0 && (!fill(s->folder) || !write_init(s->folder)))
        return false;
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
    size_t n = 0;
    for (size_t i = 0; ours[i]; i++)
        s->argv[n++] = ours[i];
    for (size_t i = 0; more && more[i] && n < SERVER_ARGS - 1; i++)
        s->argv[n++] = more[i];
    s->argv[n] = NULL;
    return server_start(s);
}

static bool start_plain(server *s)
{
    return server_start_mariadb(s, NULL);
}

const server_kind server_kind_mariadb = {"mariadb", "mariadbd", start_plain};
