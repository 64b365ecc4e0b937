/* As much of HTTP/1.1 as it takes to answer a probe: one request without a body, one answer, and the connection is
 * closed. By hand, because that is a page of code without state between requests, while a library would bring its
 * own loop, threads and limits into a process that has to renew a lease in time. It refuses what it does not
 * understand. */
#ifndef SIMBA_CLI_HEALTH_HTTP_H
#define SIMBA_CLI_HEALTH_HTTP_H

#include <stddef.h>

#include "health/view.h"

#define HTTP_REQUEST_MAX 4096 /* bytes, up to the empty line */

typedef enum http_page {
    HTTP_INCOMPLETE, /* there is more to come */
    HTTP_STATUS,     /* "/": 200 while this process leads, otherwise 503 */
    HTTP_METRICS,    /* "/metrics" */
    HTTP_HEALTH,     /* "/healthz": the loop goes round, and the store does not refuse it; otherwise 503 */
    HTTP_NOT_FOUND,
    HTTP_NOT_ALLOWED, /* neither GET nor HEAD */
    HTTP_BAD,
    HTTP_TOO_LARGE,
} http_page;

typedef struct http_request {
    http_page page;
    bool head_only;
} http_request;

http_request http_parse(const char *bytes, size_t length);

/* The answer, with its head; NULL: no memory. free() it. */
char *http_answer(const http_request *request, const health_view *view, size_t *ret_length);

#endif
