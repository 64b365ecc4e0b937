/* HTTP: the connections, their time limits, and which answer goes to which request. */
#ifndef SIMBA_CLI_SERVE_HTTP_H
#define SIMBA_CLI_SERVE_HTTP_H

#include "access.h"
#include "feed.h"
#include "library.h"
#include "looker.h"
#include "options.h"

/* The limits of a connection: how long the request may take to arrive, how long the answer may take (a stream of events may
 * last), and how many connections there may be. The server cuts off a client that takes longer. When connections become
 * scarce, it closes the one that has kept it waiting for a request longest, so that a client that opens many shuts out
 * nobody else. */
enum {
    HTTP_REQUEST_MS = 5000,
    HTTP_ANSWER_MS = 60000,
    HTTP_STALLED_S = 15,    /* nothing at all was read or written */
    HTTP_CONNECTIONS = 512, /* the library does not listen while there are so many */
    HTTP_SCARCE = 240,
    HTTP_STREAMS = 128,
    HTTP_MEMORY = 24 * 1024, /* of a connection, and so of its headers */
    HTTP_BODY_MAX = 4096,
};

typedef struct server server;

typedef enum visitor_state {
    VISITOR_ASKS,     /* we wait for its request */
    VISITOR_ANSWERED, /* it reads an answer */
    VISITOR_FOLLOWS,  /* it reads a stream */
    VISITOR_RELEASES, /* it waits for a forced release */
    VISITOR_RELEASED,
    VISITOR_CUT_OFF, /* the library is about to notice */
} visitor_state;

typedef struct visitor {
    TAILQ_ENTRY(visitor) in_all;
    server *of;
    struct MHD_Connection *connection;
    int fd;
    visitor_state state;
    int64_t since_ms;
    bool is_suspended;
    uint64_t uploaded;
    release_order order;
    bool follows; /* the answer is a stream */
} visitor;

struct server {
    const serve_options *options;
    access_rules rules;
    table table;
    answers about;
    looker *asking;
    struct MHD_Daemon *daemon;
    TAILQ_HEAD(visitors, visitor) visitors; /* ordered: the visitor that has been asking longest comes first */
    int64_t watched_until_ms;
};

/* Returns CLI_GO, or an exit code after having said what is wrong. The descriptor belongs to the server then. */
int http_start(server *s, int fd);
/* Also one that was not started. */
void http_stop(server *s);

/* The descriptor to poll, the work when it is readable, and how long that work can wait. */
int http_fd(const server *s);
void http_run(server *s);
int http_pause_ms(const server *s);

/* There may be news for the followers, or the answer to a release. */
void http_wake(server *s);
/* Cut off visitors whose time is over. */
void http_sweep(server *s, int64_t now_ms);

/* routes.c: answer one request whose headers, and body if any, have come. */
enum MHD_Result routes_answer(visitor *v, const char *path, const char *method);
/* Refuse one. */
enum MHD_Result http_refuse(visitor *v, unsigned status, const char *text);

#endif
