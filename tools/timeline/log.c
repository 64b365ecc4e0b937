/* See log.h. */
#include "timeline/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "timeline/clocks.h"
#include "util/escape.h"

#define NO_CLOCK SIZE_MAX

typedef struct entry {
    int64_t at_ns; /* on the clock of its host, and when that is known on the common one */
    size_t order;  /* lines of one moment stay in the order in which they were read */
    size_t row;    /* by the number of its name */
    size_t clock;
    char *event;
    char *arguments; /* all of them, or "" */
    char *text;
} entry;

/* The kind of the first line of a row after the end of the picture. */
typedef enum next_line { NEXT_NONE, NEXT_START, NEXT_OTHER } next_line;

/* The state of a row while the reader goes through the lines. */
typedef struct state {
    int64_t heard_at;     /* of the last line */
    size_t clock;         /* of the last line */
    int64_t waiting_from; /* -1: does not */
    int64_t lease_from;   /* -1: has none */
    int64_t ttl_ns, until_ns;
    int64_t callback_from; /* -1: none runs */
    const char *callback;
    next_line next;
    char lease_text[64];
} state;

struct timeline_log {
    entry *entries;
    size_t count, capacity;
    timeline_names names; /* of the rows, as they came */
    timeline_clocks clocks;
    timeline_row *rows; /* as they are drawn */
    size_t *places;     /* of each name among them */
    state *states;
    timeline_segment *segments;
    size_t segment_count, segment_capacity;
    timeline_mark *marks;
    size_t mark_count, mark_capacity;
    char **texts;
    size_t text_count, text_capacity;
    int64_t zero_ns;
    int64_t from_ms, to_ms;
};

timeline_log *timeline_log_new(void)
{
    timeline_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        abort();
    timeline_clocks_init(&log->clocks);
    return log;
}

void timeline_log_free(timeline_log *log)
{
    if (log == NULL)
        return;
    for (size_t i = 0; i < log->text_count; i++)
        free(log->texts[i]);
    for (size_t i = 0; i < log->count; i++)
        free(log->entries[i].text);
    free(log->entries);
    timeline_names_free(&log->names);
    timeline_clocks_free(&log->clocks);
    free(log->rows);
    free(log->places);
    free(log->states);
    free(log->segments);
    free(log->marks);
    free(log->texts);
    free(log);
}

/* --- reading ------------------------------------------------------------------------------------- */

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " ");
    char *end = word + strcspn(word, " ");
    *rest = *end != '\0' ? end + 1 : end;
    *end = '\0';
    return word;
}

/* A moment on the clock of the log. *ret_end is behind it, or `text` if there is none. */
static int64_t parse_time(const char *text, const char **ret_end)
{
    char *end;
    errno = 0;
    const long long ns = strtoll(text, &end, 10);
    const bool good = end != text && errno == 0 && ns >= 0 && ns <= TIMELINE_TIME_MAX;
    *ret_end = good ? end : text;
    return good ? ns : 0;
}

/* "WALL STORE ROUND BOOT", where STORE and ROUND may be "-". Returns the number of the clock, or NO_CLOCK. */
static size_t read_clock(timeline_log *log, int64_t at_ns, char *arguments)
{
    timeline_reading r = {.boot_ns = at_ns, .store_ns = -1};
    char *rest = arguments;
    const char *wall = next_word(&rest);
    const char *store = next_word(&rest);
    const char *round = next_word(&rest);
    const char *boot = next_word(&rest);
    const char *wall_end;
    const char *store_end;
    const char *round_end;
    r.wall_ns = parse_time(wall, &wall_end);
    const int64_t store_ns = parse_time(store, &store_end);
    r.round_ns = parse_time(round, &round_end);
    if (wall_end == wall || boot[0] == '\0')
        return NO_CLOCK;
    if (store_end != store && round_end != round)
        r.store_ns = store_ns;
    const size_t clock = timeline_clocks_add(&log->clocks, boot);
    timeline_clock_read(&log->clocks.clocks[clock], &r);
    return clock;
}

static bool parse(timeline_log *log, char *line)
{
    entry e = {.text = line, .order = log->count, .clock = NO_CLOCK};
    char *rest = line;
    const char *end;
    const char *time = next_word(&rest);
    e.at_ns = parse_time(time, &end);
    if (end == time || *end != '\0')
        return false;
    const char *row = next_word(&rest);
    e.event = next_word(&rest);
    e.arguments = rest;
    if (e.event[0] == '\0')
        return false;
    if (strcmp(e.event, "clock") == 0)
        e.clock = read_clock(log, e.at_ns, rest);
    e.row = timeline_names_add(&log->names, row);
    log->entries = timeline_grown(log->entries, &log->capacity, log->count, sizeof *log->entries);
    log->entries[log->count++] = e;
    return true;
}

