/* `simba hold`: holds mutexes for a program in any language, which starts this process, reads lines of JSON and closes a pipe.
 * While standard input is open the mutexes are kept; at its end, which also comes when the program dies, they are given back. */
#include "hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define COMMAND "hold"
#define TICK_MIN_MS 5
#define TICK_MAX_MS 250
#define CANCEL_AGAIN_MS 10
#define RENEWED_BY_MS 5 /* more than rounding moves the end of a lease */
#define STUCK_MS 10000  /* so long may standard output take nothing */
#define LAST_LINES_MS 1000

/* --- lines ---------------------------------------------------------------------------------------- */

json_writer hold_begin_line(hold *h, const char *event, const hold_id *id, const char *mutex)
{
    h->line_to = open_memstream(&h->line_text, &h->line_size);
    json_writer j = {.to = h->line_to};
    if (h->line_to == NULL)
        j.to = stderr; /* the line is lost, and the process ends for it */
    json_open(&j, NULL, '{');
    json_text(&j, "event", event);
    if (id != NULL && id->json[0] != '\0') {
        json_name(&j, "id");
        fputs(id->json, j.to);
    }
    if (mutex != NULL)
        json_text(&j, "mutex", mutex);
    return j;
}

void hold_end_line(hold *h, json_writer *j)
{
    json_close(j, '}');
    fputc('\n', j->to);
    const bool made = h->line_to != NULL && fclose(h->line_to) == 0;
    char *longer = made && !h->nobody_reads ? realloc(h->output, h->output_length + h->line_size) : NULL;
    if (longer != NULL) {
        if (h->output_length == 0)
            h->stuck_ns = clock_boot_ns();
        memcpy(longer + h->output_length, h->line_text, h->line_size);
        h->output = longer;
        h->output_length += h->line_size;
    } else {
        h->nobody_reads = true;
    }
    free(h->line_text);
    h->line_text = NULL;
}

void hold_print_error(hold *h, const hold_id *id, const char *mutex, int code, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_writer j = hold_begin_line(h, "error", id, mutex);
    json_text(&j, "code", simba_error_name(code));
    json_text(&j, "text", text);
    hold_end_line(h, &j);
}

static void print_grant(held *m, const char *event, const hold_id *id, int64_t valid_ms)
{
    json_writer j = hold_begin_line(m->of, event, id, m->mutex);
    json_token(&j, "token", &m->token);
    json_number(&j, "valid_ms", valid_ms);
    hold_end_line(m->of, &j);
}

static void print_lost(held *m, const char *reason, int64_t left_ms)
{
    m->lost = true;
    json_writer j = hold_begin_line(m->of, "lost", NULL, m->mutex);
    json_token(&j, "token", &m->token);
    json_text(&j, "reason", reason);
    json_number(&j, "left_ms", left_ms);
    hold_end_line(m->of, &j);
}

/* Write what standard output takes without waiting, which would delay renewals. A pipe that is writable takes
 * PIPE_BUF bytes. */
static void flush_output(hold *h, int wait_ms)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (h->output_length > 0 && !h->nobody_reads && poll(&out, 1, wait_ms) > 0) {
        const ssize_t written =
            write(STDOUT_FILENO, h->output, h->output_length < PIPE_BUF ? h->output_length : PIPE_BUF);
        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (written <= 0) {
            h->nobody_reads = true;
            return;
        }
        h->output_length -= (size_t)written;
        memmove(h->output, h->output + written, h->output_length);
        h->stuck_ns = clock_boot_ns();
    }
}

/* --- the end ---------------------------------------------------------------------------------------- */

static int64_t look(held *m, bool unread);

/* End with this code. Without a reason everything is given back at once. With one the reader gets a line that leadership ends,
 * and has the grace to stop its work, or what is left of the lease: this process may not have run for a while. */
