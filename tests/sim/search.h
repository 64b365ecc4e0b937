/* Every world that choices lead to, breadth first: all worlds that are n choices away before those that are n + 1 away, so the
 * first broken promise is one that no shorter way leads to. The search knows nothing of what a world is. */
#ifndef TESTS_SIM_SEARCH_H
#define TESTS_SIM_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SEARCH_CHOICES = 64 };

typedef struct choice {
    uint8_t kind, contender, slot;
} choice;

/* A world is plain data of `size` bytes, which are copied for every choice. */
typedef struct search_space {
    size_t size;
    const void *user;    /* for `begin` */
    unsigned jobs;       /* threads */
    uint64_t states_max; /* more of them than this: give up */
    void (*begin)(const void *user, void *w);
    unsigned (*choices)(const void *w, choice ret_choices[SEARCH_CHOICES]);
    void (*choose)(void *w, choice what);
    /* One form for all worlds that differ in nothing that matters; and its hash, which is not 0. */
    void (*normalise)(void *w);
    uint64_t (*hash)(const void *w);
    /* What becomes of it when all is well from now on. `w` is left as it is. */
    void (*future)(const void *w, void *ret_future);
    /* The promise that is broken, or was on the way here; NULL: none. */
    const char *(*broken)(const void *w);
    /* From now on write down here what happens. */
    void (*tell)(void *w, FILE *log);
} search_space;

typedef struct search_verdict {
    uint64_t states, choices;
    unsigned depth;   /* choices on the longest way that had to be gone, or on the way to what was broken */
    bool is_complete; /* all was seen, and no promise was broken */
    bool is_broken;
} search_verdict;

/* `log`: where the way to what was broken goes; NULL: nowhere. `ret_broken`: the world in which a promise was broken, if one was. */
void search(const search_space *space, FILE *log, void *ret_broken, search_verdict *ret_verdict);

/* A hash of bytes, which is not 0. */
uint64_t search_hash(const void *bytes, size_t size);

#endif
