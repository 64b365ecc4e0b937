/* See server.h. */
#include "lib/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool server_has(const char *program)
{
    return server_run("PATH=$PATH:/usr/sbin:$(echo /usr/lib/postgresql/*/bin | tr ' ' :); command -v %s >/dev/null",
                      program);
}

bool server_run(const char *format, ...)
{
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0; // NOLINT(cert-env33-c): words of our own
}

const char *server_as_nobody(void)
{
    return geteuid() == 0 ? "setpriv --reuid=nobody --regid=nogroup --clear-groups" : "";
}

/* Several programs may come at once: the first one makes the template, in the server's own folder, and leaves a copy. */
bool server_fill(const server *s, const char *name, const char *probe, bool (*install)(const char *folder))
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", s->folder, probe);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof path, "%s-prepared.lock", name);
    const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0)
        return install(s->folder);
    bool filled = false;
    if (flock(lock, LOCK_EX) == 0) {
        snprintf(path, sizeof path, "%s-prepared/%s", name, probe);
        filled = access(path, F_OK) == 0 && server_run("cp -a %s-prepared/. %s/", name, s->folder);
        if (!filled && install(s->folder)) {
            filled = true;
            server_run("t=%s-prepared; rm -rf $t.new && cp -a %s $t.new && rm -rf $t && mv $t.new $t", name, s->folder);
        }
    }
    close(lock);
    return filled;
}

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Other programs look for free ports at the same time, some servers take a second before they take theirs, and some are
 * restarted. A socket that is bound and does not listen does not keep a server from the port, because servers set
 * SO_REUSEADDR; and the system gives its port only to a program that asks for that port. */
int server_keep_port(server *s)
{
    struct sockaddr_in address = address_of(0);
    socklen_t size = sizeof address;
    const int yes = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || s->port_count == SERVER_PORTS || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)&address, size) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        abort();
    s->ports[s->port_count++] = fd;
    return ntohs(address.sin_port);
}

static bool takes_connections(const server *s)
{
    const struct sockaddr_in address = address_of(s->port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool taken = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return taken;
}

/* In memory, if the system has enough: the tests are not about how long a busy disk takes. */
static const char *place(void)
{
    static const char memory[] = "/dev/shm";
    const char *wanted = getenv("TMPDIR");
    struct statvfs status;
    if (wanted)
        return wanted;
    const bool fits = access(memory, W_OK) == 0 && statvfs(memory, &status) == 0 &&
                      (uint64_t)status.f_bavail * status.f_frsize >= UINT64_C(2) << 30;
    return fits ? memory : "/tmp";
}

void server_init(server *s)
{
    memset(s, 0, sizeof *s);
    snprintf(s->folder, sizeof s->folder, "%.40s/simba-XXXXXX", place());
    if (!mkdtemp(s->folder))
        abort();
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    if (nobody && chown(s->folder, nobody->pw_uid, nobody->pw_gid) != 0)
        abort();
    chmod(s->folder, 0755); // NOLINT(cert-err33-c)
    s->port = server_keep_port(s);
    snprintf(s->port_text, sizeof s->port_text, "%d", s->port);
    snprintf(s->hosts, sizeof s->hosts, "127.0.0.1:%d", s->port);
}

/* In the child. */
static void become_server(const server *s, pid_t parent)
{
    char path[96];
    snprintf(path, sizeof path, "%s/log", s->folder);
    const struct passwd *nobody = geteuid() == 0 ? getpwnam("nobody") : NULL;
    if (nobody && (setgroups(0, NULL) != 0 || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which would undo it */
    if (getppid() != parent || !freopen(path, "a", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(126);
    char places[4096]; /* some servers are not where everybody looks */
    snprintf(places, sizeof places, "%s:/usr/sbin", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    setenv("PATH", places, 1);
    execvp(s->argv[0], (char *const *)(void *)s->argv);
    _exit(127);
}

void server_show_log(const server *s)
{
    server_run("echo \"%s:\" >&2; tail -n 40 %s/log >&2", s->argv[0], s->folder);
}

/* Has the server ended although nobody told it to? Then print that, because a test is about to fail. */
static bool has_ended(server *s)
{
    int status = 0;
    if (s->pid == 0 || waitpid(s->pid, &status, WNOHANG) != s->pid)
        return false;
    s->pid = 0;
    fprintf(stderr, "%s ended by itself, by %s %d\n", s->argv[0], WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    server_show_log(s);
    return true;
}

bool server_await(server *s, bool (*is_ready)(const server *s))
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const time_t end = now.tv_sec + 60;
    while (!is_ready(s)) {
        if (has_ended(s))
            return false;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec >= end) {
            fprintf(stderr, "%s is not ready after a minute\n", s->argv[0]);
            server_show_log(s);
            return false;
        }
        usleep(10000);
    }
    return true;
}

void server_set_argv(server *s, const char *const *ours, const char *const *more)
{
    size_t n = 0;
    for (; ours[n]; n++)
        s->argv[n] = ours[n];
    for (size_t i = 0; more && more[i] && n < SERVER_ARGS - 1; i++)
        s->argv[n++] = more[i];
    s->argv[n] = NULL;
}

bool server_start(server *s)
{
    const pid_t parent = getpid();
    s->pid = fork();
    if (s->pid < 0)
        abort();
    if (s->pid == 0)
        become_server(s, parent);
    if (server_await(s, takes_connections))
        return true;
    server_stop(s);
    return false;
}

void server_signal(server *s, int number)
{
    if (s->pid == 0)
        return;
    kill(s->pid, number);
    if (number == SIGSTOP)
        waitpid(s->pid, NULL, WUNTRACED); /* until all of its threads stand still */
    if (number == SIGSTOP || number == SIGCONT)
        return;
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

void server_stop(server *s)
{
    if (s->pid == 0 || has_ended(s))
        return;
    kill(s->pid, SIGCONT);
    server_signal(s, s->stop_signal ? s->stop_signal : SIGKILL);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    return remove(path);
}

void server_fini(server *s)
{
    server_stop(s);
    while (s->port_count > 0)
        close(s->ports[--s->port_count]);
    nftw(s->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (s->also)
        server_fini(s->also);
    free(s->also);
    s->also = NULL;
}

server *server_add(server *s)
{
    server *added = malloc(sizeof *added);
    if (!added)
        abort();
    server_init(added);
    while (s->also)
        s = s->also;
    s->also = added;
    return added;
}

server *server_nth(server *s, unsigned nth)
{
    while (nth-- > 0)
        s = s->also;
    return s;
}

bool server_make_certificates(const char *folder)
{
    return server_run("cd %s && exec 2>/dev/null && "
                      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem "
                      "-subj /CN=ca -days 2 && "
                      "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out req.pem "
                      "-subj /CN=simba && echo subjectAltName=DNS:localhost >ext && "
                      "openssl x509 -req -in req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext "
                      "-out cert.pem && chmod 644 *.pem",
                      folder);
}
