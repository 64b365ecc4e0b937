/* A timeline as SVG. One band per row: the lease in full colour within the ttl and hatched in the transition, faults as a
 * red ground behind it, callbacks as a bar below it, requests as ticks above it. */
#include <inttypes.h>

#include "timeline/timeline.h"
#include "util/escape.h"

#define WIDTH 1000
#define LEFT_MIN 130
#define LEFT_MAX 400 /* names that need more are cut, and shown in full where there is a pointer */
#define CHARACTER 8  /* of a name, at most */
#define RIGHT 20
#define TOP 58
#define ROW 44
#define BAND 16 /* height of a lease */
#define TICKS 10
#define LEGEND_LINE 24
#define TEXT_SIZE 1200 /* a row's name, with all of it escaped twice, or what there is room for on any screen */

typedef struct drawing {
    const timeline *line;
    FILE *out;
    int left; /* where time begins */
} drawing;

/* XML has no way to write most control characters, and no file of it may have other bytes than UTF-8. */
static void escape(FILE *out, const char *text)
{
    char shown[TEXT_SIZE];
    for (text = simba__escape(text, shown, sizeof shown); *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

/* In tenths of a pixel, so that no locale and no rounding mode has a say. */
static int64_t x10(const drawing *d, int64_t ms)
{
    const int64_t in = ms < 0 ? 0 : ms > d->line->to_ms ? d->line->to_ms : ms;
    return d->left * 10 + in * (WIDTH - d->left - RIGHT) * 10 / d->line->to_ms;
}

static int middle(size_t row)
{
    return (int)(TOP + row * ROW + ROW / 2);
}

static void segment(const drawing *d, const timeline_segment *s)
{
    static const struct {
        const char *class; /* NULL: not drawn */
        int top, height;   /* from the middle of the row */
    } shapes[] = {
        [TIMELINE_DEAD] = {NULL, 0, 0},
        [TIMELINE_UNKNOWN] = {"unknown", -1, 2},
        [TIMELINE_WAITING] = {"waiting", -1, 2},
        [TIMELINE_FAULT] = {"fault", 2 - ROW / 2, ROW - 4},
        [TIMELINE_REMAINS] = {"remains", -BAND / 2, BAND},
        [TIMELINE_TRANSITION] = {"transition", -BAND / 2, BAND},
        [TIMELINE_OWNER] = {"ttl", -BAND / 2, BAND},
        [TIMELINE_CALLBACK] = {"callback", BAND / 2 + 2, 4},
    };
    const int64_t from = x10(d, s->from_ms);
    const int64_t to = x10(d, s->to_ms);
    const int64_t width = to - from > 8 ? to - from : 8;
    if (shapes[s->kind].class == NULL)
        return;
    fprintf(d->out,
            "<rect class=\"%s\" x=\"%" PRId64 ".%" PRId64 "\" y=\"%d\" width=\"%" PRId64 ".%" PRId64 "\" height=\"%d\"",
            shapes[s->kind].class, from / 10, from % 10, middle(s->row) + shapes[s->kind].top, width / 10, width % 10,
            shapes[s->kind].height);
    if (s->text == NULL || s->text[0] == '\0') {
        fputs("/>\n", d->out);
        return;
    }
    fputs("><title>", d->out);
    escape(d->out, s->text);
    fputs("</title></rect>\n", d->out);
}

static void sign_at(FILE *out, timeline_sign sign, int64_t x, int y, const char *text)
{
    static const char *const shapes[] = {
        [TIMELINE_PUSH] = "<path class=\"push\" d=\"M-3,13 L3,13 L0,9 z\"/>",
        [TIMELINE_REQUEST] = "<path class=\"request\" d=\"M0,-8 V-14\"/>",
        [TIMELINE_FAILED] = "<path class=\"failed\" d=\"M-3,-17 L3,-11 M3,-17 L-3,-11\"/>",
        [TIMELINE_ACQUIRED] = "<path class=\"acquired\" d=\"M-1,-9 L7,0 L-1,9 z\"/>",
        [TIMELINE_RELEASED] = "<path class=\"released\" d=\"M1,-9 L-7,0 L1,9 z\"/>",
        [TIMELINE_LOST] = "<path class=\"lost\" d=\"M0,-10 V10 M-4,-10 H4\"/>",
        [TIMELINE_KILLED] = "<path class=\"killed\" d=\"M-6,-6 L6,6 M6,-6 L-6,6\"/>",
    };
    fprintf(out, "<g transform=\"translate(%" PRId64 ".%" PRId64 ",%d)\">", x / 10, x % 10, y);
    fputs(shapes[sign], out);
    if (text != NULL && text[0] != '\0') {
        fputs("<title>", out);
        escape(out, text);
        fputs("</title>", out);
    }
    fputs("</g>\n", out);
}

static void axis(const drawing *d)
{
    const int bottom = TOP + (int)d->line->row_count * ROW;
    const timeline_axis ticks = timeline_axis_of(d->line, TICKS);
    for (int64_t ms = ticks.first_ms; ms <= d->line->to_ms; ms += ticks.tick_ms) {
        char label[32];
        const int64_t x = x10(d, ms);
        timeline_axis_label(&ticks, ms, label, sizeof label);
        fprintf(d->out, "<path class=\"grid\" d=\"M%" PRId64 ".%" PRId64 ",%d V%d\"/>\n", x / 10, x % 10, TOP - 6,
                bottom);
        fprintf(d->out, "<text class=\"tick\" x=\"%" PRId64 ".%" PRId64 "\" y=\"%d\">%s</text>\n", x / 10, x % 10,
                TOP - 10, label);
    }
}

/* One symbol and what it means. */
typedef struct explanation {
    const char *shape; /* around 9,-2; NULL: that of the sign */
    const char *text;
    int width; /* with the gap to the next */
} explanation;

static const explanation kinds[] = {
    [TIMELINE_OWNER] = {"<rect class=\"ttl\" y=\"-8\" width=\"18\" height=\"12\"/>", "lease, within ttl", 140},
    [TIMELINE_TRANSITION] = {"<rect class=\"transition\" y=\"-8\" width=\"18\" height=\"12\"/>", "lease, in transition",
                             160},
    [TIMELINE_REMAINS] = {"<rect class=\"remains\" y=\"-8\" width=\"18\" height=\"12\"/>", "lease that is not renewed",
                          180},
    [TIMELINE_WAITING] = {"<rect class=\"waiting\" y=\"-3\" width=\"18\" height=\"2\"/>", "waiting", 90},
    [TIMELINE_UNKNOWN] = {"<rect class=\"unknown\" y=\"-3\" width=\"18\" height=\"2\"/>", "unknown", 95},
    [TIMELINE_FAULT] = {"<rect class=\"fault\" y=\"-10\" width=\"18\" height=\"16\"/>", "fault", 70},
    [TIMELINE_CALLBACK] = {"<rect class=\"callback\" y=\"-4\" width=\"18\" height=\"4\"/>", "callback runs", 120},
};

static const explanation signs[] = {
    [TIMELINE_REQUEST] = {"<path class=\"request\" d=\"M8,-8 V2\"/>", "asks the store", 120},
    [TIMELINE_PUSH] = {"<path class=\"push\" d=\"M5,2 L11,2 L8,-4 z\"/>", "is pushed to", 110},
    [TIMELINE_FAILED] = {"<path class=\"failed\" d=\"M6,-5 L12,1 M12,-5 L6,1\"/>", "no answer", 100},
    [TIMELINE_ACQUIRED] = {NULL, "on_acquired", 115},
    [TIMELINE_RELEASED] = {NULL, "on_released", 115},
    [TIMELINE_LOST] = {NULL, "lost", 65},
    [TIMELINE_KILLED] = {NULL, "killed", 80},
};

/* Where the next symbol goes; a line that is full is followed by another. */
typedef struct pen {
    int x, y;
} pen;

static void explain(const drawing *d, pen *at, const explanation *e, timeline_sign sign)
{
    if (at->x + e->width > WIDTH - RIGHT) {
        at->x = LEFT_MIN;
        at->y += LEGEND_LINE;
    }
    if (e->shape != NULL)
        fprintf(d->out, "<g transform=\"translate(%d,%d)\">%s</g>", at->x, at->y, e->shape);
    else
        sign_at(d->out, sign, (at->x + 8) * 10, at->y - 2, NULL);
    fprintf(d->out, "<text x=\"%d\" y=\"%d\">%s</text>\n", at->x + 24, at->y + 2, e->text);
    at->x += e->width;
}

static void legend(const drawing *d)
{
    pen at = {LEFT_MIN, TOP + (int)d->line->row_count * ROW + 26};
    for (size_t i = sizeof kinds / sizeof kinds[0]; i-- > TIMELINE_UNKNOWN;)
        if (timeline_has_kind(d->line, (timeline_kind)i))
            explain(d, &at, &kinds[i], TIMELINE_PUSH);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (timeline_has_sign(d->line, (timeline_sign)i))
            explain(d, &at, &signs[i], (timeline_sign)i);
}

static void style(FILE *out)
{
    fputs("<style>\n"
          "text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #333 }\n"
          ".name { font: 12px ui-monospace, monospace } .title { font-size: 15px; fill: #111 }\n"
          ".day { text-anchor: end; fill: #777 } .tick { text-anchor: middle; fill: #777; font-size: 11px } .grid { "
          "stroke: #e4e4e4 }\n"
          ".ttl { fill: #2e7d5b } .transition { fill: url(#hatch); stroke: #2e7d5b; stroke-width: .6 }\n"
          ".remains { fill: #fff; stroke: #2e7d5b; stroke-dasharray: 3 3 }\n"
          ".waiting { fill: #b5b5b5 } .unknown { fill: #fff; stroke: #b5b5b5; stroke-dasharray: 1 5 }"
          " .fault { fill: #e4572e; fill-opacity: .22 } .callback { fill: #3d5a98 }\n"
          ".request { stroke: #555; stroke-width: 1.4; fill: none } .push { fill: #8a6fb0 }\n"
          ".failed { stroke: #c0392b; stroke-width: 1.6; fill: none }\n"
          ".acquired { fill: #14532d } .released { fill: #7a4a00 }\n"
          ".lost { stroke: #c0392b; stroke-width: 2; fill: none } .killed { stroke: #c0392b; stroke-width: 3; fill: "
          "none }\n"
          ".page { fill: #fff } .hatch { fill: #dcefe5 } .hatched { fill: #8fc4aa }\n"
          "@media (prefers-color-scheme: dark) { .page, .remains, .unknown { fill: #14171a } text, .day, .tick { fill: "
          "#c9ced3 }"
          " .title { fill: #fff } .grid { stroke: #2b3036 } .ttl { fill: #3fa37a } .hatch { fill: #1f3a2f } .hatched { "
          "fill: #3fa37a }"
          " .waiting { fill: #6b7178 } .callback { fill: #7f9be0 } .request { stroke: #aeb4ba } .push { fill: #b79be0 }"
          " .acquired { fill: #8fe0b4 } .released { fill: #e0b070 } .failed, .lost, .killed { stroke: #ff7b6b } }\n"
          "</style>\n"
          "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\""
          " patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" class=\"hatch\"/>"
          "<rect width=\"2\" height=\"6\" class=\"hatched\"/></pattern></defs>\n",
          out);
}

void timeline_svg(const timeline *line, const char *title, FILE *out)
{
    static const timeline_kind order[] = {TIMELINE_FAULT,      TIMELINE_UNKNOWN, TIMELINE_WAITING, TIMELINE_REMAINS,
                                          TIMELINE_TRANSITION, TIMELINE_OWNER,   TIMELINE_CALLBACK};
    drawing d = {.line = line, .out = out, .left = LEFT_MIN};
    char day[64];
    for (size_t i = 0; i < line->row_count; i++) {
        const int needed = 24 + term_columns(line->rows[i].name) * CHARACTER;
        d.left = needed > d.left ? needed : d.left;
    }
    d.left = d.left < LEFT_MAX ? d.left : LEFT_MAX;
    const int height = TOP + (int)line->row_count * ROW + 44 + LEGEND_LINE;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n",
        WIDTH, height, WIDTH, height);
    style(out);
    fprintf(out, "<rect width=\"%d\" height=\"%d\" class=\"page\"/>\n", WIDTH, height);
    fputs("<text class=\"title\" x=\"12\" y=\"24\">", out);
    escape(out, title);
    fputs("</text>\n", out);
    if (timeline_axis_caption(line, day, sizeof day))
        fprintf(out, "<text class=\"day\" x=\"%d\" y=\"24\">%s</text>\n", WIDTH - RIGHT, day);
    axis(&d);
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
        for (size_t i = 0; i < line->segment_count; i++)
            if (line->segments[i].kind == order[k] && line->segments[i].to_ms > line->segments[i].from_ms)
                segment(&d, &line->segments[i]);
    for (size_t i = 0; i < line->mark_count; i++)
        if (line->marks[i].at_ms <= line->to_ms)
            sign_at(out, line->marks[i].sign, x10(&d, line->marks[i].at_ms), middle(line->marks[i].row),
                    line->marks[i].text);
    /* The names, and where their place is too narrow the whole of them under the pointer. */
    for (size_t i = 0; i < line->row_count; i++) {
        fprintf(out, "<svg width=\"%d\" height=\"%d\" y=\"%d\"><text class=\"name\" x=\"12\" y=\"%d\">", d.left - 8,
                ROW, middle(i) - ROW / 2, ROW / 2 + 4);
        escape(out, line->rows[i].name);
        fputs("<title>", out);
        escape(out, line->rows[i].name);
        fputs("</title></text></svg>\n", out);
    }
    legend(&d);
    fputs("</svg>\n", out);
}
