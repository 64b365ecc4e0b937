/* See screen.h. */
#include "screen.h"

#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct {
    bool entered;
    bool types; /* standard input is a terminal, and its settings are in `before` */
    struct termios before;
    char typed[64];
    size_t length, at;
} screen;

bool screen_is_possible(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
}

static void put(const char *text)
{
    fputs(text, stdout);
    fflush(stdout);
}

/* The second screen of the terminal, and no cursor. */
void screen_enter(void)
{
    static bool prepared;
    if (!prepared)
        atexit(screen_leave);
    prepared = true;
    screen.types = tcgetattr(STDIN_FILENO, &screen.before) == 0;
    if (screen.types) {
        struct termios keys = screen.before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 0;
        keys.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    put("\033[?1049h\033[?25l");
    screen.entered = true;
}

void screen_leave(void)
{
    if (!screen.entered)
        return;
    screen.entered = false;
    put("\033[?25h\033[?1049l");
    if (screen.types)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

/* Each line over the one that was there, so that nothing flickers; the rest of the screen is empty. */
void screen_show(const term *t, const char *lines)
{
    fputs("\033[H", stdout);
    for (unsigned row = 0; row < t->height && *lines != '\0'; row++) {
        const size_t length = strcspn(lines, "\n");
        fprintf(stdout, "%s%.*s\033[K", row > 0 ? "\r\n" : "", (int)length, lines);
        lines += length + (lines[length] == '\n');
    }
    put("\033[J");
}

int screen_keys_fd(void)
{
    return screen.types ? STDIN_FILENO : -1;
}

/* Skip an escape sequence that means nothing here, but not the keys after it: "\033[" goes on to a letter or "~". */
static void skip_sequence(void)
{
    const bool control = screen.at + 1 < screen.length && screen.typed[screen.at + 1] == '[';
    screen.at += control ? 2 : 1;
    while (control && screen.at < screen.length) {
        const char byte = screen.typed[screen.at++];
        if (byte >= '@' && byte <= '~')
            break;
    }
}

/* The key that begins at screen.at. */
static screen_key next_key(void)
{
    static const struct {
        const char *bytes;
        screen_key key;
    } keys[] = {
        {"\033[A", SCREEN_UP},       {"\033OA", SCREEN_UP},   {"k", SCREEN_UP},
        {"\033[B", SCREEN_DOWN},     {"\033OB", SCREEN_DOWN}, {"j", SCREEN_DOWN},
        {"\033[5~", SCREEN_PAGE_UP}, {"b", SCREEN_PAGE_UP},   {"\033[6~", SCREEN_PAGE_DOWN},
        {" ", SCREEN_PAGE_DOWN},     {"f", SCREEN_PAGE_DOWN}, {"\033[H", SCREEN_HOME},
        {"\033OH", SCREEN_HOME},     {"g", SCREEN_HOME},      {"\033[F", SCREEN_END},
        {"\033OF", SCREEN_END},      {"G", SCREEN_END},       {"q", SCREEN_QUIT},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const size_t length = strlen(keys[i].bytes);
        if (screen.length - screen.at >= length && memcmp(screen.typed + screen.at, keys[i].bytes, length) == 0) {
            screen.at += length;
            return keys[i].key;
        }
    }
    if (screen.typed[screen.at] == '\033')
        skip_sequence();
    else
        screen.at++;
    return SCREEN_OTHER_KEY;
}

screen_key screen_read_key(void)
{
    if (screen.at == screen.length) {
        const ssize_t got = read(STDIN_FILENO, screen.typed, sizeof screen.typed);
        screen.at = 0;
        screen.length = got > 0 ? (size_t)got : 0;
        if (got <= 0)
            return SCREEN_NO_KEY;
    }
    return next_key();
}
