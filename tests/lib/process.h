/* Other processes, for tests about what happens between processes. Each is this same program, started anew with
 * arguments that say what to do, so that it has nothing of this process's library. They talk in lines, all of which are
 * kept. A test can freeze and kill a process. If a process cannot go on, the test fails. */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_LINES = 256, PROCESS_LINE = 320, PROCESS_ARGS = 12 };

typedef struct process {
    pid_t pid; /* 0: none, or reaped */
    int in, out;
    char partial[PROCESS_LINE];
    char lines[PROCESS_LINES][PROCESS_LINE];
    unsigned count;
    unsigned next; /* the first line that nobody has awaited */
} process;

/* Start one with these arguments, ended by NULL. */
void process_start(process *p, const char *const args[]);
void process_say(process *p, const char *line);

/* Wait for a line that begins with this word, among the lines that nobody has awaited yet; earlier lines count as awaited.
 * Returns the line without the word. */
const char *process_await(process *p, const char *word, int64_t ms);
/* The same for several processes: returns the index of the one that says it first. */
int process_await_any(process *const who[], int count, const char *word, int64_t ms, const char **ret_rest);
/* How many lines began with this word so far, awaited or not. Does not wait. */
unsigned process_count(process *p, const char *word);

/* Send a signal. If it stops or kills the process, wait until it has. */
void process_signal(process *p, int number);
/* Listen to a process for `ms`, which need not say anything: the duration of a fault. */
void process_listen(process *p, int64_t ms);
/* Say "quit" and wait for the process to end with success. */
void process_end(process *p);

/* After a test, passed or failed: kill the processes that are left. False: there were some. */
bool process_clean_up(void);

#endif
