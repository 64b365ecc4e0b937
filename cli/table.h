/* The mutexes of a store as a table: what `simba list` prints and `simba top` draws. */
#ifndef SIMBA_CLI_TABLE_H
#define SIMBA_CLI_TABLE_H

#include "cli.h"
#include "term.h"

typedef struct listing_entry {
    char mutex[SIMBA_MUTEX_BYTES + 1];
    simba_owner owner;
    int64_t now_ms;
    int64_t waiters;             /* -1: not known */
    char next[SIMBA_ID_MAX + 1]; /* the first waiter; "": nobody, or not known */
    char *note;                  /* bytes, and a zero behind them; NULL: there is none */
    size_t note_length;
} listing_entry;

typedef struct listing {
    listing_entry *entries;
    size_t count;
    size_t room;
    bool held_only; /* leave out mutexes that nobody holds */
    bool out_of_memory;
} listing;

/* Ask the store. Returns 0, or the code that is in the error too. */
int listing_ask(simba_client *client, const char *pattern, listing *list, simba_error *error);
void listing_free(listing *list);

/* The layout of the table: which columns there are, and which fit. */
typedef struct table_layout {
    int mutex, owner, bar, token; /* columns; 0: left out */
    int note;                     /* the most that there is room for; 0: left out */
    bool waiters;
    bool ttl;
    int64_t longest_ms; /* the time that a full bar stands for */
} table_layout;

table_layout table_measure(const listing *list);
/* A line that is too long for the terminal breaks, and displaces the next ones: so there is a bar only if it fits. */
void table_add_bar(table_layout *l, int width);
/* A picture that is drawn in place must not have a line that breaks: it drops numbers, then cuts names. */
void table_squeeze(table_layout *l, int width);
/* A note gets the room that the rest leaves. */
void table_fit_note(table_layout *l, int width);

/* A head, and at most so many rows from the `first` on. Nothing if the list is empty. */
void table_print(const term *t, const listing *list, const table_layout *l, size_t first, size_t most);

#endif
