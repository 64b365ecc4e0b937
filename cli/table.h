/* The mutexes of a store as a table: what `simba list` prints and `simba top` draws. */
#ifndef SIMBA_CLI_TABLE_H
#define SIMBA_CLI_TABLE_H

#include "look.h"
#include "term.h"

/* The layout of the table: which columns there are, and which fit. */
typedef struct table_layout {
    int mutex, owner, bar, token; /* columns; 0: left out */
    int note;                     /* the most that there is room for; 0: left out */
    bool waiters;
    bool ttl;
    int64_t longest_ms; /* the time that a full bar stands for */
} table_layout;

table_layout table_measure(const look *found);
/* A line that is too long for the terminal breaks, and displaces the next ones: so there is a bar only if it fits. */
void table_add_bar(table_layout *l, int width);
/* A picture that is drawn in place must not have a line that breaks: it drops numbers, then cuts names. */
void table_squeeze(table_layout *l, int width);
/* A note gets the room that the rest leaves. */
void table_fit_note(table_layout *l, int width);

/* Print all of it on standard output, with a bar and cut notes if that is a terminal. */
void table_show(const look *found);
/* A head, and at most so many rows from the `first` on. Nothing if the list is empty. */
void table_print(const term *t, const look *found, const table_layout *l, size_t first, size_t most);

#endif
