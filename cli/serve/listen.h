/* Where `simba serve` listens, and whether only this machine can reach it there. */
#ifndef SIMBA_CLI_SERVE_LISTEN_H
#define SIMBA_CLI_SERVE_LISTEN_H

#include "options.h"

typedef struct listener {
    int fd;
    bool is_loopback;
    char url[96]; /* for people: http://127.0.0.1:7460/ */
} listener;

/* Bind a socket. Returns CLI_GO, or an exit code after having said what is wrong. */
int serve_listen(const serve_options *options, listener *ret_listener);

#endif
