/* The command connection to a server. session.h decides what happens on it; this carries it out. */
#ifndef SIMBA_BACKENDS_REDIS_COMMANDS_H
#define SIMBA_BACKENDS_REDIS_COMMANDS_H

#include "backends/redis/conn.h"
#include "backends/redis/session.h"

typedef struct redis_commands redis_commands;

/* The owner's part of the requests: it writes them as commands, and reads the answers. */
typedef struct redis_commands_events {
    /* From now on requests can be sent. */
    void (*up)(redis_commands *self);
    /* The connection is gone, or could not be made; the requests that were under way on it have failed. */
    void (*down)(redis_commands *self, const simba_error *error);
    /* The server may be lost: it is down, or a request was not answered in time. */
    void (*lost)(redis_commands *self);
    /* Put the command of this request. */
    void (*put)(redis_commands *self, const simba_request *request);
    /* Put one command for these renewals, of which there is at least one. Their leases have one length. */
    void (*put_renewals)(redis_commands *self, redis_errand *const *errands, size_t count);
    /* The answer to a request, no error: DONE, GRANTED or ODDITY. */
    redis_answer (*read)(redis_commands *self, simba_request *request, const redisReply *reply);
    /* What was answered DONE, or GRANTED and confirmed, is over. The answer is not there any more if it had to be confirmed. */
    void (*finish)(redis_commands *self, redis_errand *errand, const redisReply *reply);
    /* Another server has the slot, as this error says: send the errand there, or fail it. False: the error does not say. */
    bool (*redirect)(redis_commands *self, redis_errand *errand, const char *error);
} redis_commands_events;

struct redis_commands {
    redis_conn conn;
    redis_session session;
    simba_host *host;
    const redis_options *options;
    const redis_commands_events *events;
    void *owner;
    bool wanted; /* somebody waits for the connection */
};

int simba__redis_commands_init(redis_commands *self, redis_conns *conns, redis_errands *errands,
                               const redis_commands_events *events, void *owner);
void simba__redis_commands_flush(redis_commands *self);
void simba__redis_commands_close(redis_commands *self, const simba_error *why);
void simba__redis_commands_fini(redis_commands *self);
/* Send it before the turn ends. */
void simba__redis_commands_submit(redis_commands *self, redis_errand *errand);
/* Nobody wants this errand any more. It can be forgotten, or failed. Returns which server it was at. */
const char *simba__redis_commands_leave(redis_errand *errand);
/* Can requests be sent right now? */
bool simba__redis_commands_ready(const redis_commands *self);
/* Is nothing of a request or of our own under way? */
bool simba__redis_commands_idle(const redis_commands *self);
/* A command of another module. False: it cannot be sent right now, or there is no memory for it. */
bool simba__redis_commands_ask(redis_commands *self, size_t argc, const char *const *argv, redis_learn *learn,
                               void *user);
/* A script whose answer is nobody's business; nothing happens if it cannot be sent right now. */
void simba__redis_commands_tell(redis_commands *self, redis_script script, const char *mutex, size_t argc,
                                const char *const *args);
/* Likewise: release the grant of an acquire, as its reply says, and do not wait for the outcome. */
void simba__redis_commands_give_back(redis_commands *self, const simba_request *request);
/* Put the beginning of a script, for the owner's `put`: as many words as are said here have to follow. */
void simba__redis_commands_begin_script(redis_commands *self, redis_script script, const char *mutex, size_t argc);
/* Put a whole script, likewise. */
void simba__redis_commands_put_script(redis_commands *self, redis_script script, const char *mutex, size_t argc,
                                      const char *const *args);

#endif
