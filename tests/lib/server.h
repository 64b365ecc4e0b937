/* Real servers for tests: started by the test itself, on a free port, as nobody, with data that is thrown away, and gone
 * when the test program is. */
#ifndef TESTS_LIB_SERVER_H
#define TESTS_LIB_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

enum { SERVER_ARGS = 48 };

typedef struct server {
    pid_t pid; /* 0: not running */
    int port;
    char port_text[12];
    char folder[64];               /* owned by whom it runs as */
    const char *argv[SERVER_ARGS]; /* what it was started with, ended by NULL */
} server;

/* Is there such a program? */
bool server_has(const char *program);
/* A folder and a port that was free a moment ago. */
void server_init(server *s);
/* Run s->argv, and wait until the port takes connections. False: it does not. */
bool server_start(server *s);
/* Send a signal; after one that ends it, wait for the end. */
void server_signal(server *s, int number);
/* Stop it if it runs. The folder stays. */
void server_stop(server *s);
/* Stop it, and remove the folder. */
void server_fini(server *s);

/* A certificate authority, and a certificate of it for the name "localhost" alone: FOLDER/{ca,cert,key}.pem. */
bool server_make_certificates(const char *folder);

/* A Redis server, with more arguments after ours, ended by NULL; NULL: none. */
bool server_start_redis(server *s, const char *const *more);
/* The same with TLS only, by the certificates in `folder`, and this password. */
bool server_start_redis_tls(server *s, const char *folder, const char *password, bool wants_client_certificate);

/* What tests/with_server can start, by name. */
typedef struct server_kind {
    const char *name;
    const char *program;      /* without it the tests are skipped */
    bool (*start)(server *s); /* after server_init */
} server_kind;
extern const server_kind server_kind_redis, server_kind_redis_tls;

#endif
