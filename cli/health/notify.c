/* See notify.h. */
#include "health/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "util/escape.h"

#define RENEWED_BY_MS 20 /* the end of a lease that is so much later was moved: clocks are read to the millisecond */

/* How often to look whether the store has answered: a loop need not hear of that. */
#define UNREADY_MS 100

typedef enum readiness { READY_CONTENDING, READY_LEADING, READY_CHILD } readiness;

static struct {
    int socket; /* -1: nobody listens */
    address to;
    readiness when;
    bool ready;       /* was told */
    char said[600];   /* the sentence that was told */
    int64_t alive_us; /* of the watchdog; 0: there is none */
    int64_t alive_ns; /* when it was told */
    int64_t lease_end_ns;
    bool warned;  /* that nobody listens */
    bool checked; /* whether the watchdog waits for long enough */
    const char *command;
} notify = {.socket = -1};

static bool parse_when(const char *when, readiness *ret_when)
{
    static const char *const names[] = {
        [READY_CONTENDING] = "contending", [READY_LEADING] = "leading", [READY_CHILD] = "child"};
    for (size_t i = 0; when != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(when, names[i]) == 0) {
            *ret_when = (readiness)i;
            return true;
        }
    }
    return when == NULL;
}

/* WATCHDOG_PID says for which process it is; without it, for the one that was started. */
static int64_t watchdog_us(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    const long long value = usec != NULL ? strtoll(usec, NULL, 10) : 0;
    if (value <= 0 || (pid != NULL && strtol(pid, NULL, 10) != getpid()))
        return 0;
    return value;
}

int notify_open(const char *command, const char *when)
{
    const char *path = getenv("NOTIFY_SOCKET");
    readiness wanted = READY_CONTENDING;
    if (!parse_when(when, &wanted))
        return cli_usage_error(command, "--notify wants contending, leading or child, not \"%s\"", when);
    if (path == NULL || path[0] == '\0' || wanted == READY_CHILD)
        return CLI_GO;
    if (!address_parse_socket(path, &notify.to))
        return cli_fail(command, CLI_CONFIG, "NOTIFY_SOCKET is neither a path nor an abstract socket: \"%s\".", path);
    notify.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify.socket < 0)
        return cli_fail(command, CLI_SYSTEM, "no socket could be made to notify systemd: %s.", strerror(errno));
    notify.when = wanted;
    notify.alive_us = watchdog_us();
    notify.command = command;
    return CLI_GO;
}

/* True: systemd was told. Otherwise try again in the next turn. */
static bool send_words(const char *words)
{
    const ssize_t done = sendto(notify.socket, words, strlen(words), MSG_NOSIGNAL,
                                (const struct sockaddr *)&notify.to.socket, notify.to.length);
    if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK && !notify.warned) {
        cli_warn(notify.command, "systemd cannot be notified: %s.", strerror(errno));
        notify.warned = true;
    }
    return done >= 0;
}

void notify_close(void)
{
    if (notify.socket < 0)
        return;
    send_words("STOPPING=1");
    close(notify.socket);
    notify.socket = -1;
}

bool notify_is_wanted(void)
{
    return notify.socket >= 0;
}

int notify_pause_ms(void)
{
    if (notify.socket < 0)
        return -1;
    if (notify.when == READY_CONTENDING && !notify.ready)
        return UNREADY_MS;
    if (notify.alive_us == 0)
        return -1;
    const int64_t ms = notify.alive_us / 4000;
    return ms < 1 ? 1 : ms < 60000 ? (int)ms : 60000;
}

static void make_sentence(const health_view *view, char *sentence, size_t size)
{
    char mutex[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    char owner[SIMBA__ESCAPED_SIZE(SIMBA_ID_MAX)];
    simba__escape(view->mutex, mutex, sizeof mutex);
    if (health_is_leader(view) && view->refused)
        snprintf(sentence, size, "Leads %.200s, but the store refuses to renew its lease: %s.", mutex,
                 view->refusal.text);
    else if (view->refused)
        snprintf(sentence, size, "Contends for %.200s, which the store refuses: %s.", mutex, view->refusal.text);
    else if (health_is_leader(view) && view->lease.overdue)
        snprintf(sentence, size, "Leads %.200s, but cannot renew its lease.", mutex);
    else if (health_is_leader(view))
        snprintf(sentence, size, "Leads %.200s with token %" PRIu64 ".", mutex, view->lease.token);
    else if (view->lease.token != 0)
        snprintf(sentence, size, "Stops leading %.200s.", mutex);
    else if (simba_owner_is_none(&view->owner))
        snprintf(sentence, size, "Contends for %.200s.", mutex);
    else
        snprintf(sentence, size, "Waits for %.200s, which %.200s owns.", mutex,
                 simba__escape(view->owner.id, owner, sizeof owner));
}

static void tell_sentence(const health_view *view)
{
    char words[sizeof notify.said + 16] = "STATUS=";
    char *sentence = words + strlen(words);
    make_sentence(view, sentence, sizeof notify.said);
    if (strcmp(sentence, notify.said) != 0 && send_words(words))
        strcpy(notify.said, sentence);
}

static void tell_ready(const health_view *view)
{
    const bool ready = notify.when == READY_LEADING ? health_is_leader(view) : view->contends;
    if (ready && !notify.ready)
        notify.ready = send_words("READY=1");
}

/* A process that does not lead has nothing to renew, and lives if its loop runs. */
static bool shows_life(const health_view *view, int64_t now_ns)
{
    if (view->lease.token == 0)
        return now_ns - notify.alive_ns >= notify.alive_us * 1000 / 4;
    const int64_t left_ms = view->lease.left_ms < SIMBA_LEASE_MAX_MS ? view->lease.left_ms : SIMBA_LEASE_MAX_MS;
    const int64_t end_ns = now_ns + left_ms * MS;
    const bool renewed = end_ns > notify.lease_end_ns + RENEWED_BY_MS * MS;
    if (renewed)
        notify.lease_end_ns = end_ns;
    return renewed;
}

/* A healthy leader renews when its ttl ends. A shorter watchdog would kill it. */
static void check_period(const health_view *view)
{
    const int64_t ttl_ms = view->lease.ttl_left_ms;
    if (notify.checked || view->lease.token == 0)
        return;
    notify.checked = true;
    if (notify.alive_us > 0 && ttl_ms * 1000 >= notify.alive_us)
        cli_warn(notify.command,
                 "WatchdogSec of the unit is %" PRId64 " ms, and the lease is renewed every %" PRId64
                 " ms: systemd will take this process for dead.",
                 notify.alive_us / 1000, ttl_ms);
}

void notify_tell(const health_view *view)
{
    check_period(view);
    tell_ready(view);
    tell_sentence(view);
    const int64_t now_ns = clock_boot_ns();
    if (notify.alive_us > 0 && shows_life(view, now_ns) && send_words("WATCHDOG=1"))
        notify.alive_ns = now_ns;
}

bool notify_is_variable(const cli_globals *globals, const char *variable)
{
    static const char *const names[] = {"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return globals->notify == NULL || strcmp(globals->notify, "child") != 0;
    return false;
}