/* A process logs its clock with its first line. The lines of the row after that are on this clock, until the process tells
 * another: its host may have been booted in between. Lines before the first clock are the rest of a log whose beginning is
 * gone. */
static void assign_clocks(timeline_log *log, size_t first)
{
    size_t *known = malloc((log->names.count + 1) * sizeof *known);
    size_t any = 0;
    if (known == NULL)
        abort();
    for (size_t i = 0; i < log->names.count; i++)
        known[i] = NO_CLOCK;
    for (size_t i = log->count; i-- > first;) {
        const entry *e = &log->entries[i];
        if (e->clock != NO_CLOCK)
            any = known[e->row] = e->clock;
    }
    for (size_t i = first; i < log->count; i++) {
        entry *e = &log->entries[i];
        if (e->clock != NO_CLOCK)
            known[e->row] = e->clock;
        e->clock = known[e->row] != NO_CLOCK ? known[e->row] : any;
        log->clocks.clocks[e->clock].used = true;
    }
    free(known);
}

unsigned timeline_log_read(timeline_log *log, FILE *in)
{
    char *line = NULL;
    size_t size = 0;
    unsigned number = 0;
    unsigned bad = 0;
    const size_t first = log->count;
    while (bad == 0 && getline(&line, &size, in) >= 0) {
        number++;
        if (line[0] == '\n' || line[0] == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        /* Anybody may have written the line, and it is going to be shown. */
        const size_t room = SIMBA__ESCAPED_SIZE(strlen(line)) + 8;
        char *copy = malloc(room);
        if (copy == NULL)
            abort();
        simba__escape(line, copy, room);
        if (!parse(log, copy)) {
            free(copy);
            bad = number;
        }
    }
    free(line);
    assign_clocks(log, first);
    return bad;
}

/* --- drawing ------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int by_name(const void *a, const void *b)
{
    const char *x = ((const timeline_row *)a)->name;
    const char *y = ((const timeline_row *)b)->name;
    const bool last_x = strcmp(x, "store") == 0;
    const bool last_y = strcmp(y, "store") == 0;
    return last_x != last_y ? last_x - last_y : strcmp(x, y);
}

static const char *keep(timeline_log *log, const char *a, const char *b)
{
    char *text = malloc(strlen(a) + strlen(b) + 2);
    if (text == NULL)
        abort();
    sprintf(text, "%s%s%s", a, b[0] != '\0' ? " " : "", b);
    log->texts = timeline_grown(log->texts, &log->text_capacity, log->text_count, sizeof *log->texts);
    log->texts[log->text_count++] = text;
    return text;
}

static int64_t ms_of(const timeline_log *log, int64_t ns)
{
    return (ns - log->zero_ns) / MS - log->from_ms;
}

static void add_segment(timeline_log *log, size_t row, int64_t from_ns, int64_t to_ns, timeline_kind kind,
                        const char *text)
{
    int64_t from = ms_of(log, from_ns);
    const int64_t to = ms_of(log, to_ns);
    if (to_ns <= from_ns || (from < 0 && to <= 0))
        return;
    from = from > 0 ? from : 0;
    log->segments = timeline_grown(log->segments, &log->segment_capacity, log->segment_count, sizeof *log->segments);
    log->segments[log->segment_count++] = (timeline_segment){row, from, to > from ? to : from + 1, kind, text};
}

static void add_mark(timeline_log *log, size_t row, int64_t at_ns, timeline_sign sign, const char *text)
{
    const int64_t at = ms_of(log, at_ns);
    if (at < 0)
        return;
    log->marks = timeline_grown(log->marks, &log->mark_capacity, log->mark_count, sizeof *log->marks);
    log->marks[log->mark_count++] = (timeline_mark){row, at, sign, text};
}

static void end_lease(timeline_log *log, size_t row, int64_t at_ns)
{
    state *s = &log->states[row];
    if (s->lease_from < 0)
        return;
    const int64_t ttl = min64(s->ttl_ns > s->lease_from ? s->ttl_ns : s->lease_from, at_ns);
    const char *text = keep(log, s->lease_text, "");
    add_segment(log, row, s->lease_from, ttl, TIMELINE_OWNER, text);
    add_segment(log, row, ttl, min64(s->until_ns, at_ns), TIMELINE_TRANSITION, text);
    s->lease_from = -1;
}

static void end_callback(timeline_log *log, size_t row, int64_t at_ns)
{
    state *s = &log->states[row];
    if (s->callback_from >= 0)
        add_segment(log, row, s->callback_from, at_ns, TIMELINE_CALLBACK, s->callback);
    s->callback_from = -1;
}

static void begin_lease(timeline_log *log, size_t row, const entry *e)
{
    state *s = &log->states[row];
    const timeline_clock *clock = &log->clocks.clocks[e->clock];
    const char *ttl_end;
    const char *until_end;
    const int64_t ttl_ns = parse_time(e->arguments, &ttl_end);
    const int64_t until_ns = parse_time(ttl_end, &until_end);
    if (ttl_end == e->arguments || until_end == ttl_end)
        return;
    end_lease(log, row, e->at_ns);
    s->lease_from = e->at_ns;
    s->ttl_ns = timeline_clock_common(clock, ttl_ns);
    s->until_ns = timeline_clock_common(clock, until_ns);
    snprintf(s->lease_text, sizeof s->lease_text, "token%.40s", until_end[0] != '\0' ? until_end : " 0");
}

static void end_all(timeline_log *log, size_t row, int64_t at_ns)
{
    state *s = &log->states[row];
    end_lease(log, row, at_ns);
    end_callback(log, row, at_ns);
    if (s->waiting_from >= 0)
        add_segment(log, row, s->waiting_from, at_ns, TIMELINE_WAITING, NULL);
    s->waiting_from = -1;
}

/* The process is dead since then; its lease remains until it is over. */
static void die(timeline_log *log, size_t row, int64_t at_ns, const char *text)
{
    const state *s = &log->states[row];
    const bool lived = s->waiting_from >= 0 || s->lease_from >= 0;
    if (s->lease_from >= 0)
        add_segment(log, row, at_ns, s->until_ns, TIMELINE_REMAINS, "the lease of a dead owner");
    end_all(log, row, at_ns);
    if (lived)
        add_mark(log, row, at_ns, TIMELINE_KILLED, text);
}

/* Nothing more is known of the row from its last line on. */
static void become_unknown(timeline_log *log, size_t row, int64_t until_ns)
{
    const state *s = &log->states[row];
    const bool lived = s->waiting_from >= 0 || s->lease_from >= 0 || s->callback_from >= 0;
    end_all(log, row, s->heard_at);
    if (lived)
        add_segment(log, row, s->heard_at, until_ns, TIMELINE_UNKNOWN, "its log says nothing more");
}

/* A living owner logs its renewals, and the end of its lease. One that has logged neither by then was killed, and nobody wrote
 * that down, if other lines of its host are later; otherwise its log may have been taken away before. Nobody knows when it was
 * killed: not before its last line. A row that waits may be silent for long, and what it does after its last line is not known. */
static void notice_silence(timeline_log *log, size_t row, int64_t now_ns, bool comes_back)
{
    const state *s = &log->states[row];
    const int64_t until_ns = s->until_ns;
    const int64_t log_end_ns = log->clocks.clocks[s->clock].heard_ns;
    if (s->lease_from < 0) {
        become_unknown(log, row, now_ns);
    } else if (until_ns < now_ns && (comes_back || until_ns < log_end_ns)) {
        die(log, row, s->heard_at, "was not heard of again");
    } else if (until_ns < now_ns) {
        add_segment(log, row, s->heard_at, until_ns, TIMELINE_REMAINS, "a lease that nobody is known to have renewed");
        become_unknown(log, row, now_ns);
    }
}

static void apply(timeline_log *log, size_t row, const entry *e)
{
    state *s = &log->states[row];
    const char *event = e->event;
    if (strcmp(event, "start") == 0) {
        notice_silence(log, row, e->at_ns, true);
        s->waiting_from = e->at_ns;
    } else if (strcmp(event, "lease") == 0) {
        begin_lease(log, row, e);
    } else if (strcmp(event, "lost") == 0) {
        end_lease(log, row, e->at_ns);
        if (strcmp(e->arguments, "stopped") != 0)
            add_mark(log, row, e->at_ns, TIMELINE_LOST, keep(log, event, e->arguments));
    } else if (strcmp(event, "callback") == 0) {
        const bool acquired = strncmp(e->arguments, "acquired", 8) == 0;
        end_callback(log, row, e->at_ns);
        s->callback_from = e->at_ns;
        s->callback = keep(log, acquired ? "on_acquired" : "on_released", "");
        add_mark(log, row, e->at_ns, acquired ? TIMELINE_ACQUIRED : TIMELINE_RELEASED, s->callback);
    } else if (strcmp(event, "returned") == 0) {
        end_callback(log, row, e->at_ns);
    } else if (strcmp(event, "request") == 0) {
        if (strcmp(e->arguments, "release") == 0)
            end_lease(log, row, e->at_ns);
        add_mark(log, row, e->at_ns, TIMELINE_REQUEST, keep(log, "asks to", e->arguments));
    } else if (strcmp(event, "failed") == 0) {
        add_mark(log, row, e->at_ns, TIMELINE_FAILED, keep(log, "no answer:", e->arguments));
    } else if (strcmp(event, "push") == 0) {
        add_mark(log, row, e->at_ns, TIMELINE_PUSH, keep(log, "is told:", e->arguments));
    } else if (strcmp(event, "fault") == 0) {
        char name[64];
        const char *end;
        int at = 0;
        if (sscanf(e->arguments, "%63s%n", name, &at) == 1) {
            const int64_t until_ns =
                timeline_clock_common(&log->clocks.clocks[e->clock], parse_time(e->arguments + at, &end));
            add_segment(log, row, e->at_ns, max64(until_ns, e->at_ns + MS), TIMELINE_FAULT, keep(log, name, ""));
        }
    } else if (strcmp(event, "stopped") == 0) {
        end_all(log, row, e->at_ns);
    } else if (strcmp(event, "killed") == 0) {
        die(log, row, e->at_ns, "killed");
    }
    if (strcmp(event, "clock") == 0)
        return; /* this line stands before the event that it is about, such as a new start */
    s->heard_at = e->at_ns;
    s->clock = e->clock;
}

/* The rows by name, and where each ended up. */
static void find_rows(timeline_log *log)
{
    const size_t count = log->names.count;
    free(log->rows);
    free(log->places);
    free(log->states);
    log->rows = calloc(count, sizeof *log->rows);
    log->places = calloc(count, sizeof *log->places);
    log->states = calloc(count, sizeof *log->states);
    if (log->rows == NULL || log->places == NULL || log->states == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        log->rows[i].name = log->names.names[i];
    qsort(log->rows, count, sizeof *log->rows, by_name);
    for (size_t i = 0; i < count; i++) {
        log->places[timeline_names_add(&log->names, log->rows[i].name)] = i;
        log->rows[i].style = timeline_style(i);
        log->states[i] = (state){.waiting_from = -1, .lease_from = -1, .callback_from = -1};
    }
}

/* What the wall clock shows where the picture begins; 0: not known. */
static int64_t wall_ms(const timeline_log *log, int64_t wall_ns)
{
    int64_t at_ns;
    if (wall_ns == INT64_MIN || __builtin_add_overflow(log->zero_ns, wall_ns, &at_ns) || at_ns <= 0)
        return 0;
    return at_ns / MS + log->from_ms;
}

bool timeline_log_draw(timeline_log *log, int64_t from_ms, int64_t to_ms, timeline *ret_line)
{
    int64_t wall_ns;
    if (log->count == 0)
        return false;
    /* Put all lines on one clock, and into order. */
    const timeline_agreement agreement = timeline_clocks_agree(&log->clocks, &wall_ns);
    for (entry *e = log->entries; e < log->entries + log->count; e++) {
        timeline_clock *clock = &log->clocks.clocks[e->clock];
        e->at_ns = timeline_clock_common(clock, e->at_ns);
        clock->heard_ns = max64(e->at_ns, clock->heard_ns);
    }
    qsort(log->entries, log->count, sizeof *log->entries, by_time);
    log->zero_ns = log->entries[0].at_ns;
    log->from_ms = from_ms;
    const int64_t last_ns = log->entries[log->count - 1].at_ns;
    const int64_t end_ns = to_ms > 0 ? log->zero_ns + to_ms * MS : last_ns;
    if (from_ms > 0 && ms_of(log, end_ns) <= 0)
        return false;
    find_rows(log);
    size_t i = 0;
    for (; i < log->count && log->entries[i].at_ns <= end_ns; i++)
        apply(log, log->places[log->entries[i].row], &log->entries[i]);
    /* A row that has a line after the end of the picture was alive there, unless it begins anew. */
    for (; i < log->count; i++) {
        const entry *e = &log->entries[i];
        state *s = &log->states[log->places[e->row]];
        if (s->next == NEXT_NONE && strcmp(e->event, "clock") != 0)
            s->next = strcmp(e->event, "start") == 0 ? NEXT_START : NEXT_OTHER;
    }
    for (size_t row = 0; row < log->names.count; row++) {
        if (log->states[row].next != NEXT_OTHER)
            notice_silence(log, row, end_ns, log->states[row].next == NEXT_START);
        end_all(log, row, end_ns);
    }
    *ret_line = (timeline){
        .rows = log->rows,
        .row_count = log->names.count,
        .segments = log->segments,
        .segment_count = log->segment_count,
        .marks = log->marks,
        .mark_count = log->mark_count,
        .to_ms = ms_of(log, end_ns) > 0 ? ms_of(log, end_ns) : 1,
        .from_ms = from_ms,
        .wall_ms = wall_ms(log, wall_ns),
        .agreement = agreement,
    };
    return true;
}
