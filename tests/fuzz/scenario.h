/* What the targets for whole stores have in common: what a client asks for and what it watches. */
#ifndef SIMBA_TESTS_FUZZ_SCENARIO_H
#define SIMBA_TESTS_FUZZ_SCENARIO_H

#include "fuzz/fuzz.h"
#include "lib/testhost.h"

enum { SCENARIO_MUTEXES = 3, SCENARIO_IDS = 3, SCENARIO_REQUESTS = 24 };

extern const char *const scenario_mutexes[SCENARIO_MUTEXES];
extern const char *const scenario_ids[SCENARIO_IDS];

typedef struct scenario {
    testhost *host;
    testhost_request asked[SCENARIO_REQUESTS];
    simba_watch watches[SCENARIO_MUTEXES];
    bool is_watched[SCENARIO_MUTEXES];
} scenario;

/* The server of a store whose connections are wires (wires.h). */
typedef struct scenario_server {
    /* It answers what was asked. NULL: it has answered in the moment in which it was asked. */
    void (*answer)(fuzz_input *in);
    /* It says or does something by this wire that nobody has asked for. */
    void (*interrupt)(fuzz_input *in, size_t wire);
} scenario_server;

/* False: the store does not open; there is nothing to end then. */
bool scenario_begin(scenario *s, const simba_backend *backend, const char *url);
void scenario_end(scenario *s);
/* What the store wants done is done, and what has come is told to it. */
void scenario_settle(scenario *s);
void scenario_request(scenario *s, fuzz_input *in);
/* Write a note, read it, or have the mutex forgotten. */
void scenario_note(scenario *s, fuzz_input *in);
/* Watch one, or watch it no more. */
void scenario_watch(scenario *s, fuzz_input *in);
/* Any of these, or the server does something, or time passes. The caller settles the host. */
void scenario_step(scenario *s, fuzz_input *in, const scenario_server *server);

#endif
