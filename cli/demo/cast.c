/* The processes of `simba demo`: starts them, listens to all of them at once with a deadline, and makes sure that none
 * is left behind, however the demo ends. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "demo/demo.h"
#include "self.h"

#define BATCH_MAX 64

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

const char *demo_event_word(demo_event_kind kind)
{
    static const char *const words[] = {
#define DEMO_EVENT_WORD(name, word) word,
        DEMO_EVENTS(DEMO_EVENT_WORD)
#undef DEMO_EVENT_WORD
    };
    return words[kind];
}

int64_t demo_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void fill_ending(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++)
        sigaddset(set, ending_signals[i]);
}

int demo_cast_init(demo_cast *cast)
{
    memset(cast, 0, sizeof *cast);
    cast->leader = DEMO_NOBODY;
    cast->broken = DEMO_NOBODY;
    for (int n = 0; n < DEMO_NODES; n++) {
        snprintf(cast->nodes[n].name, sizeof cast->nodes[n].name, "node-%c", 'a' + n);
        cast->nodes[n].fd = -1;
        cast->nodes[n].sees = DEMO_NOBODY;
    }
    sigset_t ending;
    fill_ending(&ending);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    /* A reader that went away is noticed when the output is flushed; being killed by it would leave files behind. */
    signal(SIGPIPE, SIG_IGN);
    cast->signal_fd = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
    return cast->signal_fd < 0 ? -errno : 0;
}

/* --- starting ----------------------------------------------------------------------------------- */

int demo_cast_start(demo_cast *cast, const char *mutex, const simba_timing *timing, const cli_globals *globals)
{
    char ttl[32];
    char transition[32];
    const char *flag = globals->verbose > 1 ? "-vv" : globals->verbose > 0 ? "-v" : NULL;
    snprintf(ttl, sizeof ttl, "%" PRId64 "ms", timing->ttl_ms);
    snprintf(transition, sizeof transition, "%" PRId64 "ms", timing->transition_ms);
    for (int n = 0; n < DEMO_NODES; n++) {
        char *argv[16] = {"simba", "contend", (char *)mutex,  "--id",    cast->nodes[n].name,
                          "--ttl", ttl,       "--transition", transition};
        int count = 9;
        if (globals->event_log != NULL) {
            argv[count++] = "--event-log";
            argv[count++] = (char *)globals->event_log;
        }
        if (globals->log_format != NULL) {
            argv[count++] = "--log-format";
            argv[count++] = (char *)globals->log_format;
        }
        argv[count++] = (char *)flag; /* NULL ends the list anyway */
        const pid_t pid = self_start(argv, &cast->nodes[n].fd);
        if (pid < 0)
            return (int)pid;
        cast->nodes[n].pid = pid;
    }
    return 0;
}

/* --- listening ---------------------------------------------------------------------------------- */

static void set_broken(demo_cast *cast, int node, const char *text)
{
    if (cast->broken != DEMO_NOBODY)
        return;
    cast->broken = node;
    snprintf(cast->broken_text, sizeof cast->broken_text, "%s", text);
}

static int node_by_name(const demo_cast *cast, const char *name)
{
    for (int n = 0; n < DEMO_NODES; n++) {
        if (strcmp(cast->nodes[n].name, name) == 0)
            return n;
    }
    return DEMO_NOBODY;
}

/* Keep the event, and what the conditions of the story ask for. */
static void take_event(demo_cast *cast, const demo_event *event)
{
    demo_node *node = &cast->nodes[event->node];
    if (cast->event_count == DEMO_EVENTS_MAX) {
        set_broken(cast, event->node, "too many events");
        return;
    }
    cast->events[cast->event_count++] = *event;
    switch (event->kind) {
    case DEMO_READY:
        node->ready = true;
        break;
    case DEMO_CHANGED:
        node->sees = node_by_name(cast, event->detail);
        break;
    case DEMO_ACQUIRED:
        cast->leader = event->node;
        node->sees = event->node;
        node->renewals = 0;
        node->lease_until_ns = 0;
        break;
    case DEMO_LEASE:
        node->renewals += node->lease_until_ns != 0;
        node->lease_until_ns = event->until_ns;
        break;
    case DEMO_RELEASED:
    case DEMO_KILLED:
        if (cast->leader == event->node)
            cast->leader = DEMO_NOBODY;
        break;
    default:
        break;
    }
    if (cast->show != NULL)
        cast->show(event, cast->show_user);
}

static bool parse_event(const char *line, int node, demo_event *ret_event)
{
    demo_event event = {.node = node};
    char word[16];
    if (sscanf(line, "%" SCNd64 " %15s %" SCNu64 " %47s", &event.at_ns, word, &event.token, event.detail) != 4)
        return false;
    for (int kind = 0; kind < DEMO_EVENT_KINDS; kind++) {
        if (strcmp(word, demo_event_word((demo_event_kind)kind)) == 0) {
            event.kind = (demo_event_kind)kind;
            event.until_ns = event.kind == DEMO_LEASE ? strtoll(event.detail, NULL, 10) : 0;
            *ret_event = event;
            return true;
        }
    }
    return false;
}

