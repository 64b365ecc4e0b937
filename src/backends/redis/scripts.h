/* The Lua scripts. See scripts.c for what is stored. */
#ifndef SIMBA_BACKENDS_REDIS_SCRIPTS_H
#define SIMBA_BACKENDS_REDIS_SCRIPTS_H

#include "backends/redis/options.h"

typedef enum redis_script {
    REDIS_ACQUIRE,
    REDIS_RENEW,
    REDIS_RELEASE,
    REDIS_READ,
    REDIS_FORCE_RELEASE,
    REDIS_QUEUE_UP,
    REDIS_SCRIPTS,
} redis_script;

/* The whole text, for the database and the kind of servers. Free it with simba__free; NULL: out of memory. */
char *simba__redis_script_text(redis_script script, const redis_options *options);

#endif
