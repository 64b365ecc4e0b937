/* What the tests of the command share: the real binary as a process with its output in files, things to wait for with a
 * deadline, and helpers that the test program itself plays when it is started with a word for it.
 *
 *   beat FILE             ignores SIGTERM and writes the boot-time clock into FILE again and again, until it is killed
 *   family FILE FILE      the same, after having started a child in a session of its own that does it too
 *   stamp FILE            writes the boot-time clock into FILE once
 *   intrude GROUP FILE    joins a process group, ignores SIGTERM, makes FILE, and waits until it is killed
 *   defect FILE           becomes another user for good, makes FILE, and waits until it is killed
 *   freeze DATABASE FILE  takes SQLite's write lock, makes FILE, and keeps the lock until it is killed */
#ifndef TESTS_CLI_SUPPORT_H
#define TESTS_CLI_SUPPORT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/cm.h"

#define TIMEOUT_MS 20000
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* First in main: plays a helper and exits if the arguments ask for one. */
void helper_main(int argc, char **argv);
/* The path of this program, to start helpers with. */
extern const char *helper;

/* A test with a fresh directory, and SIMBA_URL naming a store in it with a lease of one second and one more. */
#define TEST(function) cmocka_unit_test_setup_teardown(function, test_setup, test_teardown)
int test_setup(void **state);
/* The same with a store that has been made, for commands that only look. */
#define TEST_WITH_STORE(function) cmocka_unit_test_setup_teardown(function, test_setup_with_store, test_teardown)
int test_setup_with_store(void **state);
int test_teardown(void **state);

/* The same store with another ttl and transition than a second each: room for a busy machine to act before a lease ends. */
void set_lease(const char *ttl, const char *transition);

/* A path in the directory of the test; good until eight more were asked for. */
const char *in_dir(const char *name);

/* --- processes ----------------------------------------------------------------------------------- */

typedef struct process {
    pid_t pid;
    int in; /* write end of its standard input; -1: closed */
    char out_path[300];
    char err_path[300];
} process;

/* Start `simba ARGUMENT…` in a process group of its own, with a pipe as standard input. */
process start(const char *const arguments[]);
#define START(...) start((const char *const[]){__VA_ARGS__, NULL})

/* Called in the child before it becomes `simba`, if it is set; the test's own arrangements. Ended by every teardown. */
extern void (*before_simba)(void);

/* Close its input, wait for its end; its exit code, or 1000 + the signal that ended it. */
int finish(process *p);
/* What it wrote, good until the next call. */
const char *out_of(const process *p);
const char *err_of(const process *p);

#define RUN(...)                                                                                                       \
    ({                                                                                                                 \
        process run_ = START(__VA_ARGS__);                                                                             \
        last = run_;                                                                                                   \
        finish(&last);                                                                                                 \
    })
extern process last;

/* Every command that would wait ends with this code by itself, and with one line that has these words in it. */
void assert_all_refused(const char *url, int code, const char *words);

/* The same on a terminal of its own, of 33 rows and 77 columns, or as many as are asked for. */
typedef struct terminal {
    pid_t pid;
    int fd;
    char text[8192]; /* what it has shown, as far as it was awaited */
} terminal;

terminal start_on_terminal_with(const char *const arguments[]);
terminal start_on_terminal_of(unsigned columns, const char *const arguments[]);
#define START_ON_TERMINAL(...) start_on_terminal_with((const char *const[]){__VA_ARGS__, NULL})
/* Until the terminal has shown it. */
void await_shown(terminal *t, const char *text);
/* Read what is left into the text, wait for the end; its exit code as of `finish`. */
int finish_terminal(terminal *t);

pid_t start_helper(const char *word, const char *first, const char *second);
void end_process(pid_t pid);

/* The only child of a process. */
pid_t child_of(pid_t pid);

/* When the lease of a mutex ends, or has ended, in the store of the test; on the clock of `now_ns`. 0: it is free. */
int64_t lease_end_ns(const char *mutex);

/* --- waiting -------------------------------------------------------------------------------------- */

int64_t now_ns(void);
/* Until there is something in the file, or this text; fails the test otherwise. */
void await_file(const char *path);
void await_text_in(const char *path, const char *text);
void await_lines_in(const char *path, int lines);
int lines_in(const char *path);
/* Until the boot-time clock has come to that. */
void await_time(int64_t at_ns);
/* Until there is no process of that number. */
void await_death(pid_t pid);
/* The number in a file; 0: none. */
int64_t number_in(const char *path);
/* What is in a file, good until the next call but one. */
const char *contents(const char *path);
void write_file(const char *path, const char *text);

#endif
