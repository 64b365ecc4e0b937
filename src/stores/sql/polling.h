/* Decides which rows this client polls, when, and what is news about them.
 *
 * One query reads all mutexes that somebody here waits for, again and again. How soon a mutex is due again depends on how long
 * nothing has happened to it. It has a level of backoff, from a poll every 40 ms up to one every 900 ms, which grows
 * after twelve polls that brought nothing: to 80 ms after half a second, to 160 ms after more than one, to 900 ms after
 * some thirteen. A change lowers it again: all the way if the wait is young, less far each time that somebody else was
 * faster. With many waiters in many processes each may poll seldom, because somebody always polls. Mutexes of several levels
 * share a query where that suits.
 *
 * If the server reports releases, polling only backs it up: a mutex that was read once has a level of its own, with a poll
 * every five minutes, unless somebody observes it: the server tells of releases alone. Its waiters are not told of renewals then: they
 * ask when the lease that they know of ends, which keeps them in the server's queue.
 *
 * The version of the row decides what is news, compared with the latest that anybody here was told. Two answers may overtake
 * each other on two connections: an older version is not news if it was asked for before the newer one was told.
 *
 * Pure: the time comes from the caller, which also sends the query and pushes the news. */
#ifndef SIMBA_STORES_SQL_POLLING_H
#define SIMBA_STORES_SQL_POLLING_H

#include <simba/backend.h>

#include "util/list.h"
#include "util/table.h"

enum {
    SIMBA__SQL_LEVEL_BACKUP = 6, /* the levels of backoff are below */
    SIMBA__SQL_LEVELS,
};

typedef enum simba__sql_pace {
    SIMBA__SQL_OFTEN,  /* by the levels of backoff */
    SIMBA__SQL_RARELY, /* the server tells of releases */
} simba__sql_pace;

/* One mutex that is polled. */
typedef struct simba__sql_polled simba__sql_polled;
struct simba__sql_polled {
    simba__node node;
    simba__list_item of_level;
    simba__list_item asked;  /* the caller's: it is to be polled, or is being polled */
    bool is_asked, is_found; /* the caller's: it is being polled; and the row was there */
    simba_watch *watch;
    unsigned level, polls, lost;
    bool told; /* the members below were told */
    bool is_free;
    uint64_t version;
    uint64_t owner_hash;
    int64_t transition_at_ms;
    uint64_t note_token, note_number; /* of the note that was read last */
    uint64_t told_at;                 /* on the clock of simba__sql_polling, like the next one */
    uint64_t hastened_at;             /* a poll that began before does not count as the one that was wanted then */
};

typedef struct simba__sql_polling {
    simba__table mutexes;
    simba__list levels[SIMBA__SQL_LEVELS];
    simba_local due[SIMBA__SQL_LEVELS]; /* of the levels that are not empty */
    simba__sql_pace pace;
    uint64_t pace_since; /* on the clock that follows */
    uint64_t clock;      /* counts asks that begin and answers that are told */
    uint64_t seed;
} simba__sql_polling;

void simba__sql_polling_init(simba__sql_polling *polling, uint64_t seed);
void simba__sql_polling_fini(simba__sql_polling *polling);

/* The mutex is due at once. NULL: out of memory. */
simba__sql_polled *simba__sql_polling_add(simba__sql_polling *polling, simba_watch *watch, simba_local now);
void simba__sql_polling_remove(simba__sql_polling *polling, simba__sql_polled *polled);
simba__sql_polled *simba__sql_polling_find(const simba__sql_polling *polling, const char *mutex);

/* Change the pace. All mutexes are due at once. */
void simba__sql_polling_set_pace(simba__sql_polling *polling, simba__sql_pace pace, simba_local now);

/* Poll this mutex once within the time of that level, if that is sooner. */
void simba__sql_polled_hasten(simba__sql_polling *polling, simba__sql_polled *polled, unsigned level, simba_local now);

/* When the next poll is due; INT64_MAX: there is nothing to poll. */
simba_local simba__sql_polling_due(const simba__sql_polling *polling);
/* Append all that are due to a list, through `asked`, and decide when they are due next. */
void simba__sql_polling_take(simba__sql_polling *polling, simba_local now, simba__list *ret_asked);

/* An ask begins: the moment for `began` below. */
uint64_t simba__sql_polling_begin(simba__sql_polling *polling);
/* A poll that began at `began` has come back, with an answer or without. */
void simba__sql_polled_came_back(simba__sql_polling *polling, simba__sql_polled *polled, bool answered, uint64_t began,
                                 simba_local now);
/* What began at `began` has read this version of the row. True: that is news, to be pushed. */
bool simba__sql_polled_read(simba__sql_polling *polling, simba__sql_polled *polled, const simba_reply *reply,
                            uint64_t version, uint64_t began, simba_local now, simba_push *ret_push);
/* A poll read a note of this grant, its write of this number. True: that is news. If two answers overtake each other, a note may be told
 * twice. */
bool simba__sql_polled_read_note(simba__sql_polled *polled, uint64_t token, uint64_t number);

#endif
