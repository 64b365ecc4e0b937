/* See clock.h. */
#include "util/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

simba_local simba__clock_boot(void)
{
    return (simba_local){read_ns(CLOCK_BOOTTIME)};
}

int64_t simba__clock_mono_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t simba__clock_epoch_us(void)
{
    return read_ns(CLOCK_REALTIME) / 1000;
}

int64_t simba__clock_host_offset_ns(void)
{
    FILE *file = fopen("/proc/self/timens_offsets", "re");
    if (!file)
        return 0; /* a kernel without time namespaces */
    char name[32];
    long long seconds;
    long long nanoseconds;
    int64_t offset = 0;
    /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote these numbers. */
    while (fscanf(file, "%31s %lld %lld", name, &seconds, &nanoseconds) == 3)
        if (name[0] == 'b') /* boottime */
            offset = -(int64_t)(seconds * 1000000000 + nanoseconds);
    fclose(file);
    return offset;
}
