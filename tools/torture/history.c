/* See history.h. */
#include "torture/history.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* A member that a line may have: its name, and where its value goes. */
typedef enum type {
    TIME,  /* int64_t, nanoseconds */
    COUNT, /* unsigned, at most `most` */
    TOKEN, /* uint64_t */
    KIND,  /* char[32], as WORD; every line has it */
    WORD,  /* char[32] */
} type;

typedef struct member {
    const char *name;
    type type;
    size_t offset;
    uint64_t most;
} member;

/* What reading a line is about: the members that there may be, those that were found, and where their values are. */
typedef struct reading {
    const member *members;
    size_t count;
    unsigned found; /* a bit for each */
    void *values;
    char *flaw; /* NULL: nobody asks */
} reading;

static bool refuse(const reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(const reading *r, const char *format, ...)
{
    if (r->flaw != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(r->flaw, TORTURE_FLAW_MAX, format, arguments);
        va_end(arguments);
    }
    return false;
}

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t\r");
}

/* A string of printable ASCII without escapes, which is all that a history has. Returns what is behind it, or NULL. */
static const char *read_word(const char *text, char *ret_word, size_t size)
{
    size_t length = 0;
    if (*text++ != '"')
        return NULL;
    for (; *text != '"'; text++) {
        if (*text < ' ' || *text > '~' || *text == '\\' || length + 1 == size)
            return NULL;
        ret_word[length++] = *text;
    }
    ret_word[length] = '\0';
    return text + 1;
}

static bool parse_number(const char *text, uint64_t limit, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return false;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || number > limit)
        return false;
    *ret_number = number;
    return true;
}

static bool set_number(reading *r, const member *m, const char *value)
{
    void *to = (char *)r->values + m->offset;
    const uint64_t most = m->type == TIME ? TIME_MAX_NS : m->type == TOKEN ? UINT64_MAX : m->most;
    uint64_t number;
    if (!parse_number(value, most, &number))
        return refuse(r, "\"%s\" is %.31s, and not a number from 0 to %" PRIu64, m->name, value, most);
    if (m->type == TIME)
        *(int64_t *)to = (int64_t)number;
    else if (m->type == TOKEN)
        *(uint64_t *)to = number;
    else
        *(unsigned *)to = (unsigned)number;
    return true;
}

/* Takes a member whose value is told as text, with or without quotes. */
static bool set_member(reading *r, const char *name, const char *value)
{
    for (size_t i = 0; i < r->count; i++) {
        const member *m = &r->members[i];
        if (strcmp(name, m->name) != 0)
            continue;
        if (r->found & 1u << i)
            return refuse(r, "\"%s\" is there twice", name);
        r->found |= 1u << i;
        if (m->type != KIND && m->type != WORD)
            return set_number(r, m, value);
        snprintf((char *)r->values + m->offset, WORD_MAX, "%s", value);
        return true;
    }
    return true;
}

/* One `"name":value`. Returns what is behind it, or NULL. */
static const char *read_member(const char *text, reading *r)
{
    char name[WORD_MAX];
    char value[WORD_MAX];
    const char *at = text;
    text = read_word(text, name, sizeof name);
    if (text == NULL || *(text = skip_blanks(text)) != ':') {
        refuse(r, "the line is cut, or no JSON of names, numbers and plain words, at %.20s", *at ? at : "its end");
        return NULL;
    }
    text = skip_blanks(text + 1);
    if (*text == '"') {
        text = read_word(text, value, sizeof value);
    } else {
        const size_t length = strcspn(text, " \t\r,}");
        const bool fits = length > 0 && length < sizeof value;
        if (fits) {
            memcpy(value, text, length);
            value[length] = '\0';
        }
        text = fits ? text + length : NULL;
    }
    if (text == NULL) {
        refuse(r, "the value of \"%s\" is cut, or no number or plain word of at most %d characters", name,
               WORD_MAX - 1);
        return NULL;
    }
    return set_member(r, name, value) ? text : NULL;
}

static bool read_object(const char *line, reading *r)
{
    const char *text = skip_blanks(line);
    if (*text != '{')
        return refuse(r, "it is no JSON object");
    do {
        text = read_member(skip_blanks(text + 1), r);
        if (text == NULL)
            return false;
        text = skip_blanks(text);
    } while (*text == ',');
    if (*text != '}')
        return refuse(r, "the line is cut, or has something in place of a comma");
    return *skip_blanks(text + 1) == '\0' || refuse(r, "something stands behind the object");
}

static bool has(const reading *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(name, r->members[i].name) == 0)
            return r->found & 1u << i;
    return false;
}