/* The end of a process that was asked for is only noted; any other ends the demo. */
static void note_end(demo_cast *cast, int n)
{
    demo_node *node = &cast->nodes[n];
    char text[64];
    close(node->fd);
    node->fd = -1;
    if (!node->ended && waitpid(node->pid, &node->exit_status, 0) == node->pid)
        node->ended = true;
    if (node->may_end)
        return;
    if (WIFSIGNALED(node->exit_status))
        snprintf(text, sizeof text, "was ended by signal %d", WTERMSIG(node->exit_status));
    else
        snprintf(text, sizeof text, "ended by itself with exit code %d", WEXITSTATUS(node->exit_status));
    set_broken(cast, n, text);
}

/* Read what there is, split it into lines, and put their events into the batch. */
static size_t read_node(demo_cast *cast, int n, demo_event *batch, size_t count)
{
    demo_node *node = &cast->nodes[n];
    const ssize_t got = read(node->fd, node->text + node->text_length, sizeof node->text - 1 - node->text_length);
    if (got <= 0) {
        if (got == 0 || errno != EINTR)
            note_end(cast, n);
        return count;
    }
    node->text_length += (size_t)got;
    node->text[node->text_length] = '\0';

    char *line = node->text;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (count == BATCH_MAX || !parse_event(line, n, &batch[count]))
            set_broken(cast, n, "printed a line that is not an event");
        else
            count++;
    }
    node->text_length -= (size_t)(line - node->text);
    memmove(node->text, line, node->text_length + 1);
    if (node->text_length == sizeof node->text - 1)
        set_broken(cast, n, "printed a line without an end");
    return count;
}

static int by_time(const void *left, const void *right)
{
    const demo_event *a = left;
    const demo_event *b = right;
    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

/* Wait for at most `ms`; take what arrived, in the order in which it happened. */
static void listen_once(demo_cast *cast, int ms)
{
    struct pollfd fds[DEMO_NODES + 1];
    demo_event batch[BATCH_MAX];
    size_t count = 0;

    for (int n = 0; n < DEMO_NODES; n++)
        fds[n] = (struct pollfd){.fd = cast->nodes[n].fd, .events = POLLIN};
    fds[DEMO_NODES] = (struct pollfd){.fd = cast->signal_fd, .events = POLLIN};
    if (poll(fds, DEMO_NODES + 1, ms) <= 0)
        return;

    struct signalfd_siginfo info;
    if (fds[DEMO_NODES].revents != 0 && read(cast->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        cast->interrupted = (int)info.ssi_signo;
    for (int n = 0; n < DEMO_NODES; n++) {
        if (fds[n].revents != 0)
            count = read_node(cast, n, batch, count);
    }
    qsort(batch, count, sizeof batch[0], by_time);
    for (size_t i = 0; i < count; i++)
        take_event(cast, &batch[i]);
}

demo_outcome demo_cast_await(demo_cast *cast, demo_condition condition, int64_t patience_ms)
{
    const int64_t until_ns = demo_now_ns() + patience_ms * 1000000;
    for (;;) {
        if (cast->interrupted != 0)
            return DEMO_INTERRUPTED;
        if (cast->broken != DEMO_NOBODY)
            return DEMO_BROKEN;
        if (condition != NULL && condition(cast))
            return DEMO_DONE;
        const int64_t left_ns = until_ns - demo_now_ns();
        if (left_ns <= 0)
            return condition == NULL ? DEMO_DONE : DEMO_LATE;
        const int64_t left_ms = left_ns / 1000000 + 1;
        listen_once(cast, left_ms < 1000 ? (int)left_ms : 1000);
    }
}

/* --- ending ------------------------------------------------------------------------------------- */

void demo_cast_kill(demo_cast *cast, int n)
{
    demo_node *node = &cast->nodes[n];
    demo_event event = {.node = n, .kind = DEMO_KILLED, .token = 0};
    node->may_end = true;
    event.at_ns = demo_now_ns();
    kill(node->pid, SIGKILL);
    if (waitpid(node->pid, &node->exit_status, 0) == node->pid)
        node->ended = true;
    event.until_ns = demo_now_ns();
    take_event(cast, &event);
}

void demo_cast_stop(demo_cast *cast, int n)
{
    cast->nodes[n].may_end = true;
    kill(cast->nodes[n].pid, SIGTERM);
}

void demo_cast_end(demo_cast *cast)
{
    for (int n = 0; n < DEMO_NODES; n++) {
        demo_node *node = &cast->nodes[n];
        if (node->pid > 0 && !node->ended) {
            kill(node->pid, SIGKILL);
            waitpid(node->pid, &node->exit_status, 0);
            node->ended = true;
        }
        if (node->fd >= 0)
            close(node->fd);
        node->fd = -1;
    }
    if (cast->signal_fd >= 0)
        close(cast->signal_fd);
    cast->signal_fd = -1;
}
