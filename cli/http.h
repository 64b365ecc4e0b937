/* HTTP that the command serves: connections, their time limits, and how an answer is sent. libmicrohttpd does the rest. It is
 * loaded when it is needed: it brings GnuTLS and seven more libraries along, and every other command would need to wait for
 * them at its start. It brings no thread: the owner of the server polls one descriptor, and http_run() never blocks and does
 * little at a time. */
#ifndef SIMBA_CLI_HTTP_H
#define SIMBA_CLI_HTTP_H

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#define HTTP_FUNCTIONS(X)                                                                                              \
    X(MHD_start_daemon)                                                                                                \
    X(MHD_stop_daemon)                                                                                                 \
    X(MHD_run)                                                                                                         \
    X(MHD_get_timeout)                                                                                                 \
    X(MHD_get_daemon_info)                                                                                             \
    X(MHD_get_connection_info)                                                                                         \
    X(MHD_lookup_connection_value)                                                                                     \
    X(MHD_suspend_connection)                                                                                          \
    X(MHD_resume_connection)                                                                                           \
    X(MHD_create_response_from_buffer)                                                                                 \
    X(MHD_create_response_from_callback)                                                                               \
    X(MHD_add_response_header)                                                                                         \
    X(MHD_queue_response)                                                                                              \
    X(MHD_destroy_response)                                                                                            \
    X(gnutls_certificate_verify_peers2)

typedef struct http_library {
#define HTTP_MEMBER(name) __typeof__(name) *(name);
    HTTP_FUNCTIONS(HTTP_MEMBER)
#undef HTTP_MEMBER
} http_library;

extern http_library lib;

typedef struct http_server http_server;

typedef enum http_state {
    HTTP_ASKS,     /* its request has not come */
    HTTP_ANSWERED, /* it reads an answer */
    HTTP_FOLLOWS,  /* it reads a stream */
    HTTP_WAITS,    /* suspended, until there is an answer */
    HTTP_CUT_OFF,  /* the library is about to notice */
} http_state;

typedef struct http_connection {
    TAILQ_ENTRY(http_connection) in_all;
    http_server *of;
    struct MHD_Connection *connection;
    int fd;
    http_state state;
    int64_t since_ms;
    bool is_suspended;
    bool follows; /* the answer is a stream */
    uint64_t uploaded;
    void *pending; /* of whoever suspended it; free()d with it */
} http_connection;

/* The limits of a connection: how long the request may take to arrive, how long the answer may take (a stream may last), and
 * how many connections there may be. The server cuts off a client that takes longer. When connections become scarce, it
 * closes the one that has kept it waiting for a request longest, so that a client that opens many shuts out nobody else. */
typedef struct http_limits {
    int64_t request_ms;
    int64_t answer_ms;
    unsigned stalled_s;   /* nothing at all was read or written */
    unsigned connections; /* the library does not listen while there are so many */
    unsigned scarce;
    size_t memory; /* of a connection, and so of its headers */
    bool keeps_alive;
} http_limits;

/* PEM texts. `client_ca`: a client may show a certificate of this authority; NULL: certificates do not count. */
typedef struct http_tls {
    const char *cert, *key, *client_ca;
} http_tls;

struct http_server {
    http_limits limits;
    /* Answer one request whose headers, and body if any, have come; or suspend the connection, and be asked again. */
    enum MHD_Result (*answer)(http_connection *c, const char *path, const char *method);
    struct MHD_Daemon *daemon;
    int listens;
    TAILQ_HEAD(http_connections, http_connection) all; /* the connection that has been asking longest comes first */
    unsigned connections, streams;
};

/* Load the library. Returns CLI_GO, or an exit code after a message. */
int http_load(const char *command);

/* `tls` NULL: none. Returns CLI_GO, or an exit code after a message. The descriptor, which listens, belongs to
 * the server then. */
int http_start(const char *command, http_server *s, int fd, const http_tls *tls);
/* Also one that was not started. */
void http_stop(http_server *s);
/* In a child of fork(): the connections belong to the parent, and must end with it. */
void http_leave_to_parent(http_server *s);

/* The descriptor to poll, for how long at most, and the work to do afterwards. */
int http_fd(const http_server *s);
int http_pause_ms(const http_server *s);
void http_run(http_server *s);

void http_suspend(http_connection *c, http_state state);
void http_resume(http_connection *c);

/* Send an answer, whose headers allow nothing to be loaded from elsewhere, shown inside of another page, guessed to be
 * something else, or kept. NULL: there was no memory for it. */
enum MHD_Result http_send(http_connection *c, unsigned status, const char *type, struct MHD_Response *response);
/* The same for text that stays. */
enum MHD_Result http_send_text(http_connection *c, unsigned status, const char *type, const char *text);

/* A text that is gathered and then sent. */
typedef struct http_draft {
    FILE *to;
    char *text;
    size_t length;
} http_draft;

/* False: no memory. */
bool http_begin(http_draft *d);
enum MHD_Result http_finish(http_connection *c, http_draft *d, unsigned status, const char *type);

#endif
