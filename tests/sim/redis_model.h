/* The inside of the model of Redis, for the files that make it up:
 *
 *   redis_keys.c      the data
 *   redis_commands.c  the commands that a script may use
 *   redis_lua.c       runs scripts: the text that ships, by the same Lua as the real server
 *   redis_replicas.c  replicas that get what was written a little later, or much later
 *   redis_jvm.c       contenders of Simba on the JVM
 *   redis_server.c    a server: its connections, what is said on them, and what goes wrong with it
 */
#ifndef TESTS_SIM_REDIS_MODEL_H
#define TESTS_SIM_REDIS_MODEL_H

#include <stddef.h>

#include "sim/redis_keys.h"
#include "sim/world.h"

struct redisReader;

enum {
    SIM_SCRIPTS = 24,
    SIM_WORDS = 32,    /* of a command */
    SIM_CHANNELS = 64, /* of a connection */
    SIM_PAST = 128,
    SIM_REPLICAS = 2,
    SIM_JVMS = 2,
    SIM_JVM_FIRST = 2000, /* EV_SERVER: who */
    SIM_SENT = 256,       /* writes that may be under way to a replica */
};

/* --- answers ---------------------------------------------------------------------------------------- */

typedef enum sim_answer_kind {
    ANSWER_NIL,
    ANSWER_NUMBER,
    ANSWER_TEXT,
    ANSWER_STATUS,
    ANSWER_ERROR,
    ANSWER_LIST,
    ANSWER_NONE, /* said by itself, or said later */
} sim_answer_kind;

typedef struct sim_element {
    sim_answer_kind kind; /* NIL, NUMBER or TEXT */
    int64_t number;
    char text[SIM_TEXT];
} sim_element;

typedef struct sim_answer {
    sim_answer_kind kind;
    unsigned count;
    sim_element item[SIM_FIELDS]; /* LIST; all others: the first */
} sim_answer;

void answer_number(sim_answer *answer, int64_t number);
void answer_text(sim_answer *answer, sim_answer_kind kind, const char *text);
/* One more item of a list; NULL: nil. */
void answer_add(sim_answer *answer, const char *text);
/* As bytes of the protocol. */
void answer_write(const sim_answer *answer, FILE *out);

/* --- scripts ---------------------------------------------------------------------------------------- */

typedef struct sim_scripts sim_scripts;

sim_scripts *scripts_new(void);
void scripts_free(sim_scripts *scripts);
/* The number of this text, which is compiled when it is first seen. */
unsigned scripts_load(sim_scripts *scripts, const char *text, size_t length);
const char *scripts_sha(const sim_scripts *scripts, unsigned script);
/* -1: no such script. */
int scripts_find(const sim_scripts *scripts, const char *sha);

/* --- a server --------------------------------------------------------------------------------------- */

typedef struct sim_server {
    sim *s;
    unsigned index;
    sim_keys keys;
    uint32_t loaded; /* scripts, by bit */
    uint32_t writes; /* since the beginning: replication's offset */
} sim_server;

/* A replica of the server: what it has got so far. */
typedef struct sim_replica {
    uint32_t writes;
    sim_keys keys;
    int64_t latest;      /* when the latest of what is under way arrives */
    int64_t stuck_until; /* nothing arrives before */
} sim_replica;

/* A connection, as the server sees it. */
typedef struct sim_peer {
    struct redisReader *reader;
    uint32_t number;    /* tells it from an earlier one on the same wire */
    uint32_t written;   /* the offset of what was written by it last */
    unsigned waits_for; /* so many replicas: WAIT; 0: it does not wait */
    unsigned channels;
    char channel[SIM_CHANNELS][SIM_NAME];
} sim_peer;

/* A contender of Simba on the JVM. */
typedef struct sim_jvm {
    char id[16];
    unsigned mutex;
    uint32_t version; /* of what it plans */
    bool alive, holds, waits, leaves;
} sim_jvm;

/* What the data were before a write. */
typedef struct sim_past {
    int64_t at;
    sim_keys keys;
} sim_past;

typedef struct sim_redis_state {
    sim_scripts *scripts;
    sim_server server[SIM_SERVERS];
    sim_past *past;
    unsigned pasts;
    sim_replica replica[SIM_REPLICAS];
    sim_jvm jvm[SIM_JVMS];
    sim_keys *sent; /* what replicas are to be told, by offset */
    uint32_t peers; /* connections so far */
} sim_redis_state;

sim_redis_state *redis_state_of(const sim *s);
/* redis_replicas.c: something was written; WAIT; a replica is promoted; events of replication. */
void replicas_begin(sim *s);
void replicas_feed(sim_server *server);
unsigned replicas_with(const sim *s, uint32_t written);
void replicas_promote(sim *s);
void replicas_stick(sim *s, int64_t until);
void replicas_event(sim *s, const sim_event *event);
/* redis_jvm.c */
void jvms_begin(sim *s);
void jvms_leave(sim *s);
bool jvms_hear(sim *s, const char *channel);
void jvms_event(sim *s, const sim_event *event);
/* redis_server.c: run a script that nobody has loaded. */
void server_eval(sim_server *server, const char *text, int keys, int argc, const char *const *argv,
                 sim_answer *ret_answer);
/* redis_server.c: go on with those that wait for replicas. */
void server_look_at_waits(sim *s);

/* A command on data. False: there is no such command. */
bool commands_run(sim_server *server, int argc, const char *const *argv, sim_answer *ret_answer);
/* How many have heard it. */
int64_t server_publish(sim_server *server, const char *channel, const char *text);
int64_t server_now_us(const sim_server *server);
/* Run it on the server's data. */
void scripts_run(sim_scripts *scripts, sim_server *server, unsigned script, int keys, int argc, const char *const *argv,
                 sim_answer *ret_answer);

#endif
