/* What this client knows of the mutexes that it watches, and when that is news for somebody here.
 *
 * Why no wake-up is lost. Every watched mutex has two marks. `version` is the state of the row that was last told or
 * answered. `known` is a value of its slot in the notify file for which this holds: every change that was marked in
 * the slot up to and including that value is in that state. If the slot of a mutex holds another value than `known`, the
 * client looks at the mutex again; the bell and a slow poll make sure of that. So we only have to show that `known` is
 * never too new. It is set in three places:
 *   - When the watch begins, to a value that no slot ever has: the client reads the row and tells it, once. The contender
 *     that asked for the watch has an answer, but maybe not the latest: another request of the same transaction may have
 *     released the mutex after its own was refused.
 *   - After a transaction that read the row, to the value that was in the slot *during* it: after a write transaction
 *     had its lock, or before a read transaction took its snapshot. Writers mark after their commit. So every change that was
 *     marked by then had been committed before, and the transaction saw it; a later commit is marked later, and makes the
 *     slot differ.
 *   - After a mark of our own, from the value that it replaced to the value that it wrote, for all mutexes of the slot. (If
 *     nobody else listens there is no mark: the slot and `known` stay as they are.) The writer reads and writes the two under
 *     a lock, so nobody marked in between. If somebody else had marked the slot before, `known` is not the value that was
 *     replaced; it stays, and the client looks at the mutex. A writer that did not get the lock may have marked the slot in
 *     between after all. Then it changes the cell `disorder` before it rings, and a client that finds the cell changed
 *     forgets all that is known.
 *
 * All in a turn. */
#ifndef SIMBA_BACKENDS_SQLITE_NEWS_H
#define SIMBA_BACKENDS_SQLITE_NEWS_H

#include <simba/backend.h>

#include "backends/sqlite/ringing.h"

typedef struct simba__sqlite_watched simba__sqlite_watched;
typedef struct simba__sqlite_probe simba__sqlite_probe;
struct simba__sqlite_watched {
    simba__sqlite_watched *next; /* in its slot */
    simba_topic *topic;
    uint64_t hash;
    uint64_t known;
    uint64_t version;
    const simba_request *latest;      /* in the batch at hand */
    simba__sqlite_probe *probe;       /* the look at it that is under way, or NULL */
    uint64_t note_token, note_number; /* of the note that watchers were last told of; UINT64_MAX: of none */
    uint32_t since_ms;                /* since when it waits in its line, see line.h */
    bool is_news;
    bool told_free; /* waiters were told by the slot, before the row was read */
    bool yields;    /* it is free, and another client was invited to take it */
};

typedef struct simba__sqlite_news {
    simba_host *host;
    size_t count;
    bool rescan;       /* look into all slots, also into those that have not changed */
    uint64_t disorder; /* the cell, as it was when the slots were last looked into */
    simba__sqlite_watched *watched[SIMBA__SQLITE_NOTIFY_SLOTS];
    simba__sqlite_notify_cells cells;             /* as they were read for this scan */
    uint64_t scanned[SIMBA__SQLITE_NOTIFY_SLOTS]; /* the value of the slot when it was last looked into */
} simba__sqlite_news;

/* What a request did. */
typedef struct simba__sqlite_effect {
    uint64_t hash;
    uint64_t seen;             /* the slot's value during the transaction */
    uint64_t before, after;    /* versions of the row */
    uint64_t replaced, marked; /* in the slot, after the commit; `marked` 0: no news, `replaced` UNSURE: see notify.h */
    simba__sqlite_invited invited; /* who was invited to take the released mutex */
    bool concerns_note;            /* the next two are set */
    uint64_t note_token, note_number;
    int code;    /* negative: this request failed, and nothing above counts */
    char *fault; /* then the reason. NULL: there was no memory to keep it */
} simba__sqlite_effect;

/* Called for a mutex whose row has to be read. */
typedef void (*simba__sqlite_news_look)(void *user, simba__sqlite_watched *watched);

void simba__sqlite_news_init(simba__sqlite_news *news, simba_host *host);
/* The file was replaced: nothing that is known holds any more. */
void simba__sqlite_news_forget(simba__sqlite_news *news);

/* Watch a mutex. NULL: out of memory. Look at the mutex after you have begun to listen. */
simba__sqlite_watched *simba__sqlite_news_add(simba__sqlite_news *news, simba_topic *topic, uint32_t now_ms);
void simba__sqlite_news_remove(simba__sqlite_news *news, simba__sqlite_watched *watched);
/* NULL: nobody watches it. */
simba__sqlite_watched *simba__sqlite_news_find(const simba__sqlite_news *news, uint64_t hash, const char *mutex);

/* After a transaction, before its requests complete: call `heard` for all requests, then `rang` for all that marked
 * a slot, then `tell` for all, which pushes the news: once per mutex, the state at the end. */
void simba__sqlite_news_heard(simba__sqlite_news *news, const simba__sqlite_effect *effect,
                              const simba_request *request);
void simba__sqlite_news_rang(simba__sqlite_news *news, const simba__sqlite_effect *effect);
void simba__sqlite_news_tell(simba__sqlite_news *news, const simba__sqlite_effect *effect,
                             const simba_request *request);

/* Go through the slots that have changed, or through all if `rescan` is set. If a slot says that a watched mutex was
 * released, believe it at once, so that a waiter can try without another trip to the database. The row is read
 * nevertheless, since the later of two marks need not belong to the later commit. */
void simba__sqlite_news_scan(simba__sqlite_news *news, const simba__sqlite_notify *notify, simba__sqlite_news_look look,
                             void *user);
/* The invited clients have had their time. Tell our waiters of the mutexes that are still free. */
void simba__sqlite_news_step_in(simba__sqlite_news *news, const simba__sqlite_notify *notify);

/* What this client has to write in a line: see line.h. */
uint64_t simba__sqlite_news_place(const simba__sqlite_news *news, size_t line);

#endif
