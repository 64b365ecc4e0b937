/* libmicrohttpd, loaded when it is needed: it brings GnuTLS and seven more libraries along, and every other command
 * would have to wait for them at its start. */
#ifndef SIMBA_CLI_SERVE_LIBRARY_H
#define SIMBA_CLI_SERVE_LIBRARY_H

#include <gnutls/gnutls.h>
#include <microhttpd.h>

#define LIBRARY_FUNCTIONS(X)                                                                                           \
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
#define LIBRARY_MEMBER(name) __typeof__(name) *(name);
    LIBRARY_FUNCTIONS(LIBRARY_MEMBER)
#undef LIBRARY_MEMBER
} http_library;

extern http_library lib;

/* Returns CLI_GO, or an exit code after having said what is missing. Once. */
int library_load(void);

#endif
