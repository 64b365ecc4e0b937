/* Generators of contender ids.
 *
 * The default id names the host and the process, for people, and has a number that no other process has, for the store: two
 * containers can have the same host name and the same pid. It has at most 32 characters, lower-case letters, digits and
 * "-", "~" and ".", so every store has room for it, even an old table of the JVM's whose column is char(32), and one that
 * ignores case. The JVM's own ids are "{counter}:{pid}@{address}" or 32 hexadecimal digits. Our ids never have a ":" and
 * always have a ".", so the two never collide. */
#include <ctype.h>
#include <pthread.h>
#include <simba.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/random.h"

enum {
    HOST_MAX = 14,   /* characters of the host's name */
    TAIL = 6,        /* of those, how many come from its end if it is longer */
    NUMBER_SIZE = 8, /* digits of 5 bits */
};

/* The next number of this process, or 0 before the first. Numbers go up by one from a random beginning: they always
 * differ within a process, and almost certainly between processes. */
static _Atomic uint64_t next_number;

/* A child begins anew: in a pid namespace of its own it may have its parent's pid. */
static void forked(void)
{
    atomic_store(&next_number, 0);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forked);
}

static uint64_t draw_number(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    uint64_t none = 0;
    uint64_t beginning;
    if (atomic_load(&next_number) == 0) {
        if (simba__random_bytes(&beginning, sizeof beginning) < 0) {
            /* Only if the kernel has no randomness at all. */
            beginning = (uint64_t)simba__clock_mono_ns() ^ (uint64_t)simba__clock_epoch_us() << 20;
            beginning = simba__random_next(&beginning);
        }
        beginning |= 1; /* never 0; the numbers after it may be even */
        atomic_compare_exchange_strong(&next_number, &none, beginning);
    }
    return atomic_fetch_add(&next_number, 1);
}

/* 40 bits, without letters that look like others. */
static void write_number(uint64_t number, char out[NUMBER_SIZE + 1])
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    for (size_t i = NUMBER_SIZE; i-- > 0; number >>= 5)
        out[i] = digits[number % 32];
    out[NUMBER_SIZE] = '\0';
}

/* The first label of the host's name. Of a long one the beginning and the end, because the names of containers
 * differ there. From the kernel alone: a name server might not answer. */
static void write_host(char out[HOST_MAX + 1])
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0)
        name[0] = '\0';
    name[strcspn(name, ".")] = '\0';
    for (char *c = name; *c; c++)
        *c = (char)(isascii((unsigned char)*c) && isalnum((unsigned char)*c) ? tolower((unsigned char)*c) : '-');
    const size_t length = strlen(name);
    if (length > HOST_MAX)
        snprintf(out, HOST_MAX + 1, "%.*s~%s", HOST_MAX - TAIL - 1, name, name + length - TAIL);
    else
        snprintf(out, HOST_MAX + 1, "%s", length ? name : "host");
}

void simba_id_host(char ret_id[SIMBA_ID_MAX + 1])
{
    char host[HOST_MAX + 1];
    char number[NUMBER_SIZE + 1];
    write_host(host);
    write_number(draw_number(), number);
    snprintf(ret_id, SIMBA_ID_MAX + 1, "%s.%ld.%s", host, (long)getpid(), number);
}

int simba_id_uuid(char ret_id[SIMBA_ID_MAX + 1])
{
    unsigned char bytes[16];
    const int rc = simba__random_bytes(bytes, sizeof bytes);
    if (rc < 0)
        return rc;
    bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x40); /* version 4 */
    bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret_id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}
