/* Connections in place of net/link.c, with the same contract and no sockets: the target says when one is made, what comes by
 * it and when it breaks. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/host.h"
#include "util/clock.h"

simba__link *fuzz_links[FUZZ_LINKS];
size_t fuzz_link_count;
void (*fuzz_link_sent)(const simba__link *link, const char *bytes, size_t length);

enum { BACKOFF_MS = 100 };

/* --- what was asked ------------------------------------------------------------------------------------------------ */

enum { ASKED = 64 };

/* By the number of the link: the first words of commands that were sent. */
static struct {
    char words[ASKED][FUZZ_WORD];
    size_t first, count;
} asked[FUZZ_LINKS];

static size_t number_of(const simba__link *link)
{
    size_t number = 0;
    while (fuzz_links[number] != link)
        number++;
    return number;
}

/* A command is "*COUNT" and then, for each word, "$LENGTH" and the word. */
static void note_asked(const simba__link *link)
{
    const size_t number = number_of(link);
    const char *at = link->out.data;
    const char *end = at + link->out.length;
    while (at < end) {
        char *after;
        FUZZ_CHECK(*at == '*');
        unsigned long words = strtoul(at + 1, &after, 10);
        FUZZ_CHECK(words > 0);
        at = after + 2;
        for (bool is_first = true; words > 0; words--, is_first = false) {
            FUZZ_CHECK(*at == '$');
            const size_t length = strtoul(at + 1, &after, 10);
            if (is_first && asked[number].count < ASKED)
                snprintf(asked[number].words[(asked[number].first + asked[number].count++) % ASKED], FUZZ_WORD, "%.*s",
                         (int)length, after + 2);
            at = after + 2 + length + 2;
            FUZZ_CHECK(at <= end);
        }
    }
}

bool fuzz_link_asked(const simba__link *link, char ret_word[FUZZ_WORD])
{
    const size_t number = number_of(link);
    if (asked[number].count == 0)
        return false;
    strcpy(ret_word, asked[number].words[asked[number].first]);
    asked[number].first = (asked[number].first + 1) % ASKED;
    asked[number].count--;
    return true;
}

/* --- links ---------------------------------------------------------------------------------------------------------- */

static void let_go(simba__link *link)
{
    asked[number_of(link)].count = 0;
    link->life++;
    link->refused = 0;
    link->out.length = 0;
    link->out.failed = false;
}

void simba__link_fail(simba__link *link, int code, const char *format, ...)
{
    if (link->state != SIMBA__LINK_CONNECTING && link->state != SIMBA__LINK_UP)
        return;
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    link->error = error;
    link->failures++;
    link->state = SIMBA__LINK_WAITING;
    let_go(link);
    const simba_local now = link->host->now(link->host);
    link->host->timer_set(link->host, &link->timer, (simba_local){now.ns + BACKOFF_MS * SIMBA__NS_PER_MS});
    link->events->down(link);
}

void simba__link_open(simba__link *link)
{
    if (link->state == SIMBA__LINK_CONNECTING || link->state == SIMBA__LINK_UP)
        return;
    link->state = SIMBA__LINK_CONNECTING;
    link->host->timer_clear(link->host, &link->timer);
    link->events->find(link);
}

bool simba__link_seeks(const simba__link *link)
{
    return link->state == SIMBA__LINK_CONNECTING && link->refused == 0;
}

/* `refused` says here that the address is known, and the connection is being made. */
void simba__link_found(simba__link *link)
{
    if (!simba__link_seeks(link))
        return;
    const simba_local now = link->host->now(link->host);
    link->refused = 1;
    link->begun_at = now;
    link->host->timer_set(link->host, &link->timer, (simba_local){now.ns + link->connect_timeout_ns});
}

void simba__link_hurry(simba__link *link)
{
    const simba_local now = link->host->now(link->host);
    if ((link->state != SIMBA__LINK_WAITING && link->state != SIMBA__LINK_CONNECTING) || link->hurries >= 4 ||
        now.ns - link->begun_at.ns < BACKOFF_MS * SIMBA__NS_PER_MS)
        return;
    link->hurries++;
    let_go(link);
    link->state = SIMBA__LINK_WAITING;
    simba__link_open(link);
}

void simba__link_flush(simba__link *link)
{
    if (link->state != SIMBA__LINK_UP)
        return;
    if (link->out.length > 0 && fuzz_link_sent)
        fuzz_link_sent(link, link->out.data, link->out.length);
    else if (link->out.length > 0)
        note_asked(link);
    link->out.length = 0;
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__link *link = (simba__link *)(void *)((char *)timer - offsetof(simba__link, timer));
    if (link->state == SIMBA__LINK_CONNECTING)
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "no answer");
    else if (link->state == SIMBA__LINK_UP)
        link->events->tick(link, now);
    else if (link->state == SIMBA__LINK_WAITING)
        simba__link_open(link);
}

int simba__link_init(simba__link *link, simba__links *all, const simba__link_events *events, int64_t connect_timeout_ns)
{
    if (fuzz_link_count == FUZZ_LINKS)
        return SIMBA_ENOMEM;
    link->host = all->host;
    link->all = all;
    link->events = events;
    link->connect_timeout_ns = connect_timeout_ns;
    link->socket.fd = -1;
    link->timer.fire = on_timer;
    const int rc = link->host->timer_add(link->host, &link->timer);
    if (rc == 0)
        fuzz_links[fuzz_link_count++] = link;
    return rc;
}

void simba__link_close(simba__link *link)
{
    link->state = SIMBA__LINK_CLOSED;
    link->host->timer_clear(link->host, &link->timer);
    let_go(link);
}

void simba__link_fini(simba__link *link)
{
    simba__buffer_free(&link->out);
}

/* --- the other end ------------------------------------------------------------------------------------------------ */

void fuzz_link_connect(simba__link *link, bool refused)
{
    if (link->state != SIMBA__LINK_CONNECTING || link->refused == 0)
        return;
    if (refused) {
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "refused");
        return;
    }
    link->refused = 0;
    link->state = SIMBA__LINK_UP;
    link->host->timer_clear(link->host, &link->timer);
    link->events->up(link);
    simba__link_flush(link);
}

void fuzz_link_deliver(simba__link *link, const char *data, size_t length)
{
    if (link->state == SIMBA__LINK_UP)
        link->events->bytes(link, data, length);
    simba__link_flush(link);
}
