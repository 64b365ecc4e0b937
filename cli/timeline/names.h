/* A set of names, numbered in the order in which they came. A name is found in the same time however many there are, because
 * a log may have as many rows as lines. */
#ifndef SIMBA_CLI_TIMELINE_NAMES_H
#define SIMBA_CLI_TIMELINE_NAMES_H

#include <stddef.h>

typedef struct timeline_names {
    const char **names; /* by number; they belong to the caller that added them */
    size_t count, capacity;
    size_t *slots; /* a number and one more; 0: empty */
    size_t slot_count;
} timeline_names;

/* The number of the name, which is added if it is new. The name has to outlive the set. */
size_t timeline_names_add(timeline_names *set, const char *name);
void timeline_names_free(timeline_names *set);

/* `array` with room for one more than `count` of `size` bytes. Ends the process if there is no memory. */
void *timeline_grown(void *array, size_t *capacity, size_t count, size_t size);

#endif
