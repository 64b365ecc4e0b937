/* The clocks. Leases are judged on the boot-time clock, which counts the time a machine sleeps and which nobody can
 * set; the wall clock is for people, and a floor for fencing tokens. */
#ifndef SIMBA_UTIL_CLOCK_H
#define SIMBA_UTIL_CLOCK_H

#include <simba/backend.h>

#define SIMBA__NS_PER_MS INT64_C(1000000)

simba_local simba__clock_boot(void);
int64_t simba__clock_mono_ns(void);
int64_t simba__clock_epoch_us(void);

/* What to add to the boot-time clock of this process to get that of the host: a time namespace may shift it, and
 * processes in different ones have to agree about a lease in a shared file. */
int64_t simba__clock_host_offset_ns(void);

#endif
