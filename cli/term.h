/* The abilities of the terminal, asked once: colours, its width, and whether it takes more than ASCII. All drawing code asks
 * here, so that a pipe, NO_COLOR and LANG=C get plain text from all commands alike. */
#ifndef SIMBA_CLI_TERM_H
#define SIMBA_CLI_TERM_H

#include <stdbool.h>
#include <stdio.h>

typedef struct term {
    FILE *stream;
    bool is_terminal;
    bool colour;
    bool utf8;
    unsigned width;
    unsigned height; /* 24 if it is not known */
} term;

typedef enum term_style {
    TERM_PLAIN,
    TERM_BOLD,
    TERM_DIM,
    TERM_RED,
    TERM_GREEN,
    TERM_YELLOW,
    TERM_BLUE,
    TERM_MAGENTA,
    TERM_CYAN,
} term_style;

/* Not a terminal: no colours, 80 columns. Of the locale only the character set counts: numbers stay readable for scripts. */
void term_open(FILE *stream, term *ret_term);

/* The sequence that switches a style on, and all of them off; "" without colours. */
const char *term_on(const term *t, term_style style);
const char *term_off(const term *t);

/* `fancy` if the locale has UTF-8, otherwise `plain`. */
const char *term_pick(const term *t, const char *fancy, const char *plain);

/* Columns that a text takes on the screen. The text is escaped already, see util/escape.h. */
int term_columns(const char *text);

/* Print escaped text in exactly so many columns: filled up with blanks, or cut off and marked. */
void term_cell(const term *t, const char *text, int width);

/* Print ASCII text in `style`, broken between words, every line indented. */
void term_wrap(const term *t, term_style style, unsigned indent, const char *text);

#endif
