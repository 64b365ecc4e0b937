/* What the targets for whole stores have in common: what a client asks for and what it watches. */
#ifndef SIMBA_TESTS_FUZZ_STORY_H
#define SIMBA_TESTS_FUZZ_STORY_H

#include "fuzz/host.h"

enum { STORY_MUTEXES = 3, STORY_IDS = 3 };

extern const char *const story_mutexes[STORY_MUTEXES];
extern const char *const story_ids[STORY_IDS];

typedef struct story {
    fuzz_host *host;
    simba_topic topics[STORY_MUTEXES];
    bool is_watched[STORY_MUTEXES];
} story;

/* False: the store does not open; there is nothing to end then. */
bool story_begin(story *s, const simba_backend *backend, const char *url);
void story_end(story *s);
void story_request(story *s, fuzz_input *in);
/* Write a note, read it, or have the mutex forgotten. */
void story_note(const story *s, fuzz_input *in);
/* Watch one, or watch it no more. */
void story_topic(story *s, fuzz_input *in);

#endif
