/* `simba top`: shows who has which mutex, as it changes, on a terminal. One thread asks the store, which may take
 * seconds to answer or not answer at all; this one draws, and handles keys and signals meanwhile. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"
#include "screen.h"
#include "signals.h"
#include "table.h"

#define COMMAND "top"
#define ASK_MS 1000
#define HEAD_LINES 2 /* the summary, and the head of the table */

typedef struct top {
    simba_client *client;
    const char *pattern;
    int news; /* eventfd: there is something new to draw */
    int stop; /* eventfd: the thread is to end */
    pthread_t thread;
    pthread_mutex_t lock;
    /* The results of that thread, under the lock. */
    look *found;      /* the latest answer; NULL: none yet */
    char error[256];  /* why there is none since; "": there is */
    int64_t found_ns; /* when the store answered last */
    /* Of the thread that draws. */
    char *warning; /* such as a damaged row: the list is of the others; NULL: none */
    size_t first;  /* the row that is drawn first */
    size_t page;   /* how many there is room for */
} top;

/* --- asking ---------------------------------------------------------------------------------------- */

static void take_over(top *t, look *asked)
{
    look *out_of_date = asked;
    pthread_mutex_lock(&t->lock);
    snprintf(t->error, sizeof t->error, "%s", asked->error);
    if (asked->code == 0) {
        out_of_date = t->found;
        t->found = asked;
        t->found_ns = clock_boot_ns();
    }
    pthread_mutex_unlock(&t->lock);
    look_free(out_of_date);
    eventfd_write(t->news, 1);
}

static void *ask_again_and_again(void *user)
{
    top *t = user;
    struct pollfd stop = {.fd = t->stop, .events = POLLIN};
    do
        take_over(t, look_at(t->client, t->pattern, SIZE_MAX));
    while (poll(&stop, 1, ASK_MS) == 0);
    return NULL;
}

/* --- drawing --------------------------------------------------------------------------------------- */

/* A line in a colour, cut to the width. */
static void draw_line(const term *t, term_style style, const char *line)
{
    fputs(term_on(t, style), t->stream);
    term_cell(t, line, (int)t->width);
    fprintf(t->stream, "%s\n", term_off(t));
}

