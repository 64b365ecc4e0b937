/* See history.h. */
#include "torture/history.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Times far beyond any run are refused, so that the judge can add and subtract them without care. */
#define TIME_MAX_NS (INT64_C(366) * 86400 * 1000000000)

const char *torture_kind_word(torture_kind kind)
{
    static const char *const words[] = {
#define TORTURE_KIND_WORD(name, word) word,
        TORTURE_KINDS(TORTURE_KIND_WORD)
#undef TORTURE_KIND_WORD
    };
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
    if (event->kind == TORTURE_HOLDS || event->kind == TORTURE_RELEASED)
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

static bool set_kind(torture_event *event, const char *word)
{
    for (int kind = 0; kind < TORTURE_KIND_COUNT; kind++)
        if (strcmp(word, torture_kind_word((torture_kind)kind)) == 0) {
            event->kind = (torture_kind)kind;
            return true;
        }
    return false;
}

/* Takes a member whose value is told as text, with or without quotes. False: the value does not fit. */
typedef bool (*member_fn)(void *to, const char *name, const char *value);

static bool set_of_event(void *to, const char *name, const char *value)
{
    torture_event *event = to;
    uint64_t number;
    assert(event != NULL);
    int64_t *const time = strcmp(name, "at") == 0      ? &event->at_ns
                          : strcmp(name, "seen") == 0  ? &event->seen_ns
                          : strcmp(name, "to") == 0    ? &event->to_ns
                          : strcmp(name, "until") == 0 ? &event->until_ns
                                                       : NULL;
    if (time != NULL) {
        if (!parse_number(value, TIME_MAX_NS, &number))
            return false;
        *time = (int64_t)number;
        return true;
    }
    if (strcmp(name, "kind") == 0)
        return set_kind(event, value);
    if (strcmp(name, "token") == 0)
        return parse_number(value, UINT64_MAX, &event->token);
    if (strcmp(name, "contender") == 0) {
        if (!parse_number(value, TORTURE_CONTENDERS_MAX - 1, &number))
            return false;
        event->contender = (int)number;
    } else if (strcmp(name, "mutex") == 0) {
        if (!parse_number(value, TORTURE_MUTEXES_MAX - 1, &number))
            return false;
        event->mutex = (unsigned)number;
    } else if (strcmp(name, "life") == 0) {
        if (!parse_number(value, UINT32_MAX, &number))
            return false;
        event->life = (unsigned)number;
    } else if (strcmp(name, "what") == 0) {
        snprintf(event->what, sizeof event->what, "%s", value);
    }
    return true;
}

/* One `"name":value`. Returns what is behind it, or NULL. */
static const char *read_member(const char *text, member_fn set, void *to)
{
    char name[32];
    char value[sizeof((torture_event *)NULL)->what];
    text = read_word(text, name, sizeof name);
    if (text == NULL || *(text = skip_blanks(text)) != ':')
        return NULL;
    text = skip_blanks(text + 1);
    if (*text == '"') {
        text = read_word(text, value, sizeof value);
    } else {
        const size_t length = strcspn(text, " \t\r,}");
        if (length == 0 || length >= sizeof value)
            return NULL;
        memcpy(value, text, length);
        value[length] = '\0';
        text += length;
    }
    return text != NULL && set(to, name, value) ? text : NULL;
}

static bool read_object(const char *line, member_fn set, void *to)
{
    const char *text = skip_blanks(line);
    if (*text != '{')
        return false;
    do {
        text = read_member(skip_blanks(text + 1), set, to);
        if (text == NULL)
            return false;
        text = skip_blanks(text);
    } while (*text == ',');
    return *text == '}' && *skip_blanks(text + 1) == '\0';
}

/* What the judge relies on. */
static bool is_sound(const torture_event *event)
{
    const bool of_one = event->kind != TORTURE_FAULT && event->kind != TORTURE_HEALED && event->kind != TORTURE_LATE &&
                        event->kind != TORTURE_FAILED && event->kind != TORTURE_END;
    if (of_one && event->contender == TORTURE_EVERYBODY)
        return false;
    if (event->kind == TORTURE_HOLDS)
        return event->seen_ns >= event->at_ns && event->to_ns >= event->at_ns && event->until_ns >= event->to_ns;
    if (event->kind == TORTURE_LATE || event->kind == TORTURE_FAILED || event->kind == TORTURE_KILLED)
        return event->to_ns >= event->at_ns;
    return true;
}

bool torture_event_read(const char *line, torture_event *ret_event)
{
    torture_event event = {.at_ns = -1, .kind = TORTURE_KIND_COUNT, .contender = TORTURE_EVERYBODY};
    if (!read_object(line, set_of_event, &event))
        return false;
    if (event.at_ns < 0 || event.kind == TORTURE_KIND_COUNT || !is_sound(&event))
        return false;
    *ret_event = event;
    return true;
}

/* --- the first line ------------------------------------------------------------------------------ */

typedef struct first_line {
    torture_setup setup;
    bool is_run;
} first_line;

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

static bool set_of_setup(void *to, const char *name, const char *value)
{
    first_line *first = to;
    torture_setup *setup = &first->setup;
    uint64_t number;
    int64_t *const time = strcmp(name, "lease") == 0      ? &setup->lease_ns
                          : strcmp(name, "outage") == 0   ? &setup->outage_ns
                          : strcmp(name, "takeover") == 0 ? &setup->takeover_ns
                          : strcmp(name, "handover") == 0 ? &setup->handover_ns
                                                          : NULL;
    if (strcmp(name, "kind") == 0)
        return first->is_run = strcmp(value, "run") == 0;
    if (strcmp(name, "seed") == 0)
        return parse_number(value, UINT64_MAX, &setup->seed);
    if (time != NULL) {
        if (!parse_number(value, TIME_MAX_NS, &number))
            return false;
        *time = (int64_t)number;
    } else if (strcmp(name, "contenders") == 0) {
        if (!parse_number(value, TORTURE_CONTENDERS_MAX, &number))
            return false;
        setup->contenders = (int)number;
    } else if (strcmp(name, "mutexes") == 0) {
        if (!parse_number(value, TORTURE_MUTEXES_MAX, &number))
            return false;
        setup->mutexes = (unsigned)number;
    }
    return true;
}

bool torture_setup_read(const char *line, torture_setup *ret_setup)
{
    first_line first = {0};
    if (!read_object(line, set_of_setup, &first) || !first.is_run)
        return false;
    if (first.setup.contenders < 1 || first.setup.mutexes < 1 || first.setup.takeover_ns <= 0)
        return false;
    *ret_setup = first.setup;
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
