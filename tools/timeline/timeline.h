/* Draws who owned a mutex when: one row per contender, time to the right, in characters or as SVG. The demo, `simba
 * timeline` and the simulator all draw with it. */
#ifndef SIMBA_CLI_TIMELINE_H
#define SIMBA_CLI_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "term.h"
#include "timeline/clocks.h"

/* The later hides the earlier where both fall into one column. */
typedef enum timeline_kind {
    TIMELINE_DEAD,
    TIMELINE_UNKNOWN, /* its log has ended, without a word of its own end */
    TIMELINE_WAITING,
    TIMELINE_FAULT,      /* something is wrong with the process, the store or the way between them */
    TIMELINE_REMAINS,    /* the lease of a dead owner, which nobody else may take yet */
    TIMELINE_TRANSITION, /* owner, beyond its ttl */
    TIMELINE_OWNER,
    TIMELINE_CALLBACK, /* in SVG only */
} timeline_kind;

typedef enum timeline_sign {
    TIMELINE_PUSH, /* in SVG only */
    TIMELINE_REQUEST,
    TIMELINE_FAILED,
    TIMELINE_ACQUIRED,
    TIMELINE_RELEASED,
    TIMELINE_LOST, /* leads no more, not of its own will */
    TIMELINE_KILLED,
} timeline_sign;

typedef struct timeline_row {
    const char *name; /* escaped, see util/escape.h */
    term_style style;
} timeline_row;

typedef struct timeline_segment {
    size_t row;
    int64_t from_ms;
    int64_t to_ms;
    timeline_kind kind;
    const char *text; /* shown where there is a pointer; may be NULL */
} timeline_segment;

typedef struct timeline_mark {
    size_t row;
    int64_t at_ms;
    timeline_sign sign;
    const char *text; /* as above */
} timeline_mark;

typedef struct timeline {
    const timeline_row *rows;
    size_t row_count;
    const timeline_segment *segments;
    size_t segment_count;
    const timeline_mark *marks;
    size_t mark_count;
    int64_t to_ms;   /* the picture goes from 0 to here, at least 1 */
    int64_t from_ms; /* where its 0 is on an axis without wall clock */
    int64_t wall_ms; /* the wall clock at that point; 0: not known */
    timeline_agreement agreement;
} timeline;

/* The colour of the row that has this number. */
term_style timeline_style(size_t row);

/* Marks hide segments, and a weightier mark hides a lighter one. Anything outside the picture is cut off. */
void timeline_print(const timeline *line, const term *t);

/* The same in more detail: a file that any browser shows, on a light ground. (svg.c) */
void timeline_svg(const timeline *line, const char *title, FILE *out);

/* The ticks are at first_ms and every tick_ms after it, at round times. (axis.c) */
typedef struct timeline_axis {
    int64_t tick_ms;
    int64_t first_ms;
    int64_t zero_ms; /* the label of the axis at 0 */
    bool wall;
} timeline_axis;

/* At most about so many ticks. */
timeline_axis timeline_axis_of(const timeline *line, int64_t most);
void timeline_axis_label(const timeline_axis *axis, int64_t ms, char *label, size_t size);
/* The day and the zone of the wall clock. False: there is none. */
bool timeline_axis_caption(const timeline *line, char *caption, size_t size);

/* The legend explains only symbols that occur in the picture. */
bool timeline_has_kind(const timeline *line, timeline_kind kind);
bool timeline_has_sign(const timeline *line, timeline_sign sign);

#endif