static void end(hold *h, int code, const char *reason)
{
    held *m;
    if (reason == NULL)
        h->until_ns = 0;
    if (h->ending)
        return;
    h->ending = true;
    h->exit_code = code;
    if (reason == NULL)
        return;
    h->until_ns = clock_boot_ns() + h->times.grace_ms * MS;
    TAILQ_FOREACH (m, &h->all, in_all) {
        if (m->token != 0 && !m->lost && m->work != HOLD_RELEASE)
            look(m, true);
        if (m->token != 0 && !m->lost && m->work != HOLD_RELEASE)
            print_lost(m, reason, max64(0, min64(h->times.grace_ms, (m->end_ns - clock_boot_ns()) / MS)));
    }
}

/* --- work for the store, on a thread for each mutex --------------------------------------------------- */

held *hold_find(hold *h, const char *mutex)
{
    held *m;
    TAILQ_FOREACH (m, &h->all, in_all) {
        if (strcmp(m->mutex, mutex) == 0)
            return m;
    }
    return NULL;
}

static void *work(void *arg)
{
    held *m = arg;
    simba_error error = {0, ""};
    switch (m->work) {
    case HOLD_IDLE:
        break;
    case HOLD_ACQUIRE:
        error.code = simba_locker_acquire(m->locker, m->wait_ms, &error);
        break;
    case HOLD_READ_NOTE:
        error.code = simba_locker_note(m->locker, &error, &m->note);
        break;
    case HOLD_WRITE_NOTE:
        error.code = simba_locker_note_set(m->locker, m->note.bytes, m->note.length, &error);
        break;
    case HOLD_RELEASE:
        error.code = simba_locker_release(m->locker, &error);
        m->reason = simba_locker_reason(m->locker);
        simba_locker_free(m->locker); /* waits for the end of an acquire that was cancelled */
        m->locker = NULL;
        break;
    }
    if (m->work != HOLD_RELEASE || m->token != 0)
        m->error = error; /* otherwise why it was not acquired stands there */
    if (write(m->of->done[1], &m, sizeof m) < 0)
        abort(); /* the pipe has room for all of them */
    return NULL;
}

bool hold_begin_work(held *m, hold_work what, const hold_id *id)
{
    m->work = what;
    if (id != NULL)
        m->id = *id;
    if (pthread_create(&m->thread, NULL, work, m) == 0)
        return true;
    m->work = HOLD_IDLE;
    return false;
}

static void forget(held *m)
{
    TAILQ_REMOVE(&m->of->all, m, in_all);
    m->of->count--;
    simba_locker_free(m->locker);
    free(m);
}

void hold_acquire(hold *h, const char *mutex, int64_t wait_ms, const hold_id *id)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_error error = {0, ""};
    if (h->ending) {
        hold_print_error(h, id, mutex, SIMBA_ESTATE, "this process is about to end");
        return;
    }
    held *m = calloc(1, sizeof *m);
    options.id = h->globals->id;
    options.timing.stop_margin_ms = h->times.margin_ms;
    error.code = m == NULL ? SIMBA_ENOMEM : simba_locker_new(h->client, mutex, &options, &error, &m->locker);
    if (error.code < 0) {
        hold_print_error(h, id, mutex, error.code, "%s", m == NULL ? "out of memory" : error.text);
        if (h->mutex != NULL)
            end(h, cli_failure(COMMAND, &error), NULL);
        free(m);
        return;
    }
    snprintf(m->mutex, sizeof m->mutex, "%s", mutex);
    m->of = h;
    m->wait_ms = wait_ms;
    m->note = (simba_note)SIMBA_NOTE_INIT;
    TAILQ_INSERT_TAIL(&h->all, m, in_all);
    h->count++;
    if (hold_begin_work(m, HOLD_ACQUIRE, id))
        return;
    forget(m);
    hold_print_error(h, id, mutex, SIMBA_ESYSTEM, "no thread could be made to wait on");
    if (h->mutex != NULL)
        end(h, cli_fail(COMMAND, CLI_SYSTEM, "no thread could be made to wait on."), NULL);
}

