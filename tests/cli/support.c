/* See support.h. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <pty.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *helper = "/proc/self/exe";
process last;
void (*before_simba)(void);

static char program[512];
static char dir[256];
static unsigned outputs;

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- helpers --------------------------------------------------------------------------------------- */

static void stamp(int fd)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "%020" PRId64 "\n", now_ns());
    if (pwrite(fd, text, (size_t)length, 0) < 0)
        _exit(1);
}

static void beat(const char *path)
{
    const struct timespec pause = {0, 1000000};
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    signal(SIGTERM, SIG_IGN);
    for (;;) {
        stamp(fd);
        nanosleep(&pause, NULL);
    }
}

/* The file says that it is ready. It has to be open already, in case that this user may not open it any more. */
static void hold_out(FILE *ready)
{
    signal(SIGTERM, SIG_IGN);
    fprintf(ready, "%d\n", (int)getpid());
    fclose(ready);
    for (;;)
        pause();
}

static void intrude(const char *group, const char *ready)
{
    if (setpgid(0, (pid_t)strtol(group, NULL, 10)) < 0)
        _exit(1);
    hold_out(fopen(ready, "we"));
}

static void defect(const char *ready)
{
    FILE *file = fopen(ready, "we");
    if (setresuid(65534, 65534, 65534) < 0)
        _exit(1);
    hold_out(file);
}

