/* See history.h. */
#include "torture/history.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "net/json.h"

/* Times far beyond any run are refused, so that the judge can add and subtract them without care. */
#define TIME_MAX_NS (INT64_C(366) * 86400 * 1000000000)

/* Of a name or a word, with its end. */
enum { WORD_MAX = sizeof((torture_event *)NULL)->what };

const char *torture_kind_word(torture_kind kind)
{
#define TORTURE_KIND_WORD(name, word) word,
    static const char *const words[] = {TORTURE_KINDS(TORTURE_KIND_WORD)};
    assert(kind < TORTURE_KIND_COUNT);
    return words[kind];
}

/* --- writing ------------------------------------------------------------------------------------- */

size_t torture_event_write(const torture_event *event, char ret_line[TORTURE_LINE_MAX])
{
    const size_t size = TORTURE_LINE_MAX;
    size_t length = (size_t)snprintf(ret_line, size, "{\"at\":%" PRId64 ",\"kind\":\"%s\"", event->at_ns,
                                     torture_kind_word(event->kind));
    if (event->contender != TORTURE_EVERYBODY)
        length += (size_t)snprintf(ret_line + length, size - length, ",\"contender\":%d,\"life\":%u", event->contender,
                                   event->life);
    if (event->kind == TORTURE_HOLDS || event->kind == TORTURE_RELEASED || event->kind == TORTURE_SEES)
        length += (size_t)snprintf(ret_line + length, size - length, ",\"mutex\":%u,\"token\":\"%" PRIu64 "\"",
                                   event->mutex, event->token);
    if (event->kind == TORTURE_HOLDS)
        length += (size_t)snprintf(ret_line + length, size - length,
                                   ",\"seen\":%" PRId64 ",\"to\":%" PRId64 ",\"until\":%" PRId64, event->seen_ns,
                                   event->to_ns, event->until_ns);
    else if (event->kind == TORTURE_LATE || event->kind == TORTURE_FAILED || event->kind == TORTURE_KILLED)
        length += (size_t)snprintf(ret_line + length, size - length, ",\"to\":%" PRId64, event->to_ns);
    if (event->what[0] != '\0')
        length += (size_t)snprintf(ret_line + length, size - length, ",\"what\":\"%s\"", event->what);
    length += (size_t)snprintf(ret_line + length, size - length, "}\n");
    assert(length < size);
    return length;
}

/* --- reading ------------------------------------------------------------------------------------- */

typedef struct reading {
    simba__json line;
    const char *const
        *needed; /* the members that it must have, a list that NULL ends; NULL: any member may be missing */
    char *flaw;  /* NULL: nobody asks */
} reading;

static bool __attribute__((format(printf, 2, 3))) refuse(const reading *r, const char *format, ...)
{
    if (r->flaw != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(r->flaw, TORTURE_FLAW_MAX, format, arguments);
        va_end(arguments);
    }
    return false;
}

static bool read_object(const char *line, reading *r)
{
    const bool good = simba__json_read(line, strlen(line), &r->line) && r->line.at[0] == '{';
    return good || refuse(r, "it is no JSON object");
}

/* False: the member is not there; it is a flaw if it is needed. */
static bool find(const reading *r, const char *name, simba__json *ret_value, bool *ret_good)
{
    *ret_value = simba__json_get(r->line, name);
    *ret_good = true;
    if (ret_value->length > 0)
        return true;
    for (const char *const *needed = r->needed; needed != NULL && *needed != NULL; needed++)
        if (strcmp(*needed, name) == 0)
            *ret_good = refuse(r, "\"%s\" is missing", name);
    return false;
}

/* With quotation marks or without. Otherwise it stays as it was. */
static bool read_number(const reading *r, const char *name, uint64_t most, uint64_t *ret_number)
{
    char text[WORD_MAX];
    char *end;
    simba__json value;
    bool good;
    if (!find(r, name, &value, &good))
        return good;
    if (!simba__json_text(value, text, sizeof text))
        snprintf(text, sizeof text, "%.*s", value.length < sizeof text ? (int)value.length : WORD_MAX - 1, value.at);
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > most)
        return refuse(r, "\"%s\" is %s, and not a number from 0 to %" PRIu64, name, text, most);
    *ret_number = number;
    return true;
}

