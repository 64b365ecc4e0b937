/* Real servers for tests: the test itself starts them, on a free port, as nobody, with temporary data. They end with
 * the test program. */
#ifndef TESTS_LIB_SERVER_H
#define TESTS_LIB_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/proxy.h"

enum { SERVER_ARGS = 48, SERVER_PORTS = 8 };

typedef struct server server;
struct server {
    pid_t pid; /* 0: not running */
    int port;
    int bus_port; /* of a member of a cluster, for the talk between them */
    char port_text[12];
    int ports[SERVER_PORTS]; /* sockets that keep its ports for it */
    size_t port_count;
    char folder[64];               /* owned by the user that it runs as */
    char config[96];               /* its configuration file, if it has one */
    int stop_signal;               /* 0: SIGKILL */
    const char *argv[SERVER_ARGS]; /* its command line, ended by NULL */
    server *also;                  /* another server that belongs to it */
    char hosts[128];               /* "127.0.0.1:PORT"; of a group, those of all its equal members, with commas */
};

/* Is this program installed? */
bool server_has(const char *program);
/* Run a group of cmocka's tests, or say that they are skipped because this program is not installed. */
#define SERVER_RUN_TESTS(program, tests, setup, teardown)                                                              \
    (server_has(program) ? cmocka_run_group_tests(tests, setup, teardown)                                              \
                         : (puts("1..0 # SKIP " program " is not installed"), 0))
/* Run a command of the shell. False: it has failed. */
bool server_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What to write before a command that refuses to run as root. */
const char *server_as_nobody(void);
/* Fill the server's folder. That takes seconds, so the tests do it once per build directory (or wherever they run), by `install`, and
 * copy it: NAME-template, which may be deleted at any time. `probe` is there when it is filled. */
bool server_fill(const server *s, const char *name, const char *probe, bool (*install)(const char *folder));
/* Make a folder and choose a port. */
void server_init(server *s);
/* Set s->argv to these arguments, and `more`, if there are any; both are ended by NULL. */
void server_set_argv(server *s, const char *const *ours, const char *const *more);
/* Run s->argv, and wait until the port takes connections. False: it does not. */
bool server_start(server *s);
/* Wait until `is_ready` says so. False: the server has ended, or is not ready after a minute; then show its log. The
 * tests are not about how long a server takes to start on a busy machine, so there is no smaller limit anywhere. */
bool server_await(server *s, bool (*is_ready)(const server *s));
/* Send a signal. If it ends the server, wait until it has. */
void server_signal(server *s, int number);
/* Stop it if it runs. The folder stays. */
void server_stop(server *s);
/* Print the end of its log on stderr. */
void server_show_log(const server *s);
/* Stop it and the servers that belong to it, and remove their folders. */
void server_fini(server *s);
/* Add a server that belongs to it; find the nth of the group, of which it is the 0th. */
server *server_add(server *s);
server *server_nth(server *s, unsigned nth);
/* A port that no other program gets until the server is finished, whether it runs or not. */
int server_keep_port(server *s);

/* Make a certificate authority, and a certificate of it for the name "localhost" alone: FOLDER/{ca,cert,key}.pem. */
bool server_make_certificates(const char *folder);

/* Start a Redis server. `more`: further arguments, ended by NULL; NULL: none. */
bool server_start_redis(server *s, const char *const *more);
/* The same with TLS only, using the certificates in `folder` and this password. */
bool server_start_redis_tls(server *s, const char *folder, const char *password, const char *const *more);

/* A master (the 3rd of the group), a replica of it (the 4th), and three sentinels (the first), which call it "orders".
 * The replica is in step, and the sentinels know one another. */
bool server_start_redis_sentinel(server *s);
/* Three masters of a cluster, which is up; and restart one of them, with its data on disk. */
bool server_start_redis_cluster(server *s);
/* The same for tests in which nothing is to fail: even on a busy machine its servers do not give each other up. */
bool server_start_calm_redis_cluster(server *s);
bool server_start_redis_master(server *s);
/* A replica of a cluster's master, which is in step. */
bool server_start_redis_replica(server *s, const server *master);
/* Send one command to a server of Redis' kind, as words with blanks between them, and return the answer as it came over
 * the wire; "" if it does not answer. The answer is valid until the next call. */
