/* See contenders.h. */
#include "torture/contenders.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define LATE_NS (100 * MS) /* a proxy that comes this late has delayed the network by itself */

int64_t torture_contenders_now(const torture_contenders *contenders)
{
    return clock_boot_ns() - contenders->epoch_ns;
}

/* --- the history ----------------------------------------------------------------------------------- */

static void track(torture_contenders *contenders, const torture_event *event)
{
    if (event->contender == TORTURE_EVERYBODY)
        return;
    torture_node *node = &contenders->nodes[event->contender];
    switch (event->kind) {
    case TORTURE_CONTENDS:
        if (node->state == NODE_AWAY)
            node->state = NODE_RUNS;
        break;
    case TORTURE_HOLDS:
        if (event->life == node->life && node->state != NODE_DEAD)
            contenders->leaders[event->mutex] = event->contender;
        break;
    case TORTURE_RELEASED:
        if (contenders->leaders[event->mutex] == event->contender)
            contenders->leaders[event->mutex] = TORTURE_NOBODY;
        break;
    case TORTURE_KILLED:
    case TORTURE_ENDED:
        for (unsigned mutex = 0; mutex < TORTURE_MUTEXES_MAX; mutex++)
            if (contenders->leaders[mutex] == event->contender)
                contenders->leaders[mutex] = TORTURE_NOBODY;
        break;
    default:
        break;
    }
}

static void record(torture_contenders *contenders, const torture_event *event)
{
    torture_history_add(&contenders->outcome->history, event);
    if (contenders->options->history != NULL) {
        char line[TORTURE_LINE_MAX];
        fwrite(line, 1, torture_event_write(event, line), contenders->options->history);
    }
    if (contenders->options->report_events && event->contender != TORTURE_EVERYBODY && event->kind != TORTURE_HOLDS)
        cli_info(contenders->options->command, "%.3f s: contender %d: %s%s%s", seconds(event->at_ns), event->contender,
                 torture_kind_word(event->kind), event->what[0] != '\0' ? ": " : "", event->what);
    track(contenders, event);
}

void torture_contenders_record(torture_contenders *contenders, torture_kind kind)
{
    record(contenders,
           &(torture_event){.kind = kind, .contender = TORTURE_EVERYBODY, .at_ns = torture_contenders_now(contenders)});
}

/* `what` may be NULL. `at_ns`: when it began. */
static void record_of(torture_contenders *contenders, int number, torture_kind kind, const char *what, int64_t at_ns)
{
    torture_event event = {.kind = kind, .contender = number, .life = contenders->nodes[number].life, .at_ns = at_ns};
    event.to_ns = torture_contenders_now(contenders);
    snprintf(event.what, sizeof event.what, "%s", what != NULL ? what : "");
    record(contenders, &event);
}

/* --- starting --------------------------------------------------------------------------------------- */

static const int from_terminal[] = {SIGINT, SIGQUIT, SIGHUP, SIGTSTP};

/* In the child: calls only functions that are safe after fork. */
static void become(pid_t parent, int out, char *const argv[])
{
    sigset_t none;
    /* Whatever becomes of the parent, this process does not outlive it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dup2(out, STDOUT_FILENO);
    /* These are the parent's to handle, although the terminal sends them to all. */
    for (size_t i = 0; i < sizeof from_terminal / sizeof from_terminal[0]; i++)
        signal(from_terminal[i], SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* By its name where that can be had: as /proc/self/exe it would be the tool that runs this process, such as valgrind. */
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        execv(self, argv);
    }
    execv("/proc/self/exe", argv);
    _exit(127);
}

/* Run `simba ARGUMENT…`, argv[0] being "simba". *ret_out is the reading end of its standard output. The kernel kills it when
 * this process ends, however it ends. Returns its process id or a negative errno. */
static pid_t start_self(char *const argv[], int *ret_out)
{
    const pid_t parent = getpid();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    const pid_t pid = fork();
    if (pid == 0)
        become(parent, ends[1], argv);
    const int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -error;
    }
    *ret_out = ends[0];
    return pid;
}

