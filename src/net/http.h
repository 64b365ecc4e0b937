/* HTTP/1.1 over one connection (net/link.h). Calls are answered one after the other: the next is sent when the one before it has its
 * answer. A store that wants more at a time has more connections.
 *
 * A call that was sent and not answered fails when the connection breaks. The calls behind it wait for the next connection, and fail
 * when that cannot be made either. Deadlines are the caller's: it cancels a call that nobody waits for any more. */
#ifndef SIMBA_NET_HTTP_H
#define SIMBA_NET_HTTP_H

#include "net/http_parser.h"
#include "net/link.h"
#include "util/list.h"

typedef struct simba__http simba__http;
typedef struct simba__http_call simba__http_call;

/* For simba__links.hello: a server without TLS answers this at once. */
#define SIMBA__HTTP_HELLO "GET / HTTP/1.0\r\n\r\n"

typedef struct simba__http_answer {
    simba__http_head head;
    const char *body; /* with a zero byte after it; empty if its lines went to call->line */
    size_t length;
} simba__http_answer;

/* A member of the caller's own struct, who fills in the first part and then calls simba__http_send. */
struct simba__http_call {
    /* Exactly once, but not after simba__http_cancel or simba__http_close. The call may be freed or sent again in here. Any status
     * is an answer. answer is NULL: there is none, and `error` says why; call->sent: the server may have carried it out. */
    void (*done)(simba__http_call *call, const simba__http_answer *answer, const simba_error *error);
    /* NULL: the body is collected. Otherwise, if the status is 200, the body is taken as lines, one by one as they come, without
     * their ends; empty lines are skipped. It may cancel its call. */
    void (*line)(simba__http_call *call, const char *text, size_t length);
    size_t body_most; /* the longest body, or line of it */
    /* How long the server may be silent, once the call was sent, before the connection is given up; 0: for ever, as is right
     * for a watch without heartbeats: then the caller has to look after its server by other calls. */
    int64_t silence_ns;

    /* The body has no end: simba__http_more appends to it while the answer comes, and the connection serves nothing else. */
    bool streams;

    bool sent; /* some of it may have reached the server */
    simba__list_item item;
    simba__http *http;     /* while it is under way */
    simba__buffer request; /* until it is sent */
    size_t request_line;   /* its length, in `request`: Host follows */
};

/* What the owner of a connection wants to know; each may be NULL. */
typedef struct simba__http_events {
    /* The connection is to be made: see find in net/link.h. NULL: http->link.at is right. */
    void (*find)(simba__http *http);
    void (*up)(simba__http *http);
    /* It broke, or could not be made; calls have failed before. http->link.error says why, and it will be tried again. */
    void (*down)(simba__http *http);
} simba__http_events;

struct simba__http {
    simba__link link; /* the caller sets link.at. Hurrying it may call `done` */
    const simba__http_events *events;
    void *owner;
    simba__list calls;  /* the first may have been sent */
    simba__list failed; /* whose `done` is to be called now */
    bool reached;       /* this attempt has made a connection */
    bool quiet;         /* the owner is sending or cancelling: a failure is told when the next attempt begins */
    bool broken;        /* there is such a failure */
    bool takes_lines;   /* this answer does */
    simba_local heard;  /* the latest bytes, or when the call was sent */
    simba__buffer body;
    simba__http_parser parser;
};

/* 0 or SIMBA_ENOMEM. */
int simba__http_init(simba__http *http, simba__links *all, const simba__http_events *events, void *owner,
                     int64_t connect_timeout_ns);

/* Send a request, at once if nothing is before it, otherwise later; connects if need be. `target` is what follows the method, such as
 * "/v3/kv/range", with escapes. `headers` are names and values by turns, with a NULL at the end; Host and Content-Length are
 * not among them. `body` is copied; with `length` 0 there is none. Never calls call->done by itself.
 * SIMBA_ENOMEM, SIMBA_EINVAL: the target or a header has what is not printable ASCII, or the target a space. */
int simba__http_send(simba__http *http, simba__http_call *call, const char *method, const char *target,
                     const char *const *headers, const void *body, size_t length);

/* Append to the body of a call that streams and is under way: one chunk, sent at once if the call was. SIMBA_ENOMEM: nothing was appended.
 * Never calls call->done by itself. */
int simba__http_more(simba__http_call *call, const void *data, size_t length);

/* Nobody waits for this call any more. If it was sent, the connection is closed, and a new one begins if other calls wait. Does nothing
 * if the call is not under way. */
void simba__http_cancel(simba__http_call *call);

/* This server is of no more use: a call that was sent keeps the connection, and all others go by a new one. */
void simba__http_leave(simba__http *http);

/* Close the connection. Calls that are under way are dropped, and `done` is not called. It may be used again. */
void simba__http_close(simba__http *http);
void simba__http_fini(simba__http *http);

#endif
