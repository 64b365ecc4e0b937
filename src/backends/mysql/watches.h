/* What this client watches, when it is looked at, and what is news.
 *
 * There is no push in MySQL, so all mutexes that somebody here waits for are read by one query, again and again. How soon
 * again depends on how long nothing has happened to a mutex: it stands on a rung of a ladder, from a look every 40 ms up to
 * one every 900 ms, and climbs by one rung after twelve looks that brought nothing: to 80 ms after half a second, to 160 ms
 * after more than one, to 900 ms after some thirteen. A change brings it down again, all the way if the wait is young, less far each time that
 * somebody else was faster: where many wait in many processes, each may look seldom, because somebody always looks.
 * Mutexes of several rungs share a query where that suits.
 *
 * What is news is judged by the version of the row, against the latest that anybody here was told. Two answers may
 * overtake each other on two connections: of an older one that was under way together with a newer one nothing is told.
 *
 * All in turns. */
#ifndef SIMBA_BACKENDS_MYSQL_WATCHES_H
#define SIMBA_BACKENDS_MYSQL_WATCHES_H

#include <simba/backend.h>

enum { SIMBA__MY_RUNGS = 6 };

struct simba__my_item;

typedef struct simba__my_watched simba__my_watched;
struct simba__my_watched {
    simba__my_watched *next; /* in its bucket */
    simba__my_watched *rung_next, **rung_link;
    simba_topic *topic;
    struct simba__my_item *look; /* under way */
    unsigned rung, looks, lost;
    bool told; /* what follows has been told */
    bool is_free;
    uint64_t version;
    size_t owner_hash;
    int64_t transition_at_ms;
    uint64_t stamp; /* when that was learned, as a number of simba__my_watches */
};

typedef struct simba__my_watches {
    simba_host *host;
    simba__my_watched **buckets;
    size_t count, capacity;
    simba__my_watched *rungs[SIMBA__MY_RUNGS];
    size_t counts[SIMBA__MY_RUNGS];
    simba_local due[SIMBA__MY_RUNGS]; /* of those that are not empty */
    uint64_t clock;                   /* counts jobs that begin and answers that are taken in */
    uint64_t seed;
} simba__my_watches;

void simba__my_watches_init(simba__my_watches *watches, simba_host *host);
void simba__my_watches_fini(simba__my_watches *watches);

/* NULL: out of memory. It is due at once. */
simba__my_watched *simba__my_watches_add(simba__my_watches *watches, simba_topic *topic, simba_local now);
void simba__my_watches_remove(simba__my_watches *watches, simba__my_watched *watched);
simba__my_watched *simba__my_watches_find(const simba__my_watches *watches, const char *mutex);

/* When the next look is due; INT64_MAX: there is nothing to look at. */
simba_local simba__my_watches_due(const simba__my_watches *watches);
/* How many are to be looked at now. */
size_t simba__my_watches_count(const simba__my_watches *watches, simba_local now);
/* Call `each` for all of them; when they will be next is settled by this. */
void simba__my_watches_take(simba__my_watches *watches, simba_local now,
                            void (*each)(void *user, simba__my_watched *watched), void *user);

/* A look has come back. */
void simba__my_watched_looked(simba__my_watches *watches, simba__my_watched *watched, simba_local now);
/* Somebody learned the state of the row by a job that began when the clock stood at `began`: tell it if it is news. */
void simba__my_watched_heard(simba__my_watches *watches, simba__my_watched *watched, const simba_reply *reply,
                             uint64_t version, uint64_t began, simba_local now);

#endif
