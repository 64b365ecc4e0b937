/* See timeline.h. */
#include "timeline/timeline.h"

#include <string.h>

#define COLUMNS_MAX 400
#define LABEL_ROOM 9 /* columns from one tick to the next, at least */
#define INDENT 2

/* What one column of a row shows: nothing, a timeline_kind, or a timeline_sign. */
enum { CELL_EMPTY = 0, CELL_KIND = 1, CELL_SIGN = 10 };

typedef struct glyph {
    const char *fancy;
    const char *plain;
    const char *meaning;
} glyph;

static const glyph kind_glyphs[] = {
    [TIMELINE_DEAD] = {" ", " ", NULL},
    [TIMELINE_WAITING] = {"░", ".", "waiting"},
    [TIMELINE_FAULT] = {"~", "~", "fault"},
    [TIMELINE_REMAINS] = {"╌", "-", "lease of a dead owner"},
    [TIMELINE_TRANSITION] = {"▒", "=", "owner, in transition"},
    [TIMELINE_OWNER] = {"█", "#", "owner"},
};

static const glyph sign_glyphs[] = {
    [TIMELINE_REQUEST] = {"│", "|", "asks the store"},
    [TIMELINE_FAILED] = {"!", "!", "no answer"},
    [TIMELINE_ACQUIRED] = {"►", ">", "acquired"},
    [TIMELINE_RELEASED] = {"◄", "<", "released"},
    [TIMELINE_LOST] = {"▼", "v", "lost"},
    [TIMELINE_KILLED] = {"✗", "X", "killed"},
};

typedef struct canvas {
    const timeline *line;
    const term *t;
    unsigned margin;  /* where time 0 is */
    unsigned columns; /* how many there are from there on */
    int64_t tick_ms;
} canvas;

static unsigned column_of(const canvas *c, int64_t ms)
{
    if (ms <= 0)
        return 0;
    const int64_t column = ms * c->columns / c->line->to_ms;
    return column < c->columns ? (unsigned)column : c->columns;
}

int64_t timeline_tick_ms(int64_t to_ms, int64_t most)
{
    static const int64_t steps[] = {1, 2, 5};
    for (int64_t scale = 1;; scale *= 10) {
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            const int64_t tick_ms = steps[i] * scale;
            if (tick_ms * most >= to_ms)
                return tick_ms;
        }
    }
}

static unsigned longest_name(const timeline *line)
{
    int longest = 0;
    for (size_t i = 0; i < line->row_count; i++) {
        const int columns = term_columns(line->rows[i].name);
        longest = columns > longest ? columns : longest;
    }
    return (unsigned)longest;
}

static canvas prepare(const timeline *line, const term *t)
{
    canvas c = {.line = line, .t = t};
    c.margin = INDENT + longest_name(line) + 2;
    /* A label may stand over the last tick and reach a little beyond it. */
    const unsigned taken = c.margin + 3;
    c.columns = t->width > taken + LABEL_ROOM ? t->width - taken : LABEL_ROOM;
    if (c.columns > COLUMNS_MAX)
        c.columns = COLUMNS_MAX;
    c.tick_ms = timeline_tick_ms(line->to_ms, c.columns / LABEL_ROOM);
    return c;
}

void timeline_label(char *label, size_t size, int64_t ms, int64_t tick_ms)
{
    if (tick_ms < 100)
        snprintf(label, size, "%lldms", (long long)ms);
    else if (tick_ms < 1000)
        snprintf(label, size, "%lld.%llds", (long long)(ms / 1000), (long long)(ms % 1000 / 100));
    else
        snprintf(label, size, "%llds", (long long)(ms / 1000));
}

/* The labels begin over their ticks. */
static void print_labels(const canvas *c)
{
    unsigned at = 0;
    fprintf(c->t->stream, "%*s%s", (int)c->margin, "", term_on(c->t, TERM_DIM));
    for (int64_t ms = 0; ms <= c->line->to_ms; ms += c->tick_ms) {
        char label[32];
        timeline_label(label, sizeof label, ms, c->tick_ms);
        const unsigned column = column_of(c, ms);
        const bool fits = c->margin + column + strlen(label) <= c->t->width;
        if (column < at || !fits)
            continue;
        at += (unsigned)fprintf(c->t->stream, "%*s%s", (int)(column - at), "", label);
    }
    fprintf(c->t->stream, "%s\n", term_off(c->t));
}

static void print_scale(const canvas *c)
{
    fprintf(c->t->stream, "%*s%s", (int)c->margin, "", term_on(c->t, TERM_DIM));
    int64_t next_ms = 0;
    for (unsigned column = 0; column < c->columns; column++) {
        const bool tick = next_ms <= c->line->to_ms && column_of(c, next_ms) == column;
        const bool last = column + 1 == c->columns;
        if (tick)
            next_ms += c->tick_ms;
        if (column == 0)
            fputs(term_pick(c->t, "├", "|"), c->t->stream);
        else if (last)
            fputs(term_pick(c->t, "┤", "|"), c->t->stream);
        else if (tick)
            fputs(term_pick(c->t, "┼", "+"), c->t->stream);
        else
            fputs(term_pick(c->t, "─", "-"), c->t->stream);
    }
    fprintf(c->t->stream, "%s\n", term_off(c->t));
}

