/* Bytes of an HTTP/1.1 server in, answers out; no sockets, no memory of its own. Everything that a server may make long has a
 * limit. What two readers could understand differently (RFC 9112, section 11) is refused. */
#ifndef SIMBA_NET_HTTP_PARSER_H
#define SIMBA_NET_HTTP_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIMBA__HTTP_LINE_MOST = 8192,  /* a status line, a header, the size of a chunk with its extensions */
    SIMBA__HTTP_HEAD_MOST = 65536, /* all headers of an answer, trailers and 1xx answers included */
    SIMBA__HTTP_HEADERS_MOST = 128,
};

typedef enum simba__http_event {
    SIMBA__HTTP_MORE,    /* all bytes are used, and the answer goes on */
    SIMBA__HTTP_HEAD,    /* the head is complete: see `head` */
    SIMBA__HTTP_BODY,    /* some bytes of the body */
    SIMBA__HTTP_END,     /* the answer is complete */
    SIMBA__HTTP_INVALID, /* this is not HTTP/1.1, or above a limit: parser->why says which, and nothing follows */
} simba__http_event;

typedef struct simba__http_head {
    int status;            /* 200 to 599 */
    int64_t retry_after_s; /* -1: not given */
    int64_t date_s;        /* the server's clock, in seconds since 1970; 0: not given */
    bool closes;           /* the server closes the connection after this answer */
} simba__http_head;

typedef struct simba__http_parser {
    int state; /* of the parser's own */
    simba__http_head head;
    bool is_old;         /* HTTP/1.0 */
    int64_t left;        /* bytes of the body or chunk; -1: until the connection is closed */
    bool chunked, sized; /* Transfer-Encoding, Content-Length were given */
    size_t head_bytes, headers;
    size_t length; /* of the line so far */
    char line[SIMBA__HTTP_LINE_MOST];
    const char *why; /* INVALID */
} simba__http_parser;

/* The next answer begins. */
void simba__http_parser_reset(simba__http_parser *parser);

/* Take some of the bytes, until there is something to tell. *ret_used says how many; of BODY, the last *ret_body of them are the body's.
 * Call it again with the rest until MORE. After END, reset it first. */
simba__http_event simba__http_parse(simba__http_parser *parser, const char *data, size_t length, size_t *ret_used,
                                    size_t *ret_body);

/* The connection was closed. END if the body lasted until then; otherwise INVALID. */
simba__http_event simba__http_parse_eof(simba__http_parser *parser);

#endif
