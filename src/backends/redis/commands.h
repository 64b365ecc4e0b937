/* The command connection to a server. session.h decides what happens on it; this module carries that out. */
#ifndef SIMBA_BACKENDS_REDIS_COMMANDS_H
#define SIMBA_BACKENDS_REDIS_COMMANDS_H

#include "backends/redis/conn.h"
#include "backends/redis/session.h"

typedef struct redis_commands redis_commands;

/* The owner of the connection writes requests as commands and reads their answers. */
typedef struct redis_commands_events {
    /* The connection is ready for requests. */
    void (*up)(redis_commands *self);
    /* The connection is gone, or could not be made. The requests on it have failed. */
    void (*down)(redis_commands *self, const simba_error *error);
    /* The server may be lost: it is down, or a request was not answered in time. */
    void (*lost)(redis_commands *self);
    /* Put the command of this request. */
    void (*put)(redis_commands *self, const simba_request *request);
    /* Read the answer to a request; the answer is no error. Returns DONE, GRANTED or ODDITY. */
    redis_answer (*read)(redis_commands *self, simba_request *request, const redisReply *reply);
    /* The request was answered DONE, or GRANTED and confirmed. Then `reply` is the answer to WAIT. */
    void (*finish)(redis_commands *self, redis_errand *errand, const redisReply *reply);
    /* This error says that another server has the slot: send the errand there, or fail it. False: it names no
     * server. */
    bool (*redirect)(redis_commands *self, redis_errand *errand, const char *error);
} redis_commands_events;

struct redis_commands {
    redis_conn conn;
    redis_session session;
    simba_host *host;
    const redis_options *options;
    const redis_commands_events *events;
    void *owner;
    bool wanted; /* a request or a list waits for the connection */
};

int simba__redis_commands_init(redis_commands *self, redis_conns *conns, redis_errands *errands,
                               const redis_commands_events *events, void *owner);
void simba__redis_commands_flush(redis_commands *self);
void simba__redis_commands_close(redis_commands *self, const simba_error *why);
void simba__redis_commands_fini(redis_commands *self);
/* The next flush sends the errand. */
void simba__redis_commands_submit(redis_commands *self, redis_errand *errand);
/* The time of its request is over. Afterwards the errand is IN_HAND, if nothing of it is left, or still SENT. Returns the server
 * that it is at. */
const char *simba__redis_commands_expire(redis_errand *errand);
/* Can requests be sent right now? */
bool simba__redis_commands_ready(const redis_commands *self);
/* True if no request and no command of our own is under way. */
bool simba__redis_commands_idle(const redis_commands *self);
/* Send a command of another module. False: the connection is not ready, or there is no memory. */
bool simba__redis_commands_ask(redis_commands *self, size_t argc, const char *const *argv, redis_learn *learn,
                               void *user);
/* Send a script whose answer nobody needs. If the connection is not ready, nothing happens. */
void simba__redis_commands_tell(redis_commands *self, redis_script script, const char *mutex, size_t argc,
                                const char *const *args);
/* Put the beginning of a script; for the owner's `put`. The caller then puts `argc` words. */
void simba__redis_commands_begin_script(redis_commands *self, redis_script script, const char *mutex, size_t argc);
/* Put a whole script; for the owner's `put`. */
void simba__redis_commands_put_script(redis_commands *self, redis_script script, const char *mutex, size_t argc,
                                      const char *const *args);

#endif