static void on_acquired(held *m)
{
    hold *h = m->of;
    simba_lease lease = SIMBA_LEASE_INIT;
    const int64_t now_ns = clock_boot_ns();
    simba_locker_lease(m->locker, &lease);
    if (m->error.code == 0 && !m->leaves && lease.token != 0) {
        m->token = lease.token;
        m->end_ns = now_ns + min64(lease.left_ms, SIMBA_LEASE_MAX_MS) * MS;
        print_grant(m, "acquired", &m->id, lease.held_for_ms);
        return;
    }
    if (m->error.code == 0 && m->leaves)
        m->error = (simba_error){SIMBA_ECANCELED, "the wait was cancelled"};
    else if (m->error.code == 0)
        m->error = (simba_error){SIMBA_ELOST, "leadership ended before it could be told"};
    m->leaves = true;
    if (h->mutex != NULL) {
        hold_print_error(h, &m->id, m->mutex, m->error.code, "%s", m->error.text);
        int code = h->busy_code;
        if (!h->ending && m->error.code == SIMBA_ETIMEDOUT)
            cli_error(COMMAND, "not obtained: %s.", m->error.text);
        else if (!h->ending && m->error.code != SIMBA_ECANCELED)
            code = cli_failure(COMMAND, &m->error);
        end(h, code, NULL);
    }
}

static void on_given_back(held *m)
{
    hold *h = m->of;
    const bool was_held = m->token != 0;
    const int code = m->error.code;
    if (!was_held && h->mutex == NULL)
        hold_print_error(h, &m->id, m->mutex, code, "%s", m->error.text);
    if (was_held && code == SIMBA_ELOST && !m->lost) {
        print_lost(m, simba_reason_name(m->reason), 0);
        if (h->mutex != NULL)
            h->exit_code = CLI_LOST;
    }
    if (was_held ? code == 0 : m->asked) {
        json_writer j = hold_begin_line(h, "released", &m->leave_id, m->mutex);
        hold_end_line(h, &j);
    } else if (was_held && (m->asked || !m->lost)) {
        hold_print_error(h, &m->leave_id, m->mutex, code, "%s", m->error.text);
        if (!m->lost)
            cli_error(COMMAND, "%s; %s becomes free when its lease ends.", m->error.text, m->mutex);
    }
    const held was = *m;
    forget(m);
    if (was.again)
        hold_acquire(h, was.mutex, was.again_wait_ms, &was.again_id);
}

/* --- the loop ----------------------------------------------------------------------------------------- */

static void take_results(hold *h)
{
    held *m;
    while (read(h->done[0], &m, sizeof m) == (ssize_t)sizeof m) {
        const hold_work done = m->work;
        pthread_join(m->thread, NULL);
        m->work = HOLD_IDLE;
        if (done == HOLD_ACQUIRE) {
            on_acquired(m);
        } else if (done == HOLD_RELEASE) {
            on_given_back(m);
        } else if (m->error.code < 0) {
            hold_print_error(h, &m->id, m->mutex, m->error.code, "%s", m->error.text);
        } else {
            json_writer j = hold_begin_line(h, "note", &m->id, m->mutex);
            json_bytes(&j, "note", m->note.bytes, m->note.length);
            hold_end_line(h, &j);
        }
    }
}

/* Look at the lease, by our own clock, which is read first: what is promised is never later than the truth. The stop margin is
 * taken off, so that the reader hears of a loss before another can follow. Returns for how long not to look again. */
static int64_t look(held *m, bool unread)
{
    simba_lease lease = SIMBA_LEASE_INIT;
    const int64_t now_ns = clock_boot_ns();
    simba_locker_lease(m->locker, &lease);
    if (lease.token == m->token && lease.held_for_ms > 0) {
        const int64_t end_ns = now_ns + min64(lease.left_ms, SIMBA_LEASE_MAX_MS) * MS;
        if (m->of->renewals && !unread && end_ns > m->end_ns + RENEWED_BY_MS * MS)
            print_grant(m, "renewed", NULL, lease.held_for_ms);
        m->end_ns = max64(m->end_ns, end_ns);
        return lease.held_for_ms;
    }
    const simba_reason reason = simba_locker_reason(m->locker);
    const bool by_clock = reason != SIMBA_REASON_SUPERSEDED && reason != SIMBA_REASON_REVOKED;
    print_lost(m, simba_reason_name(reason != SIMBA_REASON_NONE ? reason : SIMBA_REASON_EXPIRED),
               by_clock ? max64(0, (m->end_ns - now_ns) / MS) : 0);
    m->leaves = true;
    if (m->of->mutex != NULL)
        end(m->of, CLI_LOST, NULL);
    return 0;
}

