/* What the targets for whole stores have in common: what a client asks for and what it watches. */
#ifndef SIMBA_TESTS_FUZZ_STORY_H
#define SIMBA_TESTS_FUZZ_STORY_H

#include "fuzz/host.h"

enum { STORY_MUTEXES = 3, STORY_IDS = 3 };

extern const char *const story_mutexes[STORY_MUTEXES];
extern const char *const story_ids[STORY_IDS];

typedef struct story {
    fuzz_host *host;
    simba_watch watches[STORY_MUTEXES];
    bool is_watched[STORY_MUTEXES];
} story;

/* The server of a store whose connections are wires (wires.h). */
typedef struct story_server {
    /* It answers what was asked. NULL: it has answered in the moment in which it was asked. */
    void (*answer)(fuzz_input *in);
    /* It says or does something by this wire that nobody has asked for. */
    void (*interrupt)(fuzz_input *in, size_t wire);
} story_server;

/* False: the store does not open; there is nothing to end then. */
bool story_begin(story *s, const simba_backend *backend, const char *url);
void story_end(story *s);
void story_request(story *s, fuzz_input *in);
/* Write a note, read it, or have the mutex forgotten. */
void story_note(const story *s, fuzz_input *in);
/* Watch one, or watch it no more. */
void story_watch(story *s, fuzz_input *in);
/* Any of these, or the server does something, or time passes. The caller settles the host. */
void story_turn(story *s, fuzz_input *in, const story_server *server);

#endif