static int start_node(torture_contenders *contenders, int number)
{
    const torture_options *options = contenders->options;
    const cli_globals *globals = options->globals;
    torture_node *node = &contenders->nodes[number];
    char number_text[16];
    char life[16];
    char epoch[32];
    char ttl[32];
    char transition[32];
    snprintf(number_text, sizeof number_text, "%d", number);
    snprintf(life, sizeof life, "%u", node->life);
    snprintf(epoch, sizeof epoch, "%" PRId64, contenders->epoch_ns);
    snprintf(ttl, sizeof ttl, "%" PRId64 "ms", options->timing.ttl_ms);
    snprintf(transition, sizeof transition, "%" PRId64 "ms", options->timing.transition_ms);
    const char *const pairs[][2] = {
        {"--id", options->ids[number]},
        {"--number", number_text},
        {"--life", life},
        {"--epoch", epoch},
        {"--ttl", options->sessions ? NULL : ttl},
        {"--transition", options->sessions ? NULL : transition},
        {"--event-log", globals->event_log},
        {"--log-format", globals->log_format},
    };
    char *argv[24 + TORTURE_MUTEXES_MAX] = {"simba", "torture-contender"};
    int count = 2;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (size_t k = 0; k < 2 && pairs[i][1] != NULL; k++)
            argv[count++] = (char *)pairs[i][k];
    if (options->report_owners)
        argv[count++] = "--report-owners";
    if (options->flag != NULL)
        argv[count++] = (char *)options->flag;
    for (unsigned i = 0; i < options->setup.mutexes; i++)
        argv[count++] = (char *)options->mutexes[i];
    /* In the environment a password is not on show as it would be among the arguments. */
    setenv("SIMBA_URL", node->url, 1);
    const pid_t pid = start_self(argv, &node->fd);
    if (pid < 0)
        return (int)pid;
    fcntl(node->fd, F_SETFL, O_NONBLOCK);
    node->pid = pid;
    node->state = NODE_AWAY; /* before it contends it is not ready for signals */
    node->text_length = 0;
    return 0;
}

/* The way of one contender to the store. */
static int make_way(torture_contenders *contenders, torture_node *node)
{
    const torture_options *options = contenders->options;
    int ports[TORTURE_TARGETS_MAX];
    if (options->target_count == 0) {
        node->url = strdup(options->url);
        return node->url != NULL ? 0 : -ENOMEM;
    }
    node->proxy = torture_proxy_new(options->targets, options->target_count);
    if (node->proxy == NULL)
        return -errno;
    for (unsigned i = 0; i < options->target_count; i++)
        ports[i] = torture_proxy_port(node->proxy, i);
    node->url = torture_rewrite(options->url, ports, options->target_count);
    return node->url != NULL ? 0 : -ENOMEM;
}

int torture_contenders_start(torture_contenders *contenders, const torture_options *options, torture_outcome *outcome)
{
    int code = 0;
    memset(contenders, 0, sizeof *contenders);
    contenders->options = options;
    contenders->outcome = outcome;
    contenders->count = options->setup.contenders;
    contenders->epoch_ns = clock_boot_ns();
    for (unsigned mutex = 0; mutex < TORTURE_MUTEXES_MAX; mutex++)
        contenders->leaders[mutex] = TORTURE_NOBODY;
    for (int i = 0; i < contenders->count; i++) {
        contenders->nodes[i].fd = -1;
        contenders->nodes[i].state = NODE_ENDED;
        contenders->nodes[i].fault = TORTURE_FAULT_COUNT;
    }
    for (int i = 0; i < contenders->count && code == 0; i++)
        code = make_way(contenders, &contenders->nodes[i]);
    for (int i = 0; i < contenders->count && code == 0; i++)
        code = start_node(contenders, i);
    return code;
}

/* --- listening -------------------------------------------------------------------------------------- */

/* Its process has closed its output, so it has ended or is about to. */
static void record_end(torture_contenders *contenders, int number)
{
    torture_node *node = &contenders->nodes[number];
    char how[32];
    close(node->fd);
    node->fd = -1;
    if (node->state == NODE_DEAD)
        return; /* it was killed, and that has been noted */
    kill(node->pid, SIGKILL);
    waitpid(node->pid, &node->status, 0);
    if (node->state != NODE_ENDING) {
        if (WIFSIGNALED(node->status))
            snprintf(how, sizeof how, "signal %d", WTERMSIG(node->status));
        else
            snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(node->status));
        record_of(contenders, number, TORTURE_ENDED, how, torture_contenders_now(contenders));
    }
    node->state = NODE_ENDED;
}

