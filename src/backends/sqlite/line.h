/* Which process waits for which mutex, of all that use the database, and in which order they came. So a release wakes
 * the one that is next, however many wait.
 *
 * The notify file has 512 lines; the hash of a mutex says which line it has. A line has a cell for every bell (see
 * bell.h), in which the owner of that bell says which mutex it waits for and since when. A client with several mutexes
 * in one line says that it has to be told of all of them.
 *
 * Only the owner of a bell writes its cells. There is one exception: a process that finds a bell without an owner
 * empties the cell that led there. Everything here is a function of numbers; notify.h reads and writes them. */
#ifndef SIMBA_BACKENDS_SQLITE_LINE_H
#define SIMBA_BACKENDS_SQLITE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/sqlite/bell.h"

enum { SIMBA__SQLITE_LINES = 512 };

typedef struct simba__sqlite_line {
    uint64_t cells[SIMBA__SQLITE_BELLS]; /* 0: nobody waits */
} simba__sqlite_line;

static inline size_t simba__sqlite_line_number(uint64_t hash)
{
    return hash % SIMBA__SQLITE_LINES;
}

/* The cell of a client that waits for one mutex since `since_ms`. `observed`: it wants to hear of every change, not only
 * of a release that it may take. */
uint64_t simba__sqlite_line_cell(uint64_t hash, bool observed, uint32_t since_ms);
/* The cell of a client that waits for several mutexes of the line. */
uint64_t simba__sqlite_line_cell_of_several(void);

/* Does this client want to hear of every change of the mutex? */
bool simba__sqlite_line_observes(uint64_t cell, uint64_t hash);
/* The bell of the client that has waited longest for the mutex; -1: nobody waits. Times may wrap around; nobody has
 * waited for more than three weeks. */
int simba__sqlite_line_first(const simba__sqlite_line *line, uint64_t hash, uint32_t now_ms);

#endif