/* "12 mutexes, 3 owned   14:03:05"; NULL: the store has never answered. */
static void draw_summary(const term *t, const look *list, size_t first, size_t rows)
{
    char clock[16] = "";
    char line[128];
    const time_t now = time(NULL);
    struct tm local;
    size_t owned = 0;
    for (size_t i = 0; list != NULL && i < list->count; i++)
        owned += simba_owner_has_owner(&list->rows[i].owner, list->store_ms);
    if (localtime_r(&now, &local) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    const int length = list == NULL ? snprintf(line, sizeof line, "no answer from the store yet")
                                    : snprintf(line, sizeof line, "%zu mutexes, %zu owned", list->count, owned);
    if (list != NULL && list->count > rows)
        snprintf(line + length, sizeof line - (size_t)length, ", %zu to %zu shown", first + 1,
                 first + rows < list->count ? first + rows : list->count);
    term_cell(t, line, (int)t->width - 9);
    fprintf(t->stream, " %s\n", clock);
}

/* While the store does not answer, the list is out of date. */
static void draw_error(const term *t, const char *error, int64_t found_ns)
{
    char line[320];
    const int64_t ago_s = (clock_boot_ns() - found_ns) / (1000 * MS);
    if (found_ns > 0)
        snprintf(line, sizeof line, "This was %lld s ago: %s", (long long)ago_s, error);
    else
        snprintf(line, sizeof line, "%s", error);
    draw_line(t, TERM_RED, line);
}

/* With the lock. */
static void draw_all(top *shown, const term *t)
{
    static const look nothing;
    const look *found = shown->found != NULL ? shown->found : &nothing;
    const bool failed = shown->error[0] != '\0';
    const size_t taken = HEAD_LINES + failed + (shown->warning != NULL);
    const size_t rows = t->height > taken ? t->height - taken : 1;
    const size_t last = found->count > rows ? found->count - rows : 0;
    shown->page = rows;
    shown->first = shown->first < last ? shown->first : last;
    draw_summary(t, shown->found, shown->first, rows);
    if (failed)
        draw_error(t, shown->error, shown->found_ns);
    if (shown->warning != NULL)
        draw_line(t, TERM_YELLOW, shown->warning);
    if (found->count == 0 && !failed)
        fputs(shown->found_ns > 0 ? "No mutex.\n" : "Asking ...\n", t->stream);
    table_layout l = table_measure(found);
    table_add_bar(&l, (int)t->width);
    table_squeeze(&l, (int)t->width);
    table_fit_note(&l, (int)t->width);
    table_print(t, found, &l, shown->first, rows);
}

static void draw(top *shown)
{
    term t;
    char *lines = NULL;
    size_t size = 0;
    term_open(stdout, &t);
    t.stream = open_memstream(&lines, &size);
    if (t.stream == NULL)
        return;
    pthread_mutex_lock(&shown->lock);
    draw_all(shown, &t);
    pthread_mutex_unlock(&shown->lock);
    fclose(t.stream);
    if (lines != NULL)
        screen_show(&t, lines);
    free(lines);
}

/* --- the loop -------------------------------------------------------------------------------------- */

static void scroll(top *t, screen_key key)
{
    const size_t before = t->first;
    switch (key) {
    case SCREEN_UP:
        t->first -= before > 0;
        break;
    case SCREEN_DOWN:
        t->first++;
        break;
    case SCREEN_PAGE_UP:
        t->first -= before > t->page ? t->page : before;
        break;
    case SCREEN_PAGE_DOWN:
        t->first += t->page;
        break;
    case SCREEN_HOME:
        t->first = 0;
        break;
    case SCREEN_END:
        t->first = SIZE_MAX / 2; /* too far, which drawing mends */
        break;
    case SCREEN_NO_KEY:
    case SCREEN_OTHER_KEY:
    case SCREEN_QUIT:
        break;
    }
}

/* Keep the last warning that came with this answer. */
static void keep_warning(void *user, const char *line)
{
    top *t = user;
    free(t->warning);
    t->warning = strdup(line);
}

static void hear_news(top *t)
{
    eventfd_t count;
    eventfd_read(t->news, &count);
    free(t->warning);
    t->warning = NULL;
    cli_take_warnings(keep_warning, t);
}

/* CLI_GO, or the exit code. */
static int hear_keys(top *t)
{
    screen_key key;
    while ((key = screen_read_key()) != SCREEN_NO_KEY) {
        if (key == SCREEN_QUIT)
            return CLI_OK;
        scroll(t, key);
    }
    return CLI_GO;
}

static int hear_signals(const cli_signals *signals)
{
    int number;
    while ((number = signals_read(signals)) != 0) {
        if (signals_is_ending(number))
            return CLI_SIGNAL + number;
        if (number == SIGTSTP) {
            screen_leave();
            raise(SIGSTOP);
            screen_enter();
        }
    }
    return CLI_GO;
}

static int follow(top *t, const cli_signals *signals)
{
    int code = CLI_GO;
    screen_enter();
    while (code == CLI_GO && !ferror(stdout)) {
        struct pollfd fds[] = {{.fd = t->news, .events = POLLIN},
                               {.fd = signals->fd, .events = POLLIN},
                               {.fd = screen_keys_fd(), .events = POLLIN}};
        draw(t);
        if (poll(fds, 3, ASK_MS) <= 0)
            continue; /* the clock goes on, also if the store does not answer */
        if (fds[0].revents != 0)
            hear_news(t);
        if (fds[1].revents != 0)
            code = hear_signals(signals);
        if (fds[2].revents != 0 && code == CLI_GO)
            code = fds[2].revents & POLLIN ? hear_keys(t) : CLI_FAILED; /* otherwise the terminal is gone */
    }
    screen_leave();
    return code == CLI_GO ? CLI_FAILED : code;
}

static int run(top *t, const cli_signals *signals)
{
    t->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->news < 0 || t->stop < 0 || pthread_create(&t->thread, NULL, ask_again_and_again, t) != 0)
        return cli_fail(COMMAND, CLI_SYSTEM, "no thread could be made to ask the store: %s.", strerror(errno));
    const int code = cli_leave(follow(t, signals));
    eventfd_write(t->stop, 1);
    pthread_join(t->thread, NULL);
    look_free(t->found);
    free(t->warning);
    close(t->news);
    close(t->stop);
    return code;
}

/* Without a terminal there is nothing to draw in place. */
static int print_once(const top *t)
{
    look *l = look_at(t->client, t->pattern, SIZE_MAX);
    const int code = l->code < 0 ? look_failure(COMMAND, l) : CLI_OK;
    if (code == CLI_OK) {
        cli_take_warnings(NULL, NULL);
        table_show(l);
    }
    look_free(l);
    return code;
}

int cmd_top(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "[PATTERN]",
        .about = "Shows the mutexes of a store whose names match the shell pattern, or all, as\n"
                 "`simba list` does, and draws them anew every second. The arrow keys, PgUp and\n"
                 "PgDn move through them, q ends it. If standard output is not a terminal, it\n"
                 "prints them once.",
        .takes = CLI_TAKES_URL,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    top t = {.pattern = argc > 0 ? argv[0] : NULL, .lock = PTHREAD_MUTEX_INITIALIZER};
    cli_signals signals;
    const bool draws = screen_is_possible();
    globals->quiet = true; /* the command reports a failure itself, once, or draws it */
    globals->only_looks = true;
    int code = draws ? signals_open(COMMAND, &signals) : CLI_GO; /* before there are threads */
    if (code == CLI_GO)
        code = cli_open(COMMAND, globals, &t.client);
    if (code != CLI_GO)
        return code;
    return cli_close(t.client, draws ? run(&t, &signals) : print_once(&t));
}
