/* The clocks. The boot-time clock judges leases: it counts the time a machine sleeps, and nobody can set it. The
 * wall clock is for people, and a floor for fencing tokens. */
#ifndef SIMBA_UTIL_CLOCK_H
#define SIMBA_UTIL_CLOCK_H

#include <simba/backend.h>

#define SIMBA__NS_PER_MS INT64_C(1000000)

simba_local simba__clock_boot(void);
int64_t simba__clock_mono_ns(void);
int64_t simba__clock_epoch_us(void);

/* The offset from this process's boot-time clock to the host's. A time namespace may shift it, and processes in
 * different ones must agree about a lease in a shared file. */
int64_t simba__clock_host_offset_ns(void);

#endif
