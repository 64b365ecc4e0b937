/* with_server KIND COMMAND…: run a command with a server of its own on a free port, with data that is thrown away.
 * "%PORT%", "%HOSTS%" and "%DIR%" in the arguments become the server's port, its host and port or those of all that are
 * its equals, and its folder. The kinds:
 *   redis       also listens on %DIR%/redis.sock
 *   redis-tls   wants TLS and the password "secret"; %DIR%/ca.pem vouches for its name, "localhost"
 *   redis-sentinel   three sentinels, at %HOSTS%, that know a master with a replica as "orders"
 *   redis-cluster    three masters of a cluster, at %HOSTS%
 *   mariadb     has the user root without a password and the database "simba"; also listens on %DIR%/my.sock
 *   mysql8      Oracle's, where SIMBA_MYSQL8 says; the same
 *   zookeeper
 *   postgresql       has the user postgres without a password and the database "simba"; its socket is in %DIR%
 *   postgresql-tls   wants TLS and a client's certificate: %DIR%/client.pem and client.key; %DIR%/ca.pem vouches for "localhost"
 *   etcd
 *   etcd-tls         wants TLS and a client's certificate: %DIR%/cert.pem and key.pem; %DIR%/ca.pem vouches for "localhost"
 *   etcd-cluster     three servers, at %HOSTS%
 *   pgbouncer, pgbouncer-session   in front of such a server, in transaction and in session mode
 *   kubernetes       the tests' own API server; %DIR%/token may do everything, %DIR%/weak-token nothing, and %DIR%/ca.pem vouches
 *                    for "localhost". Speaks TLS, and plain HTTP as `kubectl proxy` does
 *   kube-apiserver   Kubernetes' own beside etcd, where SIMBA_KUBERNETES says; the same, with TLS only
 * Where the server's program is not installed it prints a skipped plan. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/server.h"

static const server_kind *const kinds[] = {
    &server_kind_redis,          &server_kind_redis_tls, &server_kind_redis_sentinel,    &server_kind_redis_cluster,
    &server_kind_mariadb,        &server_kind_mysql8,    &server_kind_zookeeper,         &server_kind_postgresql,
    &server_kind_postgresql_tls, &server_kind_pgbouncer, &server_kind_pgbouncer_session, &server_kind_zookeeper_tls,
    &server_kind_etcd,           &server_kind_etcd_tls,  &server_kind_etcd_cluster,      &server_kind_kubernetes,
    &server_kind_kube_apiserver};

static const server_kind *kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

/* The word with what its placeholders stand for. */
static char *filled_in(const char *word, const server *s)
{
    const struct {
        const char *name, *value;
    } places[] = {{"%PORT%", s->port_text}, {"%HOSTS%", s->hosts}, {"%DIR%", s->folder}};
    const size_t count = sizeof places / sizeof *places;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    while (*word) {
        size_t i = 0;
        while (i < count && strncmp(word, places[i].name, strlen(places[i].name)) != 0)
            i++;
        if (i < count) {
            fputs(places[i].value, out);
            word += strlen(places[i].name);
        } else {
            fputc(*word++, out);
        }
    }
    fclose(out);
    return text;
}

static void stopped(int number)
{
    (void)number; /* waitpid returns */
}

/* Its exit status. When it is we who are told to stop, the command does not outlive us. */
static int run(char **argv)
{
    const pid_t parent = getpid();
    const struct sigaction action = {.sa_handler = stopped};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    const pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
        execvp(argv[0], argv);
        fprintf(stderr, "with_server: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    const server_kind *kind = argc >= 3 ? kind_named(argv[1]) : NULL;
    if (!kind) {
        fprintf(stderr, "usage: with_server KIND COMMAND…, and a KIND that is known\n");
        return 2;
    }
    if (!server_has(kind->program)) {
        printf("1..0 # SKIP %s is not installed\n", kind->program);
        return 0;
    }
    server s;
    server_init(&s);
    if (!kind->start(&s)) {
        fprintf(stderr, "Bail out! %s does not start\n", kind->program);
        server_show_log(&s);
        server_fini(&s);
        return 1;
    }
    for (int i = 2; i < argc; i++)
        argv[i] = filled_in(argv[i], &s);
    const int status = run(argv + 2);
    for (int i = 2; i < argc; i++)
        free(argv[i]);
    server_fini(&s);
    return status;
}