static void read_node(torture_contenders *contenders, int number)
{
    torture_node *node = &contenders->nodes[number];
    const size_t room = sizeof node->text - 1 - node->text_length;
    const ssize_t got = read(node->fd, node->text + node->text_length, room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        record_end(contenders, number);
        return;
    }
    node->text_length += (size_t)got;
    node->text[node->text_length] = '\0';
    char *line = node->text;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        torture_event event;
        if (!torture_event_read(line, &event, NULL) || event.mutex >= contenders->options->setup.mutexes)
            continue;
        /* Every line is about the contender that wrote it, whatever number the line has. */
        event.contender = number;
        event.life = node->life;
        record(contenders, &event);
    }
    node->text_length -= (size_t)(line - node->text);
    memmove(node->text, line, node->text_length + 1);
    if (node->text_length == sizeof node->text - 1)
        node->text_length = 0; /* that is no line of a history */
}

bool torture_contenders_listen(torture_contenders *contenders, int other_fd, int64_t until_ns)
{
    static struct pollfd fds[1 + TORTURE_CONTENDERS_MAX * (1 + TORTURE_PROXY_FDS)];
    const int64_t begun_ns = torture_contenders_now(contenders);
    int64_t wake_ns = until_ns;
    unsigned count = 0;
    fds[count++] = (struct pollfd){.fd = other_fd, .events = POLLIN};
    for (int i = 0; i < contenders->count; i++)
        fds[count++] = (struct pollfd){.fd = contenders->nodes[i].fd, .events = POLLIN};
    const struct pollfd *at = fds + count;
    for (int i = 0; i < contenders->count; i++)
        if (contenders->nodes[i].proxy != NULL)
            count += torture_proxy_wait_for(contenders->nodes[i].proxy, fds + count, begun_ns, &wake_ns);
    const int64_t due_ns = max64(wake_ns, begun_ns);
    const struct timespec wait = {(due_ns - begun_ns) / 1000000000, (due_ns - begun_ns) % 1000000000};
    if (ppoll(fds, count, &wait, NULL) < 0)
        return false;
    /* Where the network leads through this process, its delays are the network's. */
    const int64_t now_ns = torture_contenders_now(contenders);
    if (contenders->options->target_count > 0 && now_ns - due_ns > LATE_NS)
        record(contenders, &(torture_event){
                               .kind = TORTURE_LATE, .contender = TORTURE_EVERYBODY, .at_ns = due_ns, .to_ns = now_ns});
    for (int i = 0; i < contenders->count; i++)
        if (contenders->nodes[i].proxy != NULL) {
            torture_proxy_work(contenders->nodes[i].proxy, at, torture_contenders_now(contenders));
            at += contenders->options->target_count + 2 * TORTURE_LINKS_MAX;
        }
    for (int i = 0; i < contenders->count; i++)
        if (fds[1 + i].revents != 0)
            read_node(contenders, i);
    return fds[0].revents != 0;
}

/* --- faults ----------------------------------------------------------------------------------------- */

/* All its lines are read before another process gets its place. */
static void kill_node(torture_contenders *contenders, int number)
{
    torture_node *node = &contenders->nodes[number];
    const int64_t at_ns = torture_contenders_now(contenders);
    kill(node->pid, SIGKILL);
    waitpid(node->pid, NULL, 0);
    record_of(contenders, number, TORTURE_KILLED, NULL, at_ns);
    node->state = NODE_DEAD;
    while (node->fd >= 0)
        read_node(contenders, number);
}

static void set_network(const torture_node *node, torture_fault fault, int64_t late_ms)
{
    static const torture_network networks[TORTURE_FAULT_COUNT + 1] = {
        [TORTURE_FAULT_CUT] = TORTURE_CLOSED,      [TORTURE_FAULT_STALL] = TORTURE_STALLED,
        [TORTURE_FAULT_DEAF] = TORTURE_NO_ANSWERS, [TORTURE_FAULT_MUTE] = TORTURE_NO_REQUESTS,
        [TORTURE_FAULT_DELAY] = TORTURE_SLOW,      [TORTURE_FAULT_COUNT] = TORTURE_PASS,
    };
    torture_proxy_set(node->proxy, networks[fault], late_ms * MS);
}

