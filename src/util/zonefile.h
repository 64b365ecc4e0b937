/* The file of a time zone, from the system's database. */
#ifndef SIMBA_UTIL_ZONEFILE_H
#define SIMBA_UTIL_ZONEFILE_H

#include "core/zone.h"

/* A zone and the bytes that it points into. {0} is UTC, which needs no file. */
typedef struct simba__zonefile {
    simba__zone zone;
    void *bytes;
} simba__zonefile;

/* Load the zone of this name, such as "Europe/Berlin". NULL, "" and "UTC" are UTC. Blocks while it reads.
 * Errors: EINVAL (no such name), ENOTFOUND, ECORRUPT, ESYSTEM, ENOMEM. */
int simba__zonefile_load(const char *name, simba_error *err, simba__zonefile *ret_file);
void simba__zonefile_free(simba__zonefile *file);

#endif