/* Returns for how many ms to wait at most. */
static int64_t look_at_all(hold *h, bool unread)
{
    const bool over = h->ending && clock_boot_ns() >= h->until_ns;
    int64_t pause_ms = max64(TICK_MIN_MS, min64(h->times.lease_ms / 50, TICK_MAX_MS));
    held *m;
    TAILQ_FOREACH (m, &h->all, in_all) {
        if (m->token != 0 && !m->lost && m->work != HOLD_RELEASE)
            pause_ms = min64(pause_ms, look(m, unread));
        if (over || (h->ending && m->token == 0))
            m->leaves = true;
        if (m->leaves && m->work == HOLD_IDLE)
            hold_begin_work(m, HOLD_RELEASE, NULL);
        /* The thread may not be waiting yet, and then there is nothing to cancel. */
        if (m->leaves && m->work == HOLD_ACQUIRE) {
            simba_locker_cancel(m->locker);
            pause_ms = min64(pause_ms, CANCEL_AGAIN_MS);
        }
    }
    return pause_ms;
}

static bool owns_any(const hold *h)
{
    const held *m;
    TAILQ_FOREACH (m, &h->all, in_all) {
        if (m->token != 0)
            return true;
    }
    return false;
}

static void read_input(hold *h)
{
    char bytes[4096];
    const ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        h->input_ended = true;
        end(h, h->mutex != NULL && !owns_any(h) ? h->busy_code : CLI_OK, NULL);
        return;
    }
    for (const char *at = bytes; h->mutex == NULL && at < bytes + got; at++) {
        if (*at != '\n' && h->line_length < sizeof h->line) {
            h->line[h->line_length++] = *at;
        } else if (*at != '\n') {
            h->too_long = true;
        } else {
            hold_serve(h, h->line, h->too_long ? SIZE_MAX : h->line_length);
            h->line_length = 0;
            h->too_long = false;
        }
    }
}

static void listen_once(hold *h)
{
    int number = 0;
    const bool unread = h->output_length > 0;
    const bool may = check_look(&h->check);
    if (may && !h->begun && h->mutex != NULL)
        hold_acquire(h, h->mutex, h->wait_ms, NULL);
    else if (may && !h->begun)
        hold_greet(h);
    h->begun = h->begun || may;
    if (!may && h->check.done)
        end(h, h->mutex != NULL && !owns_any(h) ? h->busy_code : CLI_LOST, "check failed");
    const int64_t pause_ms = look_at_all(h, unread);
    /* While the answers are not read, no more requests are. */
    const bool reads = !h->input_ended && (h->mutex != NULL || (h->begun && !unread));
    struct pollfd fds[] = {{.fd = reads ? STDIN_FILENO : -1, .events = POLLIN},
                           {.fd = h->nobody_reads ? -1 : STDOUT_FILENO, .events = unread ? POLLOUT : 0},
                           {.fd = h->signals.fd, .events = POLLIN},
                           {.fd = simba_client_fd(h->client), .events = POLLIN},
                           {.fd = h->done[0], .events = POLLIN}};
    if (poll(fds, sizeof fds / sizeof fds[0], check_pause_ms(&h->check, (int)pause_ms)) < 0)
        return;
    if (fds[3].revents != 0)
        simba_client_dispatch(h->client);
    take_results(h);
    if (fds[0].revents != 0)
        read_input(h);
    if (fds[2].revents != 0)
        number = signals_read(&h->signals);
    if (number == SIGTSTP)
        raise(SIGSTOP);
    else if (signals_is_ending(number))
        end(h, CLI_SIGNAL + number, h->ending ? NULL : simba_reason_name(SIMBA_REASON_STOPPED));
    flush_output(h, 0);
    const bool stuck = h->output_length > 0 && clock_boot_ns() >= h->stuck_ns + STUCK_MS * MS;
    if (!h->nobody_reads && !stuck && (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) == 0)
        return;
    h->nobody_reads = true;
    h->output_length = 0;
    if (!h->ending) {
        cli_error(COMMAND, "nobody reads standard output%s, so all is given back.", stuck ? "" : " any more");
        end(h, CLI_FAILED, NULL);
    }
}