const char *server_tell_redis(const server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ask until the answer contains `part`, for half a minute at most. */
bool server_await_redis(const server *s, const char *command, const char *part);
/* A MariaDB server with the user root, who has no password, and a database "simba"; its socket is FOLDER/my.sock. */
bool server_start_mariadb(server *s, const char *const *more);

/* Oracle's MySQL 8 from the folder SIMBA_MYSQL8, with the database "simba", TLS by FOLDER/{ca,cert,key}.pem and these users:
 * root without a password, "sha2" and "native" with "a-secret-word". Its socket is FOLDER/my.sock. */
bool server_start_mysql8(server *s);

/* Kubernetes' API server from the folder SIMBA_KUBERNETES, and behind it, as the 2nd of the group, etcd: see tests/with_server.c. */
bool server_start_kube_apiserver(server *s);

/* A PostgreSQL server with the user postgres, who has no password, and a database "simba"; its socket is in its
 * folder. */
bool server_start_postgresql(server *s, const char *const *more);
/* The same by TLS only, for clients with the certificate FOLDER/client.pem (its key is client.key), by FOLDER/ca.pem. */
bool server_start_postgresql_tls(server *s);
/* Stop all of its processes, or continue them: a signal to s->pid reaches only the first of them. */
void server_freeze_postgresql(const server *s, bool is_frozen);
/* A primary, and a standby of it, which is the 2nd of the group. The primary answers no commit that the standby does
 * not have. */
bool server_start_postgresql_pair(server *s);
/* PgBouncer in this mode, and behind it, as the 2nd of the group, a PostgreSQL server. */
bool server_start_pgbouncer(server *s, const char *mode);
/* Run a statement without double quotes in the database "simba", by psql. False: it failed. */
bool server_tell_postgresql(const server *s, const char *sql);

bool server_has_zookeeper(void);
/* One ZooKeeper server; restart one that was stopped, with its data; and a group of three that are an ensemble. If
 * there are two networks, the first of the three follows each of the others over one of them, so that a test can cut it
 * off. It starts last, so it is not elected as long as nobody dies. */
bool server_start_zookeeper(server *s);
bool server_restart_zookeeper(server *s);
/* By TLS only, for clients with a certificate by FOLDER/ca.pem, such as FOLDER/cert.pem with FOLDER/key.pem. */
bool server_start_zookeeper_tls(server *s);
enum { SERVER_ENSEMBLE = 3 };
bool server_start_ensemble(server *s, proxy *networks);
/* The same, but the last of the three leads, and each of the others follows it over a network of its own. */
bool server_start_ensemble_led(server *s, proxy *networks);
/* Stop the networks that were started. */
void server_stop_networks(proxy *networks);
/* Ask one of ZooKeeper's words of four letters. Returns the length of the answer; 0: there was none. */
size_t server_ask_zookeeper(const server *s, const char *word, char *out, size_t size);
/* One of its numbers, by its name in "mntr"; -1: there is none of that name, or no answer. */
double server_zookeeper_counter(const server *s, const char *name);

/* One etcd server; restart it, or a member of a group, with its data; one by TLS only, for clients with a certificate by
 * FOLDER/ca.pem, such as FOLDER/cert.pem with FOLDER/key.pem; and a group of three that are a cluster, at s->hosts. */
bool server_start_etcd(server *s);
bool server_start_etcd_without_gateway(server *s);
bool server_restart_etcd(server *s);
bool server_start_etcd_tls(server *s);
bool server_start_etcd_cluster(server *s);

/* The servers that tests/with_server can start, by name. */
typedef struct server_kind {
    const char *name;
    const char *program;      /* without it the tests are skipped */
    bool (*start)(server *s); /* after server_init */
} server_kind;
extern const server_kind server_kind_redis, server_kind_redis_tls, server_kind_redis_sentinel,
    server_kind_redis_cluster;
extern const server_kind server_kind_postgresql, server_kind_postgresql_tls, server_kind_pgbouncer,
    server_kind_pgbouncer_session;
extern const server_kind server_kind_kubernetes, server_kind_kube_apiserver;
extern const server_kind server_kind_mariadb, server_kind_mysql8, server_kind_zookeeper, server_kind_zookeeper_tls;
extern const server_kind server_kind_etcd, server_kind_etcd_tls, server_kind_etcd_cluster;

#endif