static bool read_time(const reading *r, const char *name, int64_t *ret_ns)
{
    uint64_t ns = 0;
    const bool good = read_number(r, name, TIME_MAX_NS, &ns);
    *ret_ns = (int64_t)ns;
    return good;
}

/* Printable ASCII that needs no escapes. */
static bool read_word(const reading *r, const char *name, char ret_word[WORD_MAX])
{
    simba__json value;
    bool good;
    ret_word[0] = '\0';
    if (!find(r, name, &value, &good))
        return good;
    good = simba__json_text(value, ret_word, WORD_MAX);
    for (const char *at = ret_word; *at != '\0'; at++)
        good = good && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\';
    return good || refuse(r, "the value of \"%s\" is no plain word of at most %d characters", name, WORD_MAX - 1);
}

/* What a line of each kind must have, beside its time. */
static const char *const needed_members[TORTURE_KIND_COUNT][7] = {
    [TORTURE_CONTENDS] = {"contender"},
    [TORTURE_HOLDS] = {"contender", "mutex", "token", "seen", "to", "until"},
    [TORTURE_RELEASED] = {"contender", "mutex", "token", "what"},
    [TORTURE_SEES] = {"contender", "mutex", "token"},
    [TORTURE_STOPPED] = {"contender"},
    [TORTURE_LATE] = {"to"},
    [TORTURE_FAILED] = {"to"},
    [TORTURE_FAULT] = {"what"},
    [TORTURE_HEALED] = {"what"},
    [TORTURE_KILLED] = {"contender", "to"},
    [TORTURE_ASKED] = {"contender"},
    [TORTURE_ENDED] = {"contender", "what"},
};

bool torture_event_read(const char *line, torture_event *ret_event, char ret_flaw[TORTURE_FLAW_MAX])
{
    static const char *const always[] = {"at", "kind", NULL};
    torture_event e = {0};
    reading r = {.needed = always};
    char kind[WORD_MAX];
    uint64_t contender = UINT64_MAX;
    uint64_t life = 0;
    uint64_t mutex = 0;
    r.flaw = ret_flaw;
    if (!read_object(line, &r) || !read_time(&r, "at", &e.at_ns) || !read_word(&r, "kind", kind))
        return false;
    while (e.kind < TORTURE_KIND_COUNT && strcmp(kind, torture_kind_word(e.kind)) != 0)
        e.kind++;
    if (e.kind == TORTURE_KIND_COUNT)
        return refuse(&r, "\"kind\" is %s, which is none", kind);
    r.needed = needed_members[e.kind];
    if (!read_number(&r, "contender", TORTURE_CONTENDERS_MAX - 1, &contender) ||
        !read_number(&r, "life", UINT32_MAX, &life) || !read_number(&r, "mutex", TORTURE_MUTEXES_MAX - 1, &mutex) ||
        !read_number(&r, "token", UINT64_MAX, &e.token) || !read_time(&r, "seen", &e.seen_ns) ||
        !read_time(&r, "to", &e.to_ns) || !read_time(&r, "until", &e.until_ns) || !read_word(&r, "what", e.what))
        return false;
    /* The judge relies on the order of the times. */
    if (e.kind == TORTURE_HOLDS && e.seen_ns < e.at_ns)
        return refuse(&r, "\"seen\" is before \"at\"");
    if (simba__json_get(r.line, "to").length > 0 && e.to_ns < e.at_ns)
        return refuse(&r, "\"to\" is before \"at\"");
    if (e.kind == TORTURE_HOLDS && e.until_ns < e.to_ns)
        return refuse(&r, "\"until\" is before \"to\"");
    e.contender = contender == UINT64_MAX ? TORTURE_EVERYBODY : (int)contender;
    e.life = (unsigned)life;
    e.mutex = (unsigned)mutex;
    *ret_event = e;
    return true;
}

