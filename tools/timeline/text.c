/* See timeline.h. */
#include "timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 400
#define LABEL_ROOM 10      /* columns from one tick to the next, at least */
#define LONG_LABEL_ROOM 14 /* the same for "14:03:05.250" */
#define INDENT 2
#define LEGEND_GAP 3

/* What one column of a row shows: nothing, a timeline_kind, or a timeline_sign. */
enum { CELL_EMPTY = 0, CELL_KIND = 1, CELL_SIGN = 10 };

typedef struct glyph {
    const char *fancy;
    const char *plain;
    const char *meaning;
} glyph;

static const glyph kind_glyphs[] = {
    [TIMELINE_DEAD] = {" ", " ", NULL},
    [TIMELINE_UNKNOWN] = {"?", "?", "unknown"},
    [TIMELINE_WAITING] = {"░", ".", "waiting"},
    [TIMELINE_FAULT] = {"~", "~", "fault"},
    [TIMELINE_REMAINS] = {"╌", "-", "lease that is not renewed"},
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
    timeline_axis axis;
} canvas;

term_style timeline_style(size_t row)
{
    static const term_style styles[] = {TERM_CYAN, TERM_MAGENTA, TERM_YELLOW, TERM_GREEN, TERM_BLUE};
    return styles[row % (sizeof styles / sizeof styles[0])];
}

static unsigned column_of(const canvas *c, int64_t ms)
{
    if (ms <= 0)
        return 0;
    const int64_t column = ms * c->columns / c->line->to_ms;
    return column < c->columns ? (unsigned)column : c->columns;
}

static canvas prepare(const timeline *line, const term *t)
{
    canvas c = {.line = line, .t = t};
    for (size_t i = 0; i < line->row_count; i++) {
        const unsigned columns = (unsigned)term_columns(line->rows[i].name);
        c.margin = columns > c.margin ? columns : c.margin;
    }
    c.margin += INDENT + 2;
    /* A label may stand over the last tick and reach a little beyond it. */
    const unsigned taken = c.margin + 3;
    c.columns = t->width > taken + LABEL_ROOM ? t->width - taken : LABEL_ROOM;
    if (c.columns > COLUMNS_MAX)
        c.columns = COLUMNS_MAX;
    c.axis = timeline_axis_of(line, c.columns / LABEL_ROOM);
    if (c.axis.wall && c.axis.tick_ms < 1000)
        c.axis = timeline_axis_of(line, c.columns / LONG_LABEL_ROOM);
    return c;
}

