/* A server that speaks PostgreSQL's protocol as a hostile or broken one might. It serves each connection on a thread
 * of its own, and keeps everything that clients have sent. The test decides what it does: one function greets, and
 * one answers. */
#ifndef TESTS_LIB_FAKE_POSTGRESQL_H
#define TESTS_LIB_FAKE_POSTGRESQL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/fake.h"
#include "lib/postgresql_speech.h"

typedef enum fake_pg_statement {
    FAKE_PG_LOOK,  /* the look at the tables: an honest answer is pg_say_look */
    FAKE_PG_LOCK,  /* packet 1: its results are rows, waiters if the text names them, and the time */
    FAKE_PG_OTHER, /* packet 2, LISTEN and the like */
} fake_pg_statement;

typedef struct fake_postgresql fake_postgresql;
struct fake_postgresql {
    /* Set before the start. Each sends to `client`, and returns false to hang up. `asks` is what the client has
     * asked. */
    bool (*greet)(fake_postgresql *fake, int client); /* after the first message; NULL: pg_say_welcome */
    bool (*answer)(fake_postgresql *fake, int client, fake_pg_statement statement, const char *asks);
    const void *user;

    int port;
    int listener;
    pthread_t thread;
    atomic_bool stops;
    atomic_int connections; /* how many have come */
    atomic_int open;        /* how many of them are still open */
    atomic_size_t sent;     /* bytes, to all of them */
    fake_ear ear;           /* still good after the stop */
};

void fake_postgresql_start(fake_postgresql *fake);
void fake_postgresql_stop(fake_postgresql *fake);

/* Send bytes as they are. False: the client has gone, or the test is over. */
bool fake_pg_send(fake_postgresql *fake, int client, const void *bytes, size_t size);
/* Wait until the client has gone, for `ms` at most. True: it has. */
bool fake_pg_gone(fake_postgresql *fake, int client, int ms);
bool fake_pg_say(fake_postgresql *fake, int client, const pg_speech *speech);

#endif