static void fill_cells(const canvas *c, size_t row, unsigned char *cells)
{
    memset(cells, CELL_EMPTY, c->columns);
    for (size_t i = 0; i < c->line->segment_count; i++) {
        const timeline_segment *segment = &c->line->segments[i];
        if (segment->row != row || segment->to_ms <= segment->from_ms || segment->kind == TIMELINE_CALLBACK)
            continue;
        const unsigned char cell = (unsigned char)(CELL_KIND + segment->kind);
        const unsigned from = column_of(c, segment->from_ms);
        const unsigned to = column_of(c, segment->to_ms);
        for (unsigned column = from; column < c->columns && (column < to || column == from); column++) {
            if (cell > cells[column])
                cells[column] = cell;
        }
    }
    for (size_t i = 0; i < c->line->mark_count; i++) {
        const timeline_mark *mark = &c->line->marks[i];
        /* The very end belongs to the picture. */
        const unsigned column = column_of(c, mark->at_ms) - (mark->at_ms == c->line->to_ms);
        const unsigned char cell = (unsigned char)(CELL_SIGN + mark->sign);
        if (mark->row == row && column < c->columns && mark->sign != TIMELINE_PUSH && cell >= cells[column])
            cells[column] = cell;
    }
}

static void print_cell(const canvas *c, const timeline_row *row, unsigned char cell)
{
    FILE *out = c->t->stream;
    if (cell == CELL_EMPTY) {
        fputc(' ', out);
        return;
    }
    const bool sign = cell >= CELL_SIGN;
    const glyph *shown = sign ? &sign_glyphs[cell - CELL_SIGN] : &kind_glyphs[cell - CELL_KIND];
    term_style style = row->style;
    if (cell >= CELL_SIGN + TIMELINE_LOST || cell == CELL_SIGN + TIMELINE_FAILED || cell == CELL_KIND + TIMELINE_FAULT)
        style = TERM_RED;
    else if (cell == CELL_KIND + TIMELINE_WAITING)
        style = TERM_DIM;
    fprintf(out, "%s%s%s", term_on(c->t, style), term_pick(c->t, shown->fancy, shown->plain), term_off(c->t));
}

static void print_row(const canvas *c, size_t index)
{
    const timeline_row *row = &c->line->rows[index];
    unsigned char cells[COLUMNS_MAX];
    unsigned last = 0;

    fill_cells(c, index, cells);
    for (unsigned column = 0; column < c->columns; column++) {
        if (cells[column] != CELL_EMPTY && cells[column] != CELL_KIND + TIMELINE_DEAD)
            last = column + 1;
    }
    fprintf(c->t->stream, "%*s%s", INDENT, "", term_on(c->t, row->style));
    term_cell(c->t, row->name, (int)c->margin - INDENT);
    fputs(term_off(c->t), c->t->stream);
    for (unsigned column = 0; column < last; column++)
        print_cell(c, row, cells[column]);
    fputc('\n', c->t->stream);
}

/* What does not occur needs no explanation. */
static bool has_kind(const timeline *line, timeline_kind kind)
{
    for (size_t i = 0; i < line->segment_count; i++)
        if (line->segments[i].kind == kind)
            return true;
    return false;
}

static bool has_sign(const timeline *line, timeline_sign sign)
{
    for (size_t i = 0; i < line->mark_count; i++)
        if (line->marks[i].sign == sign)
            return true;
    return false;
}

static void print_legend(const canvas *c)
{
    FILE *out = c->t->stream;
    const char *gap = "";
    fprintf(out, "%*s%s", (int)c->margin, "", term_on(c->t, TERM_DIM));
    for (size_t i = 0; i < sizeof kind_glyphs / sizeof kind_glyphs[0]; i++) {
        if (kind_glyphs[i].meaning == NULL || !has_kind(c->line, (timeline_kind)i))
            continue;
        fprintf(out, "%s%s %s", gap, term_pick(c->t, kind_glyphs[i].fancy, kind_glyphs[i].plain),
                kind_glyphs[i].meaning);
        gap = "   ";
    }
    for (size_t i = 0; i < sizeof sign_glyphs / sizeof sign_glyphs[0]; i++) {
        if (sign_glyphs[i].meaning == NULL || !has_sign(c->line, (timeline_sign)i))
            continue;
        fprintf(out, "%s%s %s", gap, term_pick(c->t, sign_glyphs[i].fancy, sign_glyphs[i].plain),
                sign_glyphs[i].meaning);
        gap = "   ";
    }
    fprintf(out, "%s\n", term_off(c->t));
}

void timeline_print(const timeline *line, const term *t)
{
    const canvas c = prepare(line, t);
    print_labels(&c);
    print_scale(&c);
    for (size_t i = 0; i < line->row_count; i++)
        print_row(&c, i);
    print_legend(&c);
}