/* All of them, a list that NULL ends, are there. */
static bool require(const reading *r, const char *const *names)
{
    for (; *names != NULL; names++)
        if (!has(r, *names))
            return refuse(r, "\"%s\" is missing", *names);
    return true;
}

/* --- an event ------------------------------------------------------------------------------------ */

typedef struct event_line {
    torture_event event;
    unsigned contender;
    char kind[WORD_MAX];
} event_line;

static const member event_members[] = {
    {"at", TIME, offsetof(event_line, event.at_ns), 0},
    {"seen", TIME, offsetof(event_line, event.seen_ns), 0},
    {"to", TIME, offsetof(event_line, event.to_ns), 0},
    {"until", TIME, offsetof(event_line, event.until_ns), 0},
    {"token", TOKEN, offsetof(event_line, event.token), 0},
    {"kind", KIND, offsetof(event_line, kind), 0},
    {"contender", COUNT, offsetof(event_line, contender), TORTURE_CONTENDERS_MAX - 1},
    {"life", COUNT, offsetof(event_line, event.life), UINT32_MAX},
    {"mutex", COUNT, offsetof(event_line, event.mutex), TORTURE_MUTEXES_MAX - 1},
    {"what", WORD, offsetof(event_line, event.what), 0},
};

static bool set_kind(torture_event *event, const char *word)
{
    for (int kind = 0; kind < TORTURE_KIND_COUNT; kind++)
        if (strcmp(word, torture_kind_word((torture_kind)kind)) == 0) {
            event->kind = (torture_kind)kind;
            return true;
        }
    return false;
}

/* What a line of each kind must have, beside its time. */
static const char *const required[TORTURE_KIND_COUNT][7] = {
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

/* The judge relies on the order of the times. */
static bool is_in_order(const reading *r, const torture_event *event)
{
    if (event->kind == TORTURE_HOLDS && event->seen_ns < event->at_ns)
        return refuse(r, "\"seen\" is before \"at\"");
    if (has(r, "to") && event->to_ns < event->at_ns)
        return refuse(r, "\"to\" is before \"at\"");
    if (event->kind == TORTURE_HOLDS && event->until_ns < event->to_ns)
        return refuse(r, "\"until\" is before \"to\"");
    return true;
}

bool torture_event_read(const char *line, torture_event *ret_event, char ret_flaw[TORTURE_FLAW_MAX])
{
    static const char *const always[] = {"at", "kind", NULL};
    event_line read = {0};
    reading r = {event_members, sizeof event_members / sizeof *event_members, 0, &read, NULL};
    r.flaw = ret_flaw;
    if (!read_object(line, &r) || !require(&r, always))
        return false;
    if (!set_kind(&read.event, read.kind))
        return refuse(&r, "\"kind\" is %s, which is none", read.kind);
    if (!require(&r, required[read.event.kind]) || !is_in_order(&r, &read.event))
        return false;
    read.event.contender = has(&r, "contender") ? (int)read.contender : TORTURE_EVERYBODY;
    *ret_event = read.event;
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

typedef struct setup_line {
    torture_setup setup;
    unsigned contenders;
    char kind[WORD_MAX];
} setup_line;

static const member setup_members[] = {
    {"kind", KIND, offsetof(setup_line, kind), 0},
    {"seed", TOKEN, offsetof(setup_line, setup.seed), 0},
    {"contenders", COUNT, offsetof(setup_line, contenders), TORTURE_CONTENDERS_MAX},
    {"mutexes", COUNT, offsetof(setup_line, setup.mutexes), TORTURE_MUTEXES_MAX},
    {"lease", TIME, offsetof(setup_line, setup.lease_ns), 0},
    {"outage", TIME, offsetof(setup_line, setup.outage_ns), 0},
    {"takeover", TIME, offsetof(setup_line, setup.takeover_ns), 0},
    {"handover", TIME, offsetof(setup_line, setup.handover_ns), 0},
};

bool torture_setup_read(const char *line, torture_setup *ret_setup, char ret_flaw[TORTURE_FLAW_MAX])
{
    static const char *const always[] = {"kind", "contenders", "mutexes", "lease", "takeover", "handover", NULL};
    setup_line read = {0};
    reading r = {setup_members, sizeof setup_members / sizeof *setup_members, 0, &read, NULL};
    r.flaw = ret_flaw;
    if (!read_object(line, &r))
        return false;
    if (strcmp(read.kind, "run") != 0)
        return refuse(&r, "\"kind\" of the first line is not \"run\"");
    if (!require(&r, always))
        return false;
    read.setup.contenders = (int)read.contenders;
    if (read.setup.contenders < 1 || read.setup.mutexes < 1 || read.setup.takeover_ns <= 0)
        return refuse(&r, "\"contenders\", \"mutexes\" or \"takeover\" is 0");
    *ret_setup = read.setup;
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