static void play_freeze(const char *database, const char *ready)
{
    sqlite3 *db;
    if (sqlite3_open(database, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 5000) != SQLITE_OK ||
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        _exit(1);
    write_file(ready, "frozen\n");
    for (;;)
        pause();
}

void helper_main(int argc, char **argv)
{
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    helper = program;
    if (argc < 3)
        return;
    if (strcmp(argv[1], "stamp") == 0) {
        stamp(open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        _exit(0);
    }
    if (strcmp(argv[1], "family") == 0 && fork() == 0) {
        setsid();
        beat(argv[3]);
    }
    if (strcmp(argv[1], "beat") == 0 || strcmp(argv[1], "family") == 0)
        beat(argv[2]);
    if (strcmp(argv[1], "defect") == 0)
        defect(argv[2]);
    if (strcmp(argv[1], "intrude") == 0)
        intrude(argv[2], argv[3]);
    if (strcmp(argv[1], "freeze") == 0)
        play_freeze(argv[2], argv[3]);
}

/* --- the directory -------------------------------------------------------------------------------- */

int test_setup(void **state)
{
    char url[400];
    snprintf(dir, sizeof dir, "/tmp/simba-cli-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(url, sizeof url, "sqlite://%s/store.db?ttl=1s&transition=1s", dir);
    return setenv("SIMBA_URL", url, 1);
}

int test_setup_with_store(void **state)
{
    return test_setup(state) == 0 && RUN("init") == 0 ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    return remove(path);
}

const char *in_dir(const char *name)
{
    static char paths[8][400];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

void set_lease(const char *ttl, const char *transition)
{
    char url[500];
    snprintf(url, sizeof url, "sqlite://%s?ttl=%s&transition=%s", in_dir("store.db"), ttl, transition);
    setenv("SIMBA_URL", url, 1);
}

void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

const char *contents(const char *path)
{
    static char buffers[2][65536];
    static unsigned next;
    char *buffer = buffers[next++ % 2];
    FILE *file = fopen(path, "r");
    buffer[0] = '\0';
    if (file != NULL) {
        buffer[fread(buffer, 1, sizeof buffers[0] - 1, file)] = '\0';
        fclose(file);
    }
    return buffer;
}

int64_t number_in(const char *path)
{
    return strtoll(contents(path), NULL, 10);
}

/* --- processes ------------------------------------------------------------------------------------ */

/* Those that were started and not waited for yet. A test that fails leaves some. */
static pid_t started[64];

static pid_t remember(pid_t pid)
{
    size_t i = 0;
    assert_true(pid >= 0);
    while (pid > 0 && i < COUNT_OF(started) - 1 && started[i] != 0)
        i++;
    if (pid > 0)
        started[i] = pid;
    return pid;
}

static void forget(pid_t pid)
{
    for (size_t i = 0; i < COUNT_OF(started); i++)
        if (started[i] == pid)
            started[i] = 0;
}

/* The supervisor of a killed `simba run` ends what that has started. */
static void end_all(void)
{
    for (size_t i = 0; i < COUNT_OF(started); i++)
        if (started[i] != 0)
            end_process(started[i]);
}

int test_teardown(void **state)
{
    before_simba = NULL;
    end_all();
    nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}

/* In the child. */
static void become_simba(const char *const arguments[])
{
    char *argv[32] = {SIMBA_TEST_COMMAND};
    for (size_t i = 0; arguments[i] != NULL && i < 30; i++)
        argv[i + 1] = (char *)arguments[i];
    if (before_simba != NULL)
        before_simba();
    execv(argv[0], argv);
    _exit(127);
}

process start(const char *const arguments[])
{
    process p;
    int ends[2];
    snprintf(p.out_path, sizeof p.out_path, "%s/out-%u", dir, outputs);
    snprintf(p.err_path, sizeof p.err_path, "%s/err-%u", dir, outputs++);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    p.pid = remember(fork());
    if (p.pid == 0) {
        setpgid(0, 0);
        dup2(ends[0], STDIN_FILENO);
        dup2(open(p.out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDOUT_FILENO);
        dup2(open(p.err_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
        become_simba(arguments);
    }
    setpgid(p.pid, p.pid);
    close(ends[0]);
    p.in = ends[1];
    return p;
}

/* Has it ended? A zombie has. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        return info.si_pid == pid;
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Wait for the end of a process, with a deadline. */
static bool await_exit(pid_t pid)
{
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    /* Without such a descriptor, which valgrind does not know, it is asked for again and again. */
    bool over = has_ended(pid);
    while (!over && now_ns() < until_ns)
        over = poll(&ended, 1, fd >= 0 ? TIMEOUT_MS : 2) == 1 || has_ended(pid);
    if (fd >= 0)
        close(fd);
    return over;
}

int finish(process *p)
{
    int status;
    if (p->in >= 0)
        close(p->in);
    p->in = -1;
    if (!await_exit(p->pid)) {
        end_process(p->pid);
        fail_msg("the command did not end; it said: %s", err_of(p));
    }
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    forget(p->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void assert_all_refused(const char *url, int code, const char *words)
{
    const char *const commands[][7] = {
        {"run", "--url", url, "m", "--", "true"},
        {"elect", "--url", url, "m"},
        {"schedule", "--url", url, "--every=1s", "m", "--", "true"},
        {"watch", "--url", url, "m"},
        {"list", "--url", url},
    };
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        process p = start(commands[i]);
        const int ended = finish(&p);
        const char *said = err_of(&p);
        if (ended != code || strstr(said, words) == NULL || strchr(said, '\n') != said + strlen(said) - 1)
            fail_msg("simba %s --url %s: %d, %s", commands[i][0], url, ended, said);
        assert_int_equal(lines_in(p.out_path), 0);
    }
}

const char *out_of(const process *p)
{
    return contents(p->out_path);
}

const char *err_of(const process *p)
{
    return contents(p->err_path);
}

terminal start_on_terminal_with(const char *const arguments[])
{
    return start_on_terminal_of(77, arguments);
}

terminal start_on_terminal_of(unsigned columns, const char *const arguments[])
{
    terminal t = {.text = ""};
    const struct winsize size = {.ws_row = 33, .ws_col = (unsigned short)columns};
    t.pid = remember(forkpty(&t.fd, NULL, NULL, &size));
    if (t.pid == 0) {
        setenv("TERM", "xterm", 1); /* whatever the tests themselves run on */
        become_simba(arguments);
    }
    return t;
}

void await_shown(terminal *t, const char *text)
{
    size_t length = strlen(t->text);
    while (strstr(t->text, text) == NULL) {
        struct pollfd ready = {.fd = t->fd, .events = POLLIN};
        const ssize_t got =
            poll(&ready, 1, TIMEOUT_MS) == 1 ? read(t->fd, t->text + length, sizeof t->text - 1 - length) : -1;
        if (got <= 0)
            fail_msg("waited in vain for \"%s\" in: %s", text, t->text);
        length += (size_t)got;
        t->text[length] = '\0';
    }
}

enum { TERMINAL_MAX = 1000000 }; /* bytes that any command may show */

int finish_terminal(terminal *t)
{
    process p = {.pid = t->pid, .in = -1, .err_path = "/dev/null"};
    size_t length = strlen(t->text);
    char rest[512];
    ssize_t got;
    size_t all = 0;
    while ((got = read(t->fd, rest, sizeof rest)) > 0) {
        all += (size_t)got;
        if (all > TERMINAL_MAX) {
            end_process(t->pid);
            fail_msg("the command does not stop to print; it began with: %.200s", t->text);
        }
        const size_t fits = (size_t)got < sizeof t->text - 1 - length ? (size_t)got : sizeof t->text - 1 - length;
        memcpy(t->text + length, rest, fits);
        length += fits;
        t->text[length] = '\0';
    }
    const int code = finish(&p);
    close(t->fd);
    return code;
}

pid_t start_helper(const char *word, const char *first, const char *second)
{
    const pid_t pid = remember(fork());
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(helper, helper, word, first, second, (char *)NULL);
        _exit(127);
    }
    return pid;
}

void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    forget(pid);
}

pid_t child_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    return (pid_t)number_in(path);
}

int64_t lease_end_ns(const char *mutex)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t end_ns = 0;
    assert_int_equal(sqlite3_open_v2(in_dir("store.db"), &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT until_boot_ns FROM simba_lock WHERE mutex = ?1", -1, &statement, NULL),
        SQLITE_OK);
    sqlite3_bind_text(statement, 1, mutex, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW)
        end_ns = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return end_ns;
}

/* --- waiting --------------------------------------------------------------------------------------- */

int lines_in(const char *path)
{
    int lines = 0;
    for (const char *c = contents(path); *c != '\0'; c++)
        lines += *c == '\n';
    return lines;
}

/* Whether the file has come to what is waited for: a text in it, or so many lines. */
static bool has(const char *path, const char *text, int lines)
{
    return text != NULL ? strstr(contents(path), text) != NULL : lines_in(path) >= lines;
}

static void await_contents(const char *path, const char *text, int lines)
{
    char parent[400];
    char events[4096];
    const int64_t until_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    const int fd = inotify_init1(IN_CLOEXEC);
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_true(inotify_add_watch(fd, parent, IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_MOVED_TO) >= 0);
    while (!has(path, text, lines)) {
        struct pollfd changed = {.fd = fd, .events = POLLIN};
        const int64_t left_ms = (until_ns - now_ns()) / 1000000;
        if (left_ms <= 0 || poll(&changed, 1, (int)left_ms) <= 0 || read(fd, events, sizeof events) < 0) {
            close(fd);
            fail_msg("waited in vain for %s, which has: %s", path, contents(path));
        }
    }
    close(fd);
}

void await_file(const char *path)
{
    await_contents(path, NULL, 1);
}

void await_text_in(const char *path, const char *text)
{
    await_contents(path, text, 0);
}

void await_lines_in(const char *path, int lines)
{
    await_contents(path, NULL, lines);
}

void await_time(int64_t at_ns)
{
    const struct timespec at = {at_ns / 1000000000, at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

void await_death(pid_t pid)
{
    assert_true(await_exit(pid));
}