/* The labels begin over their ticks. */
static void print_labels(const canvas *c)
{
    unsigned at = 0;
    char caption[64];
    fputs(term_on(c->t, TERM_DIM), c->t->stream);
    if (timeline_axis_caption(c->line, caption, sizeof caption))
        fprintf(c->t->stream, "%*s%s\n", (int)c->margin, "", caption);
    fprintf(c->t->stream, "%*s", (int)c->margin, "");
    for (int64_t ms = c->axis.first_ms; ms <= c->line->to_ms; ms += c->axis.tick_ms) {
        char label[32];
        timeline_axis_label(&c->axis, ms, label, sizeof label);
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
    int64_t next_ms = c->axis.first_ms;
    for (unsigned column = 0; column < c->columns; column++) {
        const bool tick = next_ms <= c->line->to_ms && column_of(c, next_ms) == column;
        const bool last = column + 1 == c->columns;
        if (tick)
            next_ms += c->axis.tick_ms;
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

/* One byte for each column of each row, so that segments and marks are gone through once, however many rows there are. */
static unsigned char *fill_cells(const canvas *c)
{
    unsigned char *cells = calloc(c->line->row_count > 0 ? c->line->row_count : 1, c->columns);
    if (cells == NULL)
        abort();
    for (size_t i = 0; i < c->line->segment_count; i++) {
        const timeline_segment *segment = &c->line->segments[i];
        const unsigned char cell = (unsigned char)(CELL_KIND + segment->kind);
        const unsigned from = column_of(c, segment->from_ms);
        const unsigned to = column_of(c, segment->to_ms);
        unsigned char *row = cells + segment->row * c->columns;
        if (segment->to_ms <= segment->from_ms || segment->kind == TIMELINE_CALLBACK)
            continue;
        for (unsigned column = from; column < c->columns && (column < to || column == from); column++)
            row[column] = cell > row[column] ? cell : row[column];
    }
    for (size_t i = 0; i < c->line->mark_count; i++) {
        const timeline_mark *mark = &c->line->marks[i];
        /* The very end belongs to the picture. */
        const unsigned column = column_of(c, mark->at_ms) - (mark->at_ms == c->line->to_ms);
        const unsigned char cell = (unsigned char)(CELL_SIGN + mark->sign);
        unsigned char *row = cells + mark->row * c->columns;
        if (column < c->columns && mark->sign != TIMELINE_PUSH && cell >= row[column])
            row[column] = cell;
    }
    return cells;
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
    else if (cell == CELL_KIND + TIMELINE_WAITING || cell == CELL_KIND + TIMELINE_UNKNOWN)
        style = TERM_DIM;
    fprintf(out, "%s%s%s", term_on(c->t, style), term_pick(c->t, shown->fancy, shown->plain), term_off(c->t));
}

static void print_row(const canvas *c, const timeline_row *row, const unsigned char *cells)
{
    unsigned last = 0;
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

bool timeline_has_kind(const timeline *line, timeline_kind kind)
{
    for (size_t i = 0; i < line->segment_count; i++)
        if (line->segments[i].kind == kind && line->segments[i].from_ms < line->to_ms)
            return true;
    return false;
}

bool timeline_has_sign(const timeline *line, timeline_sign sign)
{
    for (size_t i = 0; i < line->mark_count; i++)
        if (line->marks[i].sign == sign && line->marks[i].at_ms <= line->to_ms)
            return true;
    return false;
}

/* One symbol and what it means, on the next line if it does not fit on this one. `column` is where this line ends. */
static void explain(const canvas *c, const glyph *g, unsigned *column)
{
    FILE *out = c->t->stream;
    const unsigned length = (unsigned)strlen(g->meaning) + 2;
    if (*column == 0 || *column + LEGEND_GAP + length > c->t->width) {
        fprintf(out, "%s%*s", *column > 0 ? "\n" : "", INDENT, "");
        *column = INDENT;
    } else {
        fprintf(out, "%*s", LEGEND_GAP, "");
        *column += LEGEND_GAP;
    }
    fprintf(out, "%s %s", term_pick(c->t, g->fancy, g->plain), g->meaning);
    *column += length;
}

static void print_legend(const canvas *c)
{
    unsigned column = 0;
    fputs(term_on(c->t, TERM_DIM), c->t->stream);
    for (size_t i = 0; i < sizeof kind_glyphs / sizeof kind_glyphs[0]; i++)
        if (kind_glyphs[i].meaning != NULL && timeline_has_kind(c->line, (timeline_kind)i))
            explain(c, &kind_glyphs[i], &column);
    for (size_t i = 0; i < sizeof sign_glyphs / sizeof sign_glyphs[0]; i++)
        if (sign_glyphs[i].meaning != NULL && timeline_has_sign(c->line, (timeline_sign)i))
            explain(c, &sign_glyphs[i], &column);
    fprintf(c->t->stream, "%s\n", term_off(c->t));
}

void timeline_print(const timeline *line, const term *t)
{
    const canvas c = prepare(line, t);
    print_labels(&c);
    print_scale(&c);
    unsigned char *cells = fill_cells(&c);
    for (size_t i = 0; i < line->row_count; i++)
        print_row(&c, &line->rows[i], cells + i * c.columns);
    free(cells);
    print_legend(&c);
}
