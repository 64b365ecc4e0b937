/* The terminal as a screen that is drawn in place: without earlier lines, without a cursor, and with keys that
 * arrive one by one. Whatever ends the command, it restores the terminal. */
#ifndef SIMBA_CLI_SCREEN_H
#define SIMBA_CLI_SCREEN_H

#include "term.h"

/* Can standard output be drawn on in place? */
bool screen_is_possible(void);

void screen_enter(void);
/* May be called any number of times. */
void screen_leave(void);

/* Show these lines in place of the old ones. Leaves out lines that do not fit into the height of the terminal. */
void screen_show(const term *t, const char *lines);

typedef enum screen_key {
    SCREEN_NO_KEY,
    SCREEN_OTHER_KEY,
    SCREEN_QUIT,
    SCREEN_UP,
    SCREEN_DOWN,
    SCREEN_PAGE_UP,
    SCREEN_PAGE_DOWN,
    SCREEN_HOME,
    SCREEN_END,
} screen_key;

/* Poll it; -1: there is no keyboard. */
int screen_keys_fd(void);
/* The next key that was typed. */
screen_key screen_read_key(void);

#endif
