/* A clock that is ignored, in effect: for the library in all contenders but contender-0 every clock goes at a tenth of its speed,
 * so that they believe in their leases long after those have ended. Loaded by LD_PRELOAD. The command itself, which reports the
 * times that are judged, is not lied to. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static bool slow;

__attribute__((constructor)) static void look_who_it_is(void)
{
    char text[4096];
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t length = read(fd, text, sizeof text);
    close(fd);
    slow = length > 0 && memmem(text, (size_t)length, "torture-contender", sizeof "torture-contender") != NULL &&
           memmem(text, (size_t)length, "contender-0", sizeof "contender-0") == NULL;
}

static bool is_library(const void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libsimba.so") != NULL;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static int64_t first_ns[16];
    const int rc = (int)syscall(SYS_clock_gettime, clock, ret_time);
    if (rc != 0 || !slow || clock < 0 || clock >= 16 || !is_library(__builtin_return_address(0)))
        return rc;
    const int64_t now_ns = ret_time->tv_sec * SECOND + ret_time->tv_nsec;
    int64_t begun_ns = 0;
    if (!__atomic_compare_exchange_n(&first_ns[clock], &begun_ns, now_ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        begun_ns = __atomic_load_n(&first_ns[clock], __ATOMIC_RELAXED);
    else
        begun_ns = now_ns;
    const int64_t told_ns = begun_ns + (now_ns - begun_ns) / 10;
    *ret_time = (struct timespec){told_ns / SECOND, told_ns % SECOND};
    return 0;
}
