/* Draws who owned a mutex when: one row per contender, time to the right, in plain characters. For the demo now, and
 * for whatever else wants to show the same picture. */
#ifndef SIMBA_CLI_TIMELINE_H
#define SIMBA_CLI_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "term.h"

/* The later hides the earlier where both fall into one column. */
typedef enum timeline_kind {
    TIMELINE_DEAD,
    TIMELINE_WAITING,
    TIMELINE_OWNER,
} timeline_kind;

typedef enum timeline_sign {
    TIMELINE_ACQUIRED,
    TIMELINE_RELEASED,
    TIMELINE_KILLED,
} timeline_sign;

typedef struct timeline_row {
    const char *name; /* ASCII */
    term_style style;
} timeline_row;

typedef struct timeline_segment {
    size_t row;
    int64_t from_ms;
    int64_t to_ms;
    timeline_kind kind;
} timeline_segment;

typedef struct timeline_mark {
    size_t row;
    int64_t at_ms;
    timeline_sign sign;
} timeline_mark;

typedef struct timeline {
    const timeline_row *rows;
    size_t row_count;
    const timeline_segment *segments;
    size_t segment_count;
    const timeline_mark *marks;
    size_t mark_count;
    int64_t to_ms; /* the picture goes from 0 to here, at least 1 */
} timeline;

/* Marks hide segments, and a later mark an earlier one. What lies outside of the picture is cut off. */
void timeline_print(const timeline *line, const term *t);

#endif
