/* Time zones, read from the files of the system's time zone database (TZif, RFC 8536).
 *
 * The C library has localtime() and mktime(), but for one zone per process: that of the variable TZ. A library may not change
 * that variable under the program, and two schedules may be in two zones. So we read the files ourselves. This reader is
 * pure: it works on the bytes of a file that the caller keeps, allocates nothing, and trusts nothing in them. */
#ifndef SIMBA_CORE_ZONE_H
#define SIMBA_CORE_ZONE_H

#include <simba.h>

#include "core/zone_rule.h"

#define SIMBA__ZONE_NAME_MAX 64
#define SIMBA__ZONE_FILE_MAX 65536 /* the longest file of the database has less than 4,000 bytes */

typedef struct simba__zone {
    const unsigned char *times; /* NULL: UTC */
    const unsigned char *indexes;
    const unsigned char *types;
    size_t time_size; /* bytes of one time: 4 or 8 */
    size_t count;     /* changes listed */
    simba__zone_rule rule;
} simba__zone;

/* Can this be the name of a zone, such as "Europe/Berlin"? A name becomes part of a path, so it must not lead out of the
 * folder of zones. SIMBA_EINVAL names what is wrong. */
int simba__zone_check_name(const char *name, simba_error *err);

/* Read a file. The zone points into `bytes`, which must stay. SIMBA_ECORRUPT says what is wrong with it. */
int simba__zone_read(const void *bytes, size_t size, simba_error *err, simba__zone *ret_zone);

/* The stretch that a time belongs to, in seconds since 1970. */
simba__zone_stretch simba__zone_stretch_at(const simba__zone *zone, int64_t at_s);

#endif
