/* Decides which requests are allowed. Without a token, only clients on this machine can connect; and only the page itself or
 * a program may ask, not a page of another site in somebody's browser. */
#ifndef SIMBA_CLI_SERVE_ACCESS_H
#define SIMBA_CLI_SERVE_ACCESS_H

#include <stdbool.h>

/* The headers of a request that count here; NULL: it has none of that name. */
typedef struct access_request {
    const char *host;
    const char *origin;
    const char *fetch_site;    /* Sec-Fetch-Site */
    const char *authorization; /* Authorization */
    bool has_certificate;      /* and it was verified */
} access_request;

typedef struct access_rules {
    const char *token;   /* NULL: none is asked for */
    bool by_certificate; /* a certificate is as good as a token */
    bool has_tls;
} access_rules;

typedef enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_WRONG_HOST, /* a name that is not this machine's: somebody's DNS may have been pointed here */
    ACCESS_NO_TOKEN,
    ACCESS_FOREIGN, /* a page of another site sent it */
} access_verdict;

access_verdict access_to_read(const access_rules *rules, const access_request *request);
/* `to_change`: the request changes something, and must prove more: another site can make the browser of a user who is
 * logged in send it. */
access_verdict access_to_change(const access_rules *rules, const access_request *request);

#endif
