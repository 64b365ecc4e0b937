/* See term.h. */
#include "term.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "util/escape.h"

#define WIDTH_ELSEWHERE 80
#define WIDTH_MIN 40
#define HEIGHT_ELSEWHERE 24
#define PROSE_MAX 100 /* longer lines are hard to read, however wide the window is */

void term_open(FILE *stream, term *ret_term)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *kind = getenv("TERM");
    const int fd = fileno(stream);
    const bool is_terminal = fd >= 0 && isatty(fd) == 1;
    struct winsize size = {0};

    ret_term->stream = stream;
    ret_term->is_terminal = is_terminal;
    ret_term->colour =
        is_terminal && (no_colour == NULL || no_colour[0] == '\0') && kind != NULL && strcmp(kind, "dumb") != 0;
    setlocale(LC_CTYPE, "");
    ret_term->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    ret_term->width = WIDTH_ELSEWHERE;
    ret_term->height = HEIGHT_ELSEWHERE;
    if (!is_terminal || ioctl(fd, TIOCGWINSZ, &size) != 0)
        return;
    if (size.ws_col > 0)
        ret_term->width = size.ws_col > WIDTH_MIN ? size.ws_col : WIDTH_MIN;
    if (size.ws_row > 0)
        ret_term->height = size.ws_row;
}

const char *term_on(const term *t, term_style style)
{
    static const char *const codes[] = {
        [TERM_PLAIN] = "",        [TERM_BOLD] = "\033[1m",     [TERM_DIM] = "\033[2m",
        [TERM_RED] = "\033[31m",  [TERM_GREEN] = "\033[32m",   [TERM_YELLOW] = "\033[33m",
        [TERM_BLUE] = "\033[34m", [TERM_MAGENTA] = "\033[35m", [TERM_CYAN] = "\033[36m",
    };
    return t->colour ? codes[style] : "";
}

const char *term_off(const term *t)
{
    return t->colour ? "\033[0m" : "";
}

const char *term_pick(const term *t, const char *fancy, const char *plain)
{
    return t->utf8 ? fancy : plain;
}

/* Of the first character, whose length is left in *ret_length. */
static int columns_of_next(const char *text, size_t *ret_length)
{
    uint32_t code = 0;
    const size_t length = simba__utf8_next(text, &code);
    const int columns = length > 0 ? wcwidth((wchar_t)code) : -1;
    *ret_length = length > 0 ? length : 1;
    return columns >= 0 ? columns : 1; /* a character that the locale does not know */
}

int term_columns(const char *text)
{
    int columns = 0;
    for (size_t length; *text != '\0'; text += length)
        columns += columns_of_next(text, &length);
    return columns;
}

void term_cell(const term *t, const char *text, int width)
{
    const int columns = term_columns(text);
    if (columns <= width) {
        fprintf(t->stream, "%s%*s", text, width - columns, "");
        return;
    }
    int used = 0;
    size_t length;
    for (const char *at = text; *at != '\0'; at += length) {
        const int next = columns_of_next(at, &length);
        if (used + next > width - 1)
            break;
        fwrite(at, 1, length, t->stream);
        used += next;
    }
    fprintf(t->stream, "%s%*s", term_pick(t, "…", "~"), width - 1 - used, "");
}

void term_wrap(const term *t, term_style style, unsigned indent, const char *text)
{
    const size_t width = t->width < PROSE_MAX ? t->width : PROSE_MAX;
    size_t column = 0;

    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        const bool fits = column == 0 || column + 1 + length < width;
        if (!fits) {
            fprintf(t->stream, "%s\n", term_off(t));
            column = 0;
        }
        if (column == 0) {
            fprintf(t->stream, "%*s%s", (int)indent, "", term_on(t, style));
            column = indent;
        } else {
            fputc(' ', t->stream);
            column++;
        }
        fprintf(t->stream, "%.*s", (int)length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fprintf(t->stream, "%s\n", term_off(t));
}
