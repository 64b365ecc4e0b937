/* See eventlog.h. */
#include "runtime/eventlog.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/chronicle.h"
#include "runtime/notice.h"
#include "util/clock.h"
#include "util/escape.h"

static bool is_wanted(const simba__speaker *who)
{
    return simba__is_heard(&who->client->options, SIMBA_LOG_EVENT);
}

/* A word of a line has no blanks and no unprintable bytes. */
static size_t add_word(char *line, size_t size, size_t at, const char *text)
{
    while (*text && at + 4 < size) {
        uint32_t code;
        size_t length = simba__utf8_next(text, &code);
        if (length > 0 && simba__is_printable(code) && *text != ' ' && *text != '%') {
            for (; length > 0; length--)
                line[at++] = *text++;
        } else {
            at += (size_t)snprintf(line + at, size - at, "%%%02x", (unsigned char)*text++);
        }
    }
    line[at] = '\0';
    return at;
}

static void write_line(const simba__speaker *who, int64_t at_ns, const char *words)
{
    char line[SIMBA_MUTEX_BYTES * 3 + SIMBA_ID_MAX * 3 + 192];
    size_t at = (size_t)snprintf(line, sizeof line, "%lld ", (long long)at_ns);
    at = add_word(line, sizeof line - 160, at, who->mutex);
    line[at++] = '/';
    at = add_word(line, sizeof line - 160, at, who->id);
    snprintf(line + at, sizeof line - at, " %s", words);
    simba__log_event(&who->client->options, line);
}

struct moment {
    const simba__speaker *who;
    int64_t at_ns;
};

static void say(void *user, const char *words)
{
    const struct moment *moment = user;
    write_line(moment->who, moment->at_ns, words);
}

/* The name of this host's boot-time clock: every boot has another one. */
static char boot[40] = "unknown";

static void read_boot(void)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd >= 0 ? read(fd, boot, sizeof boot - 1) : -1;
    if (length > 0)
        boot[strcspn(boot, " \n")] = '\0';
    if (fd >= 0)
        close(fd);
}

/* What the other clocks show at the moment of the event: the wall clock always, the store's with an answer. The
 * store looked at its clock between the request and the answer. If the step has sent the next request, the time of
 * this one is lost. */
static void say_clocks(const simba__contention *machine, const simba__event *event, const simba__actions *actions,
                       struct moment *moment)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const bool answered = event->kind == SIMBA__EV_REPLY && event->reply->status == 0 && !actions->submit &&
                          event->reply->now_ms > 0 && event->now.ns >= machine->sent_at.ns;
    char words[160];
    if (event->kind != SIMBA__EV_START && !answered)
        return;
    pthread_once(&once, read_boot);
    size_t at = (size_t)snprintf(words, sizeof words, "clock %" PRId64, simba__clock_epoch_us() * 1000);
    if (answered)
        snprintf(words + at, sizeof words - at, " %" PRId64 "000000 %" PRId64 " %s", event->reply->now_ms,
                 event->now.ns - machine->sent_at.ns, boot);
    else
        snprintf(words + at, sizeof words - at, " - - %s", boot);
    say(moment, words);
}

void simba__eventlog_step(const simba__speaker *who, const simba__contention *machine, const simba__event *event,
                          const simba__actions *actions)
{
    if (!is_wanted(who))
        return;
    struct moment moment = {who, event->now.ns};
    say_clocks(machine, event, actions, &moment);
    simba__chronicle_step(machine, event, actions, 0, say, &moment);
}

void simba__eventlog_say(const simba__speaker *who, const char *words)
{
    if (is_wanted(who))
        write_line(who, simba__clock_boot().ns, words);
}
