/* The data of a model Redis server: a handful of keys with expiry, strings, hashes and sorted sets. It is plain memory
 * without a pointer in it, so a snapshot, or a replica, is an assignment. */
#ifndef TESTS_SIM_REDIS_KEYS_H
#define TESTS_SIM_REDIS_KEYS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_KEYS = 14, /* four of each mutex, and room for those that have just ended */
    SIM_FIELDS = 12,
    SIM_QUEUE = 16,
    SIM_NAME = 48,  /* of a key or a channel */
    SIM_SHORT = 24, /* of a field or a waiter */
    SIM_VALUE = 56, /* of a field */
    SIM_LINE = 256, /* a string */
};

typedef enum sim_key_type { SIM_KEY_NONE, SIM_KEY_STRING, SIM_KEY_HASH, SIM_KEY_ZSET } sim_key_type;

typedef struct sim_field {
    char name[SIM_SHORT];
    char value[SIM_VALUE];
} sim_field;

typedef struct sim_scored {
    double score;
    char name[SIM_SHORT];
} sim_scored;

typedef struct sim_key {
    char name[SIM_NAME];
    uint8_t type;
    int64_t expires_ms; /* INT64_MAX: never */
    unsigned count;
    union {
        char text[SIM_LINE];
        sim_field field[SIM_FIELDS];
        sim_scored member[SIM_QUEUE]; /* in order */
    } u;
} sim_key;

typedef struct sim_keys {
    int64_t now_ms; /* set before every command */
    sim_key key[SIM_KEYS];
} sim_keys;

/* NULL: there is no such key, or it has expired. */
sim_key *keys_find(sim_keys *keys, const char *name);
/* Found or made, empty. */
sim_key *keys_make(sim_keys *keys, const char *name, sim_key_type type);
void keys_remove(sim_key *key);

/* NULL: there is no such field. */
const char *keys_field(const sim_key *hash, const char *name);
/* False: there was none. */
bool keys_remove_field(sim_key *hash, const char *name);
void keys_set_field(sim_key *hash, const char *name, const char *value);

/* Where it stands; -1: it does not. */
int keys_rank(const sim_key *zset, const char *member);
void keys_add_member(sim_key *zset, const char *member, double score);
/* The key goes with its last member. */
void keys_remove_member(sim_key *zset, unsigned rank);

#endif