/* --- the first line ------------------------------------------------------------------------------ */

size_t torture_setup_write(const torture_setup *setup, char ret_line[TORTURE_LINE_MAX])
{
    const int length =
        snprintf(ret_line, TORTURE_LINE_MAX,
                 "{\"kind\":\"run\",\"seed\":\"%" PRIu64 "\",\"contenders\":%d,\"mutexes\":%u,\"lease\":%" PRId64
                 ",\"outage\":%" PRId64 ",\"takeover\":%" PRId64 ",\"handover\":%" PRId64 "}\n",
                 setup->seed, setup->contenders, setup->mutexes, setup->lease_ns, setup->outage_ns, setup->takeover_ns,
                 setup->handover_ns);
    assert(length > 0 && length < TORTURE_LINE_MAX);
    return (size_t)length;
}

bool torture_setup_read(const char *line, torture_setup *ret_setup, char ret_flaw[TORTURE_FLAW_MAX])
{
    static const char *const always[] = {"kind", "contenders", "mutexes", "lease", "takeover", "handover", NULL};
    torture_setup s = {0};
    reading r = {.needed = always};
    char kind[WORD_MAX];
    uint64_t contenders = 0;
    uint64_t mutexes = 0;
    r.flaw = ret_flaw;
    if (!read_object(line, &r) || !read_word(&r, "kind", kind))
        return false;
    if (strcmp(kind, "run") != 0)
        return refuse(&r, "\"kind\" of the first line is not \"run\"");
    if (!read_number(&r, "seed", UINT64_MAX, &s.seed) ||
        !read_number(&r, "contenders", TORTURE_CONTENDERS_MAX, &contenders) ||
        !read_number(&r, "mutexes", TORTURE_MUTEXES_MAX, &mutexes) || !read_time(&r, "lease", &s.lease_ns) ||
        !read_time(&r, "outage", &s.outage_ns) || !read_time(&r, "takeover", &s.takeover_ns) ||
        !read_time(&r, "handover", &s.handover_ns))
        return false;
    if (contenders < 1 || mutexes < 1 || s.takeover_ns <= 0)
        return refuse(&r, "\"contenders\", \"mutexes\" or \"takeover\" is 0");
    s.contenders = (int)contenders;
    s.mutexes = (unsigned)mutexes;
    *ret_setup = s;
    return true;
}

/* --- collecting ---------------------------------------------------------------------------------- */

void torture_history_add(torture_history *history, const torture_event *event)
{
    if (history->count == history->capacity) {
        const size_t capacity = history->capacity > 0 ? 2 * history->capacity : 256;
        torture_event *events = realloc(history->events, capacity * sizeof *events);
        if (events == NULL)
            abort();
        history->events = events;
        history->capacity = capacity;
    }
    history->events[history->count++] = *event;
}

/* A merge sort, because it keeps the order of equals. */
static void sort_events(torture_event *events, torture_event *spare, size_t count)
{
    const size_t half = count / 2;
    if (half == 0)
        return;
    sort_events(events, spare, half);
    sort_events(events + half, spare, count - half);
    memcpy(spare, events, half * sizeof *spare);
    size_t left = 0;
    size_t right = half;
    for (size_t to = 0; left < half; to++) {
        const bool from_right = right < count && events[right].at_ns < spare[left].at_ns;
        events[to] = from_right ? events[right++] : spare[left++];
    }
}

void torture_history_sort(torture_history *history)
{
    torture_event *spare = malloc((history->count / 2 + 1) * sizeof *spare);
    if (spare == NULL)
        abort();
    sort_events(history->events, spare, history->count);
    free(spare);
}

void torture_history_free(torture_history *history)
{
    free(history->events);
    *history = (torture_history){0};
}
