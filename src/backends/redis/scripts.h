/* The Lua scripts. See scripts.c for what is stored. */
#ifndef SIMBA_BACKENDS_REDIS_SCRIPTS_H
#define SIMBA_BACKENDS_REDIS_SCRIPTS_H

#include <simba/backend.h>

#include "backends/redis/options.h"

typedef enum redis_script {
    REDIS_ACQUIRE,
    REDIS_RENEW,
    REDIS_RELEASE,
    REDIS_READ,
    REDIS_FORCE_RELEASE,
    REDIS_REJOIN,
    REDIS_LIST_ROW, /* this script and those below use the note, too */
    REDIS_WRITE_NOTE,
    REDIS_READ_NOTE,
    REDIS_FORGET,
    REDIS_SCRIPTS,
} redis_script;

/* The numbers of a request in the form that the scripts want: nonces and tokens have the same width as in a grant. */
typedef struct redis_numbers {
    char nonce[24];
    char token[24]; /* "0": any token */
    char head[48];  /* the two, as a grant begins with them */
    char total[24]; /* ttl and transition, added */
    char transition[24];
} redis_numbers;

redis_numbers simba__redis_numbers_of(const simba_request *request);
/* Read a nonce as it stands in a grant. 0: the text is none. */
uint64_t simba__redis_nonce_read(const char *text, const char **ret_end);

/* The names of the keys that a script gets, in their order: for put_script, and for tests that play a client. */
enum { REDIS_KEYS_MOST = 5, REDIS_KEY_SIZE = SIMBA_MUTEX_BYTES + 32 };
size_t simba__redis_script_keys(redis_script script, bool cluster, const char *mutex,
                                char ret_keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE]);

/* The whole text, for the database and the kind of servers. Free it with simba__free; NULL: out of memory. */
char *simba__redis_script_text(redis_script script, const redis_options *options);

#endif
