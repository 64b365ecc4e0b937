/* The clocks of the hosts whose logs are drawn together. The lines of a host are on its boot-time clock, which
 * begins anew with every boot. Now and then a line says what the wall clock and the store's clock show at that
 * moment. All hosts see the same store, so its clock puts their lines into one order, however wrong the clocks of
 * the hosts are. */
#ifndef SIMBA_CLI_TIMELINE_CLOCKS_H
#define SIMBA_CLI_TIMELINE_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A set of names, numbered in the order in which they came. A name is found soon however many there are, because a log
 * may have as many rows as lines. */
typedef struct timeline_names {
    const char **names; /* by number; they belong to the caller that added them */
    size_t count, capacity;
    void *tree; /* of tsearch(3): the names with their numbers */
} timeline_names;

/* The number of the name, which is added if it is new. The name must outlive the set. */
size_t timeline_names_add(timeline_names *set, const char *name);
void timeline_names_free(timeline_names *set);

/* `array` with room for one more than `count` of `size` bytes. Ends the process if there is no memory. */
void *timeline_grown(void *array, size_t *capacity, size_t count, size_t size);

#define TIMELINE_TIME_MAX (INT64_C(1) << 62) /* 146 years: differences of two moments do not overflow */

/* The clocks at one moment. */
typedef struct timeline_reading {
    int64_t boot_ns;
    int64_t wall_ns;
    int64_t store_ns; /* -1: not known */
    int64_t round_ns; /* the store looked at its clock within so long before boot_ns */
} timeline_reading;

typedef struct timeline_clock {
    timeline_reading reading; /* the most exact one; wall_ns -1: there is none */
    int64_t heard_ns;         /* of the last line, on this clock */
    int64_t shift_ns;         /* from this clock to the common one */
    bool used;
} timeline_clock;

/* Clock 0 has no name: it is for lines whose host is not known. */
typedef struct timeline_clocks {
    timeline_names boots;
    timeline_clock *clocks;
    size_t capacity;
} timeline_clocks;

void timeline_clocks_init(timeline_clocks *set);
void timeline_clocks_free(timeline_clocks *set);

size_t timeline_clocks_add(timeline_clocks *set, const char *boot);
void timeline_clock_read(timeline_clock *clock, const timeline_reading *reading);

/* How well the clocks could be aligned. */
typedef enum timeline_agreement {
    TIMELINE_AGREED,  /* it is one clock, or all know the store's */
    TIMELINE_BY_WALL, /* by the wall clocks of the hosts, which may differ */
    TIMELINE_UNRELATED, /* some lines say nothing of their clock, and are taken for those of another host in the picture */
} timeline_agreement;

/* Fills in shift_ns. Add *ret_wall_ns to the common clock to get the wall clock of a host; INT64_MIN: not known. */
timeline_agreement timeline_clocks_agree(timeline_clocks *set, int64_t *ret_wall_ns);

/* A moment of the clock on the common one. */
int64_t timeline_clock_common(const timeline_clock *clock, int64_t boot_ns);

#endif
