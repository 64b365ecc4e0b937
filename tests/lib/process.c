/* See process.h. */
#include "lib/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"

enum { ALL_MAX = 16 };
#define END_MS ref_scaled_ms(15000)

static process *all[ALL_MAX];

static void forget(process *p)
{
    for (int i = 0; i < ALL_MAX; i++)
        if (all[i] == p)
            all[i] = NULL;
    close(p->in);
    close(p->out);
    p->pid = 0;
}

static void remember(process *p)
{
    int i = 0;
    while (i < ALL_MAX && all[i])
        i++;
    assert_true(i < ALL_MAX);
    all[i] = p;
}

void process_start(process *p, const char *const args[])
{
    char self[512] = "";
    char *argv[PROCESS_ARGS + 2] = {self};
    int to[2];
    int from[2];
    /* Use its name and not /proc/self/exe, which is valgrind if valgrind runs us. */
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    for (int i = 0; args[i]; i++) {
        assert_true(i < PROCESS_ARGS);
        argv[i + 1] = (char *)args[i];
    }
    assert_int_equal(0, pipe2(to, O_CLOEXEC));
    assert_int_equal(0, pipe2(from, O_CLOEXEC));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    memset(p, 0, sizeof *p);
    const int rc = posix_spawn(&p->pid, self, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    assert_int_equal(0, rc);
    p->in = to[1];
    p->out = from[0];
    fcntl(p->out, F_SETFL, O_NONBLOCK);
    remember(p);
}

void process_say(process *p, const char *line)
{
    char text[PROCESS_LINE];
    const int length = snprintf(text, sizeof text, "%s\n", line);
    if (write(p->in, text, (size_t)length) != length)
        fail_msg("a process that was told \"%s\" does not listen", line);
}

/* --- lines ------------------------------------------------------------------------------------------- */

static void add(process *p, char c)
{
    const size_t length = strlen(p->partial);
    if (c != '\n') {
        assert_true(length + 1 < sizeof p->partial);
        p->partial[length] = c;
        p->partial[length + 1] = '\0';
        return;
    }
    assert_true(p->count < PROCESS_LINES);
    memcpy(p->lines[p->count++], p->partial, sizeof p->partial);
    p->partial[0] = '\0';
}

/* Read the bytes that have come. False: no more will come. */
static bool pump(process *p)
{
    char bytes[512];
    for (;;) {
        const ssize_t got = read(p->out, bytes, sizeof bytes);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        for (ssize_t i = 0; i < got; i++)
            add(p, bytes[i]);
    }
}

static const char *rest_after(const char *line, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || (line[length] != ' ' && line[length] != '\0'))
        return NULL;
    return line[length] ? line + length + 1 : line + length;
}

static const char *take(process *p, const char *word)
{
    for (unsigned i = p->next; i < p->count; i++) {
        const char *rest = rest_after(p->lines[i], word);
        if (rest) {
            p->next = i + 1;
            return rest;
        }
    }
    return NULL;
}

static void print_lines(process *const who[], int count)
{
    for (int i = 0; i < count; i++)
        for (unsigned n = 0; n < who[i]->count; n++)
            print_error("process %d: %s\n", i, who[i]->lines[n]);
}

int process_await_any(process *const who[], int count, const char *word, int64_t ms, const char **ret_rest)
{
    const int64_t deadline = ref_now_ms() + ms;
    for (;;) {
        struct pollfd fds[ALL_MAX];
        bool open = false;
        for (int i = 0; i < count; i++) {
            const bool more = pump(who[i]);
            open |= more;
            fds[i] = (struct pollfd){.fd = more ? who[i]->out : -1, .events = POLLIN};
            *ret_rest = take(who[i], word);
            if (*ret_rest)
                return i;
        }
        const int64_t left = deadline - ref_now_ms();
        if (left <= 0 || !open) {
            print_lines(who, count);
            fail_msg("waited in vain for \"%s\"%s", word, open ? "" : ": the process has ended");
        }
        poll(fds, (nfds_t)count, (int)left);
    }
}

const char *process_await(process *p, const char *word, int64_t ms)
{
    const char *rest;
    process_await_any(&p, 1, word, ms, &rest);
    return rest;
}

unsigned process_count(process *p, const char *word)
{
    unsigned count = 0;
    pump(p);
    for (unsigned i = 0; i < p->count; i++)
        count += rest_after(p->lines[i], word) != NULL;
    return count;
}

/* --- life and death ---------------------------------------------------------------------------------- */

void process_signal(process *p, int number)
{
    int status;
    assert_int_equal(0, kill(p->pid, number));
    if (number == SIGSTOP) {
        assert_int_equal(p->pid, waitpid(p->pid, &status, WUNTRACED));
        assert_true(WIFSTOPPED(status));
    } else if (number == SIGKILL) {
        assert_int_equal(p->pid, waitpid(p->pid, &status, 0));
        pump(p);
        forget(p);
    }
}

void process_listen(process *p, int64_t ms)
{
    const int64_t deadline = ref_now_ms() + ms;
    for (int64_t left = ms; left > 0; left = deadline - ref_now_ms()) {
        struct pollfd fd = {.fd = p->out, .events = POLLIN};
        poll(&fd, 1, (int)left);
        if (!pump(p))
            fail_msg("a process has ended that should not have");
    }
}

void process_end(process *p)
{
    process_say(p, "quit");
    process_await(p, "bye", END_MS);
    while (pump(p)) {
        struct pollfd fd = {.fd = p->out, .events = POLLIN};
        if (poll(&fd, 1, (int)END_MS) == 0)
            fail_msg("a process said goodbye and stayed");
    }
    int status = 0;
    assert_int_equal(p->pid, waitpid(p->pid, &status, 0));
    forget(p);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a process ended with status %#x", (unsigned)status);
}

bool process_clean_up(void)
{
    bool clean = true;
    for (int i = 0; i < ALL_MAX; i++)
        if (all[i]) {
            clean = false;
            kill(all[i]->pid, SIGKILL);
            waitpid(all[i]->pid, NULL, 0);
            forget(all[i]);
        }
    return clean;
}
