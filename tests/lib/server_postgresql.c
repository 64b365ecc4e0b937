/* PostgreSQL servers, and PgBouncer in front of them, see server.h. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/server.h"

/* Debian keeps the programs of each version in a folder of its own; the latest one counts. */
static const char *program(const char *name)
{
    static char path[128];
    glob_t found;
    snprintf(path, sizeof path, "/usr/lib/postgresql/*/bin/%s", name);
    if (glob(path, 0, NULL, &found) == 0)
        snprintf(path, sizeof path, "%s", found.gl_pathv[found.gl_pathc - 1]);
    else
        snprintf(path, sizeof path, "%s", name);
    globfree(&found);
    return path;
}

/* Make a data folder in `folder`, which is the server's. */
static bool install(const char *folder)
{
    char initdb[128];
    snprintf(initdb, sizeof initdb, "%s", program("initdb"));
    return server_run("%s %s -D %s/data -A trust -U postgres --no-locale -E UTF8 --no-sync >/dev/null 2>&1",
                      server_as_nobody(), initdb, folder) &&
           server_run("echo 'create database simba' | %s %s --single -D %s/data postgres >/dev/null 2>&1",
                      server_as_nobody(), program("postgres"), folder);
}

bool server_tell_postgresql(const server *s, const char *sql)
{
    return server_run("psql -X -q -h 127.0.0.1 -p %d -U postgres -d simba -v ON_ERROR_STOP=1 -c \"%s\" >/dev/null 2>&1",
                      s->port, sql);
}

/* The server takes connections before it answers. */
static bool answers(const server *s)
{
    return server_run("%s -q -h 127.0.0.1 -p %d -U postgres", program("pg_isready"), s->port);
}

bool server_start_postgresql(server *s, const char *const *more)
{
    static char postgres[128];
    if (!server_fill(s, "postgresql", "data/PG_VERSION", install))
        return false;
    /* Do not wait for the disk: these tests are not about a loss of power. */
    snprintf(postgres, sizeof postgres, "%s", program("postgres"));
    snprintf(s->config, sizeof s->config, "%s/data", s->folder);
    const char *const ours[] = {postgres,
                                "-D",
                                s->config,
                                "-p",
                                s->port_text,
                                "-c",
                                "listen_addresses=127.0.0.1",
                                "-c",
                                "unix_socket_directories=..",
                                "-c",
                                "fsync=off",
                                "-c",
                                "shared_buffers=16MB",
                                "-c",
                                "max_connections=500",
                                NULL};
    server_set_argv(s, ours, more);
    s->stop_signal = SIGQUIT; /* a killed server leaves processes behind for a while */
    return server_start(s) && server_await(s, answers);
}

bool server_start_postgresql_tls(server *s)
{
    if (!server_fill(s, "postgresql", "data/PG_VERSION", install))
        return false;
    /* The same authority signs the client's certificate, for the user. */
    const bool made =
        server_make_certificates(s->folder) &&
        server_run(
            "cd %s && exec 2>/dev/null && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
            "client.key "
            "-out client.req -subj /CN=postgres && openssl x509 -req -in client.req -CA ca.pem -CAkey ca.key "
            "-CAcreateserial -days 2 -out client.pem && cp key.pem server.key && chmod 600 server.key client.key && "
            "chmod 644 *.pem && printf 'local all all trust\\nhostssl all all 127.0.0.1/32 cert\\n' >data/pg_hba.conf "
            "&& "
            "%s true && { chown nobody server.key || true; }",
            s->folder, "");
    static const char *names[3];
    static char texts[3][128];
    const char *const files[] = {"ssl_cert_file=%s/cert.pem", "ssl_key_file=%s/server.key", "ssl_ca_file=%s/ca.pem"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(texts[i], sizeof texts[i], files[i], s->folder); // NOLINT(clang-diagnostic-format-nonliteral)
        names[i] = texts[i];
    }
    const char *const more[] = {"-c", "ssl=on", "-c", names[0], "-c", names[1], "-c", names[2], NULL};
    return made && server_start_postgresql(s, more);
}

void server_freeze_postgresql(const server *s, bool is_frozen)
{
    char path[64], text[4096] = "";
    const int number = is_frozen ? SIGSTOP : SIGCONT;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)s->pid, (int)s->pid);
    FILE *file = fopen(path, "re");
    if (!file)
        abort();
    if (is_frozen)
        kill(s->pid, number); /* first, so that it starts no more of them */
    const size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    for (char *at = text, *end; *at; at = end) {
        const long pid = strtol(at, &end, 10);
        if (end == at)
            break;
        kill((pid_t)pid, number);
    }
    if (!is_frozen)
        kill(s->pid, number);
}

static bool has_standby(const server *s)
{
    return server_tell_postgresql(s, "do 'begin if not exists (select from pg_stat_replication "
                                     "where sync_state = ''sync'') then raise ''not yet''; end if; end'");
}

bool server_start_postgresql_pair(server *s)
{
    static const char *const more[] = {"-c", "synchronous_standby_names=*", "-c", "wal_sender_timeout=2s", NULL};
    server *standby = server_add(s);
    if (!server_start_postgresql(s, NULL) ||
        !server_run("%s %s -h 127.0.0.1 -p %d -U postgres -D %s/data -R -X stream --no-sync -c fast",
                    server_as_nobody(), program("pg_basebackup"), s->port, standby->folder) ||
        !server_start_postgresql(standby, NULL))
        return false;
    server_signal(s, SIGQUIT);
    if (!server_start_postgresql(s, more))
        return false;
    snprintf(s->hosts, sizeof s->hosts, "127.0.0.1:%d,127.0.0.1:%d", s->port, standby->port);
    return server_await(s, has_standby);
}

/* The first of the group is the pooler. */
bool server_start_pgbouncer(server *s, const char *mode)
{
    server *behind = server_add(s);
    snprintf(s->config, sizeof s->config, "%s/conf", s->folder);
    FILE *file = server_start_postgresql(behind, NULL) ? fopen(s->config, "we") : NULL;
    if (!file)
        return false;
    fprintf(file,
            "[databases]\nsimba = host=127.0.0.1 port=%d user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            "listen_port = %d\nauth_type = any\npool_mode = %s\nunix_socket_dir =\nmax_client_conn = 500\n"
            "default_pool_size = 40\nignore_startup_parameters = extra_float_digits\n",
            behind->port, s->port, mode);
    fclose(file);
    s->argv[0] = "pgbouncer";
    s->argv[1] = s->config;
    s->argv[2] = NULL;
    return server_start(s);
}

static bool start_plain(server *s)
{
    return server_start_postgresql(s, NULL);
}

static bool start_transactions(server *s)
{
    return server_start_pgbouncer(s, "transaction");
}

static bool start_sessions(server *s)
{
    return server_start_pgbouncer(s, "session");
}

const server_kind server_kind_postgresql = {"postgresql", "postgres", start_plain};
const server_kind server_kind_postgresql_tls = {"postgresql-tls", "postgres", server_start_postgresql_tls};
const server_kind server_kind_pgbouncer = {"pgbouncer", "pgbouncer", start_transactions};
const server_kind server_kind_pgbouncer_session = {"pgbouncer-session", "pgbouncer", start_sessions};
