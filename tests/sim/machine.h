/* A pure machine of a store, with all that a small model of its servers may do to it: simba-sim --machine. What is explored is the
 * code that ships; only what is around it is a model. Like explore.h, it takes every choice from a copy of the world, breadth first,
 * and does not go into a world twice.
 *
 *   machine.c               the table of machines, bounds as text, and what came of it
 *   zk_machine_liveness.c   what proves that a ZooKeeper session lives, and servers that report to a leader, die and are replaced
 *   zk_machine_latch*.c     the queue of a mutex in ZooKeeper, and several clients, each with its connection
 *   redis_machine_*.c       who waits for a mutex in Redis and hears of it, and the scripts of the server
 */
#ifndef TESTS_SIM_MACHINE_H
#define TESTS_SIM_MACHINE_H

#include "sim/search.h"

enum { MACHINE_BOUNDS = 12 };

typedef struct machine_bound {
    const char *name;
    unsigned usual, most;
} machine_bound;

/* Every world begins with this. It is no part of what makes it this world and no other. */
typedef struct machine_head {
    const unsigned *bounds; /* in the order of the machine's table */
    const char *promise;    /* that was broken; NULL: none */
    FILE *log;
    int64_t at_ms; /* since the beginning of the log */
    char text[160];
} machine_head;

typedef struct machine {
    const char *name;
    machine_bound bounds[MACHINE_BOUNDS]; /* the last has no name, unless all are used */
    size_t size;            /* of a world: plain data that begins with a head, and nothing but zero between */
    void (*begin)(void *w); /* all but the head is zero */
    unsigned (*choices)(const void *w, choice *ret_choices);
    void (*choose)(void *w, choice what);
    void (*normalise)(void *w);
    void (*future)(const void *w, void *ret_future);
} machine;

#if SIMBA_WITH_REDIS
extern const machine machine_redis_waiters;
#endif
#if SIMBA_WITH_ZOOKEEPER
extern const machine machine_zk_liveness, machine_zk_latch;
#endif

/* For machines: what can happen next. */
typedef struct machine_list {
    choice *at;
    unsigned count;
} machine_list;

static inline void machine_add(machine_list *list, bool is_open, unsigned kind, unsigned member, unsigned slot)
{
    if (is_open && list->count < SEARCH_CHOICES)
        list->at[list->count++] = (choice){(uint8_t)kind, (uint8_t)member, (uint8_t)slot};
}

/* For machines: a promise is broken; something has happened. */
void machine_broken(machine_head *head, const char *promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void machine_tell(machine_head *head, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL: there is none of that name. */
const machine *machine_find(const char *name);
/* One name after the other, from 0 on; NULL: there are no more. */
const char *machine_name(unsigned number);
/* The usual bounds, changed by "kills=2,delays=1". False: that is not understood. */
bool machine_parse(const machine *which, const char *text, unsigned ret_bounds[MACHINE_BOUNDS]);
/* Explore, and say what came of it on `out`, with the shortest way to what is broken. True: all was seen, and every promise kept. */
bool machine_explore(const machine *which, const unsigned *bounds, unsigned jobs, uint64_t states_max, FILE *out,
                     search_verdict *ret_verdict);

#endif
