/* See picture.h. */
#include "picture.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static void add(char *picture, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char *picture, const char *format, ...)
{
    const size_t length = strlen(picture);
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(picture + length, PICTURE_SIZE - length, format, args);
    va_end(args);
    if (more < 0 || length + (size_t)more >= PICTURE_SIZE) {
        fprintf(stderr, "the picture has no room\n");
        abort();
    }
}

/* The C library sets this flag in every action that goes through it; it means nothing to a program. */
#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

static void add_signals(char *picture)
{
    sigset_t blocked, pending;
    stack_t stack = {0};
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    sigpending(&pending);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action = {0};
        if (sigaction(number, NULL, &action) != 0)
            continue;
        add(picture, "signal %d: handler %lx, flags %x%s%s\n", number, (unsigned long)action.sa_handler,
            (unsigned)(action.sa_flags & ~SA_RESTORER), sigismember(&blocked, number) ? ", blocked" : "",
            sigismember(&pending, number) ? ", pending" : "");
    }
    sigaltstack(NULL, &stack);
    add(picture, "signal stack: %p, flags %x\n", stack.ss_sp, (unsigned)stack.ss_flags);
}

static void add_process(char *picture)
{
    char text[4096] = "";
    add(picture, "locale: %s, of the thread %p\n", setlocale(LC_ALL, NULL), (void *)uselocale((locale_t)0));
    for (char **variable = environ; *variable; variable++)
        add(picture, "environment: %s\n", *variable);
    const mode_t mask = umask(0);
    umask(mask);
    add(picture, "umask: %o\n", (unsigned)mask);
    add(picture, "working directory: %s\n", getcwd(text, sizeof text));
    prctl(PR_GET_NAME, text);
    add(picture, "name of the thread: %s\n", text);
    add(picture, "dumpable: %d\n", prctl(PR_GET_DUMPABLE));
    add(picture, "priority: %d\n", getpriority(PRIO_PROCESS, 0));
    for (int which = 0; which < RLIM_NLIMITS; which++) {
        struct rlimit limit = {0};
        getrlimit((__rlimit_resource_t)which, &limit);
        add(picture, "limit %d: %llx of %llx\n", which, (unsigned long long)limit.rlim_cur,
            (unsigned long long)limit.rlim_max);
    }
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        struct itimerval timer = {0};
        getitimer((__itimer_which_t)which, &timer);
        add(picture, "timer %d: %s\n", which, timer.it_value.tv_sec || timer.it_value.tv_usec ? "set" : "not set");
    }
}

static void add_descriptors(char *picture)
{
    for (int fd = 0; fd <= 2; fd++) {
        struct stat about = {0};
        /* A descriptor that can be neither read nor written is as good as closed. */
        if (fstat(fd, &about) != 0 || (fcntl(fd, F_GETFL) & O_PATH))
            add(picture, "descriptor %d: closed\n", fd);
        else
            add(picture, "descriptor %d: %lx:%lx, flags %x, %x\n", fd, (unsigned long)about.st_dev,
                (unsigned long)about.st_ino, (unsigned)fcntl(fd, F_GETFL), (unsigned)fcntl(fd, F_GETFD));
    }
}

void picture_take(char picture[PICTURE_SIZE])
{
    picture[0] = '\0';
    add_signals(picture);
    add_process(picture);
    add_descriptors(picture);
}

bool picture_same(const char *before, const char *after, const char *when)
{
    while (*before && *before == *after) {
        const size_t length = strcspn(before, "\n") + 1;
        if (strncmp(before, after, length) != 0)
            break;
        before += length;
        after += length;
    }
    if (!*before && !*after)
        return true;
    fprintf(stderr, "%s, %.*s became %.*s\n", when, (int)strcspn(before, "\n"), before, (int)strcspn(after, "\n"),
            after);
    return false;
}