void torture_contenders_inflict(torture_contenders *contenders, int number, const torture_step *step)
{
    torture_node *node = &contenders->nodes[number];
    const int64_t at_ns = torture_contenders_now(contenders);
    contenders->outcome->faults[step->fault]++;
    node->due_ns = at_ns + step->for_ms * MS;
    switch (step->fault) {
    case TORTURE_FAULT_HAND_OVER:
        record_of(contenders, number, TORTURE_ASKED, NULL, at_ns);
        node->state = NODE_AWAY;
        kill(node->pid, SIGUSR1);
        return;
    case TORTURE_FAULT_KILL:
        kill_node(contenders, number);
        return;
    case TORTURE_FAULT_PAUSE:
        record_of(contenders, number, TORTURE_FAULT, torture_fault_word(step->fault), at_ns);
        kill(node->pid, SIGSTOP);
        break;
    default:
        record_of(contenders, number, TORTURE_FAULT, torture_fault_word(step->fault), at_ns);
        set_network(node, step->fault, step->late_ms);
        break;
    }
    node->fault = step->fault;
}

static void heal_node(torture_contenders *contenders, int number)
{
    torture_node *node = &contenders->nodes[number];
    if (node->fault == TORTURE_FAULT_PAUSE)
        kill(node->pid, SIGCONT);
    else
        set_network(node, TORTURE_FAULT_COUNT, 0);
    record_of(contenders, number, TORTURE_HEALED, torture_fault_word(node->fault), torture_contenders_now(contenders));
    node->fault = TORTURE_FAULT_COUNT;
}

int64_t torture_contenders_heal(torture_contenders *contenders, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;
    for (int i = 0; i < contenders->count; i++) {
        torture_node *node = &contenders->nodes[i];
        const bool waits = node->fault != TORTURE_FAULT_COUNT || node->state == NODE_DEAD;
        if (!waits)
            continue;
        if (node->due_ns > now_ns) {
            next_ns = node->due_ns < next_ns ? node->due_ns : next_ns;
            continue;
        }
        if (node->fault != TORTURE_FAULT_COUNT)
            heal_node(contenders, i);
        if (node->state == NODE_DEAD) {
            node->life++;
            if (start_node(contenders, i) < 0)
                node->state = NODE_ENDED; /* the host has no room for another process: the others go on */
        }
    }
    return next_ns;
}

void torture_contenders_ask_to_end(torture_contenders *contenders, int number)
{
    contenders->nodes[number].state = NODE_ENDING;
    kill(contenders->nodes[number].pid, SIGTERM);
}

void torture_contenders_dismiss(torture_contenders *contenders)
{
    for (int i = 0; i < contenders->count; i++) {
        torture_node *node = &contenders->nodes[i];
        if (node->fault != TORTURE_FAULT_COUNT)
            heal_node(contenders, i);
        if (node->state == NODE_DEAD)
            node->state = NODE_ENDED;
        if (node->state != NODE_ENDED)
            torture_contenders_ask_to_end(contenders, i);
    }
}

/* --- asking and ending ------------------------------------------------------------------------------ */

bool torture_contenders_is_well(const torture_contenders *contenders, int number)
{
    return contenders->nodes[number].state == NODE_RUNS && contenders->nodes[number].fault == TORTURE_FAULT_COUNT;
}

int torture_contenders_count_well(const torture_contenders *contenders)
{
    int count = 0;
    for (int i = 0; i < contenders->count; i++)
        count += torture_contenders_is_well(contenders, i);
    return count;
}

bool torture_contenders_has_ended(const torture_contenders *contenders)
{
    for (int i = 0; i < contenders->count; i++)
        if (contenders->nodes[i].state != NODE_ENDED)
            return false;
    return true;
}

void torture_contenders_end(torture_contenders *contenders)
{
    for (int i = 0; i < contenders->count; i++) {
        torture_node *node = &contenders->nodes[i];
        if (node->state != NODE_ENDED && node->state != NODE_DEAD)
            kill_node(contenders, i);
        if (node->fd >= 0)
            close(node->fd);
        torture_proxy_free(node->proxy);
        free(node->url);
        node->proxy = NULL;
        node->url = NULL;
        node->fd = -1;
        node->state = NODE_ENDED;
    }
    contenders->count = 0;
}