static int serve(hold *h)
{
    while (!h->ending || h->count > 0) /* whoever waits is answered, too */
        listen_once(h);
    check_end(&h->check);
    flush_output(h, LAST_LINES_MS);
    const int code = cli_leave(h->exit_code);
    for (held *m = TAILQ_FIRST(&h->all), *next; m != NULL; m = next) {
        next = TAILQ_NEXT(m, in_all);
        if (m->work != HOLD_IDLE)
            pthread_join(m->thread, NULL);
        simba_locker_free(m->locker);
        free(m);
    }
    free(h->output);
    return code;
}

static int open_and_serve(hold *h)
{
    simba_observer *asking = NULL;
    sigset_t pipe_ends;
    h->globals->dispatch = SIMBA_DISPATCH_FD;
    TAILQ_INIT(&h->all);
    int code = cli_open_shared(COMMAND, h->globals, &h->client);
    if (code != CLI_GO)
        return code;
    code = signals_open(COMMAND, &h->signals);
    sigemptyset(&pipe_ends);
    sigaddset(&pipe_ends, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_ends, NULL);
    if (code == CLI_GO && pipe2(h->done, O_CLOEXEC | O_NONBLOCK) < 0)
        code = cli_fail(COMMAND, CLI_SYSTEM, "no pipe could be made: %s.", strerror(errno));
    if (code == CLI_GO)
        code = child_times_await(COMMAND, h->client, h->grace_ms, h->mutex != NULL ? h->mutex : COMMAND, &h->signals,
                                 -1, &h->times, &asking);
    if (code == CLI_GO)
        code = serve(h);
    code = cli_close(h->client, code);
    simba_observer_free(asking);
    return code;
}

int cmd_hold(cli_globals *globals, int argc, char **argv)
{
    static hold h;
    bool no_wait = false;
    bool stdio = false;
    h = (hold){.globals = globals, .wait_ms = -1, .grace_ms = -1, .busy_code = CLI_BUSY};
    const cli_option own[] = {
        {"wait", 0, CLI_DURATION, "D", "Give up after this long; default: never", &h.wait_ms},
        {"no-wait", 'n', CLI_FLAG, NULL, "Give up at once if another owns the mutex", &no_wait},
        {"conflict-exit-code", 'E', CLI_CODE, "N", "Exit with this if it is not obtained; default 75", &h.busy_code},
        {"grace", 0, CLI_DURATION, "D", "How much of the lease is left when a loss is told", &h.grace_ms},
        {"renewals", 0, CLI_FLAG, NULL, "Print a line for every renewal, too", &h.renewals},
        {"stdio", 0, CLI_FLAG, NULL, "Many mutexes: read requests from standard input", &stdio},
        CHECK_OPTIONS(h.check),
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX | --stdio",
        .about = "Takes the mutex for the program that started it, keeps it while standard input\n"
                 "is open, and gives it back at end of file. Prints an object a line: when it has\n"
                 "the mutex, when leadership is lost, and when the mutex is given back. After\n"
                 "\"lost\" the program has `left_ms` to stop its work. Exits with 75 if the mutex\n"
                 "was not obtained, 79 if leadership was lost.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_ALL,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (stdio == (argc > 0))
        return cli_usage_error(COMMAND,
                               stdio ? "--stdio takes no mutex: requests name them" : "an argument is missing (%s)",
                               syntax.operands);
    if (no_wait && h.wait_ms >= 0)
        return cli_usage_error(COMMAND, "--wait and --no-wait contradict each other");
    if (stdio && (no_wait || h.wait_ms >= 0))
        return cli_usage_error(COMMAND, "with --stdio each request says how long to wait, in wait_ms");
    const int checked = check_options(COMMAND, &h.check);
    if (checked != CLI_GO)
        return checked;
    if (no_wait)
        h.wait_ms = 0;
    h.check.command = COMMAND;
    h.check.globals = globals;
    h.check.signals = &h.signals;
    h.mutex = h.check.mutex = stdio ? NULL : argv[0];
    return open_and_serve(&h);
}
