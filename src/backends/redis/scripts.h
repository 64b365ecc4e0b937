/* The Lua scripts. See scripts.c for what is stored. */
#ifndef SIMBA_BACKENDS_REDIS_SCRIPTS_H
#define SIMBA_BACKENDS_REDIS_SCRIPTS_H

#include <simba/backend.h>

#include "backends/redis/options.h"

typedef enum redis_script {
    REDIS_ACQUIRE,
    REDIS_RENEW,
    REDIS_RENEW_ALL, /* several mutexes for one length of the lease; those are renewed that need nothing else */
    REDIS_RELEASE,
    REDIS_READ,
    REDIS_FORCE_RELEASE,
    REDIS_REJOIN,
    REDIS_WISHED,   /* does anybody wait? */
    REDIS_LIST_ROW, /* this one and those below use the note, too */
    REDIS_WRITE_NOTE,
    REDIS_READ_NOTE,
    REDIS_FORGET,
    REDIS_SCRIPTS,
} redis_script;

/* The numbers of a request as the scripts want them: nonces and tokens have the width that they have in a grant. */
typedef struct redis_numbers {
    char nonce[24];
    char token[24]; /* "0": whichever it is */
    char total[24]; /* ttl and transition */
    char transition[24];
} redis_numbers;

redis_numbers simba__redis_numbers_of(const simba_request *request);
/* A nonce as it stands in a grant, see ears.h. 0: it is none. */
uint64_t simba__redis_nonce_read(const char *text, const char **ret_end);

/* The names of the keys that a script is given, in their order: for put_script, and for whoever plays a client. */
enum { REDIS_KEYS_MOST = 5, REDIS_KEY_SIZE = SIMBA_MUTEX_BYTES + 32 };
size_t simba__redis_script_keys(redis_script script, bool cluster, const char *mutex,
                                char ret_keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE]);

/* The whole text, for the database and the kind of servers. Free it with simba__free; NULL: out of memory. */
char *simba__redis_script_text(redis_script script, const redis_options *options);

#endif
