/* See health.h. */
#include "health.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "refusal.h"
#include "util/escape.h"

static struct {
    health_look_fn look; /* NULL: closed */
    void *user;
} health;

/* held_for_ms is 0 when leadership has ended here, which is before the lease ends by the time that stopping takes. */
bool health_is_leader(const health_view *view)
{
    return view->leads && view->lease.token != 0 && view->lease.held_for_ms > view->reserve_ms;
}

static void look(health_view *ret_view)
{
    *ret_view = (health_view){.lease = SIMBA_LEASE_INIT};
    if (health.look != NULL)
        health.look(health.user, ret_view);
    ret_view->refused = ret_view->client != NULL && refusal_is_there(ret_view->client, &ret_view->refusal);
}

/* --- HTTP ----------------------------------------------------------------------------------------- */

#ifdef SIMBA_CLI_WITH_HTTP

#include <pthread.h>

#include "http.h"
#include "json.h"

static address listens_at;

static void print_status(FILE *out, const health_view *view)
{
    const bool holds = view->lease.token != 0;
    const char *owner = simba_owner_is_none(&view->owner) ? NULL : view->owner.id;
    json_writer j = {.to = out};
    json_open(&j, NULL, '{');
    json_text(&j, "mutex", view->mutex);
    json_text(&j, "id", view->id);
    json_bool(&j, "leads", health_is_leader(view));
    json_token(&j, "token", holds ? &view->lease.token : NULL);
    json_number(&j, "held_for_ms", holds && view->leads ? view->lease.held_for_ms : 0);
    json_number(&j, "left_ms", view->lease.left_ms);
    json_bool(&j, "overdue", view->lease.overdue);
    json_text(&j, "owner", holds && view->id != NULL ? view->id : owner);
    json_close(&j, '}');
    fputc('\n', out);
}

static void print_metrics(FILE *out, const health_view *view)
{
    simba_stats stats = SIMBA_STATS_INIT;
    const simba_stats *const all[] = {&stats};
    if (view->client != NULL)
        simba_client_stats(view->client, &stats);
    const char *const *names = view->mutex != NULL ? &view->mutex : NULL;
    const int length = simba_stats_write(all, names, 1, SIMBA_STATS_MUTEX | SIMBA_STATS_MORE, NULL, 0);
    char *text = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (text != NULL &&
        simba_stats_write(all, names, 1, SIMBA_STATS_MUTEX | SIMBA_STATS_MORE, text, (size_t)length + 1) == length)
        fputs(text, out);
    free(text);
    fprintf(out,
            "# TYPE simba_store_refuses gauge\n"
            "# HELP simba_store_refuses Whether the store refuses this client, which waiting does not mend.\n"
            "simba_store_refuses %d\n# EOF\n",
            view->refused);
}

/* "/": 200 while this process leads. "/healthz": 200 while the loop goes round and the store does not refuse it. */
static enum MHD_Result answer(http_connection *c, const char *path, const char *method)
{
    const char *type = "text/plain; charset=utf-8";
    http_draft d;
    health_view view;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return http_send_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, type, "Only GET and HEAD are answered.\n");
    if (strcmp(path, "/") != 0 && strcmp(path, "/metrics") != 0 && strcmp(path, "/healthz") != 0)
        return http_send_text(c, MHD_HTTP_NOT_FOUND, type, "There are /, /metrics and /healthz.\n");
    if (!http_begin(&d))
        return MHD_NO;
    look(&view); /* now, and not when the connection came */
    bool good = true;
    if (strcmp(path, "/") == 0) {
        type = "application/json";
        good = health_is_leader(&view);
        print_status(d.to, &view);
    } else if (strcmp(path, "/metrics") == 0) {
        type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        print_metrics(d.to, &view);
    } else if (view.refused) {
        good = false;
        fprintf(d.to, "The store refuses: %s.\n", view.refusal.text);
    } else {
        fputs("ok\n", d.to);
    }
    return http_finish(c, &d, good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, type);
}

/* Few connections of bounded size, and little time for each. */
static http_server http = {
    .answer = answer,
    .limits = {
        .request_ms = 2000, .answer_ms = 2000, .stalled_s = 2, .connections = 32, .scarce = 16, .memory = 6 * 1024}};

/* If this process is killed, the supervisor outlives it for a moment: clients must be refused then, not kept waiting. */
static void leave_to_parent(void)
{
    http_leave_to_parent(&http);
}

static int listen_at(const char *command, const char *where)
{
    if (!address_parse(where, &listens_at) || address_port(&listens_at) == 0)
        return cli_usage_error(
            command,
            "--status-listen wants a port, as 8080 or 192.0.2.7:8080 or [::1]:8080, or the path of a "
            "socket, not \"%s\"",
            where);
    int code = http_load(command);
    if (code != CLI_GO)
        return code;
    const int fd = address_listen(&listens_at);
    if (fd < 0)
        return cli_fail(command, fd == -EACCES || fd == -EPERM || fd == -EROFS ? CLI_NO_PERMISSION : CLI_CONFIG,
                        "--status-listen cannot listen at %s: %s.", where, strerror(-fd));
    code = http_start(command, &http, fd, NULL);
    if (code == CLI_GO && pthread_atfork(NULL, NULL, leave_to_parent) != 0)
        code = cli_fail(command, CLI_SYSTEM, "--status-listen cannot be served: out of memory.");
    return code;
}

static void stop_listening(void)
{
    if (http.daemon == NULL)
        return;
    http_stop(&http);
    if (address_path(&listens_at) != NULL)
        unlink(address_path(&listens_at));
}

#else

static int listen_at(const char *command, const char *where)
{
    (void)where;
    return cli_fail(command, CLI_CONFIG,
                    "this simba was built without libmicrohttpd, which it needs for --status-listen.");
}

static void stop_listening(void)
{
}

#endif

/* --- systemd -------------------------------------------------------------------------------------- */

/* Notifications to systemd (sd_notify): that the service is ready, a sentence for `systemctl status`, and signs of
 * life for its watchdog. While this process leads, renewals give these signs, not a timer: the watchdog must find
 * a process that lives and cannot renew. By hand, because it is one datagram, and libsystemd would be one more
 * library in every container. */
#define RENEWED_BY_MS 20 /* the end of a lease that is so much later was moved: clocks are read to the millisecond */

/* How often to look whether the store has answered: a loop need not hear of that. */
#define UNREADY_MS 100

typedef enum readiness { READY_CONTENDING, READY_LEADING, READY_CHILD } readiness;

static struct {
    int socket; /* -1: nobody listens */
    address to;
    readiness when;
    bool ready;       /* and systemd knows */
    char status[600]; /* the latest sentence */
    int64_t alive_us; /* of the watchdog; 0: there is none */
    int64_t alive_ns; /* of the latest sign of life */
    int64_t lease_end_ns;
    bool warned;  /* that nobody listens */
    bool checked; /* whether the watchdog waits for long enough */
    const char *command;
} notify = {.socket = -1};

static int notify_open(const char *command, const char *when)
{
    static const char *const names[] = {
        [READY_CONTENDING] = "contending", [READY_LEADING] = "leading", [READY_CHILD] = "child"};
    const char *path = getenv("NOTIFY_SOCKET");
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    unsigned wanted = READY_CONTENDING;
    while (when != NULL && wanted < sizeof names / sizeof names[0] && strcmp(when, names[wanted]) != 0)
        wanted++;
    if (wanted == sizeof names / sizeof names[0])
        return cli_usage_error(command, "--notify wants contending, leading or child, not \"%s\"", when);
    if (path == NULL || path[0] == '\0' || wanted == READY_CHILD)
        return CLI_GO;
    if (!address_parse_socket(path, &notify.to))
        return cli_fail(command, CLI_CONFIG, "NOTIFY_SOCKET is neither a path nor an abstract socket: \"%s\".", path);
    notify.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify.socket < 0)
        return cli_fail(command, CLI_SYSTEM, "no socket could be made to notify systemd: %s.", strerror(errno));
    notify.when = (readiness)wanted;
    notify.command = command;
    /* WATCHDOG_PID is the process that is watched; without it, the one that was started. */
    if (usec != NULL && (pid == NULL || strtol(pid, NULL, 10) == getpid()))
        notify.alive_us = max64(0, strtoll(usec, NULL, 10));
    return CLI_GO;
}

/* False: try again in the next iteration. */
static bool send_words(const char *words)
{
    const ssize_t done = sendto(notify.socket, words, strlen(words), MSG_NOSIGNAL,
                                (const struct sockaddr *)&notify.to.socket, notify.to.length);
    if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK && !notify.warned) {
        cli_warn(notify.command, "systemd cannot be notified: %s.", strerror(errno));
        notify.warned = true;
    }
    return done >= 0;
}

static void make_sentence(const health_view *view, char *sentence, size_t size)
{
    char mutex[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
    char owner[SIMBA__ESCAPED_SIZE(SIMBA_ID_MAX)];
    simba__escape(view->mutex, mutex, sizeof mutex);
    if (health_is_leader(view) && view->refused)
        snprintf(sentence, size, "Leads %.200s, but the store refuses to renew its lease: %s.", mutex,
                 view->refusal.text);
    else if (view->refused)
        snprintf(sentence, size, "Contends for %.200s, which the store refuses: %s.", mutex, view->refusal.text);
    else if (health_is_leader(view) && view->lease.overdue)
        snprintf(sentence, size, "Leads %.200s, but cannot renew its lease.", mutex);
    else if (health_is_leader(view))
        snprintf(sentence, size, "Leads %.200s with token %" PRIu64 ".", mutex, view->lease.token);
    else if (view->lease.token != 0)
        snprintf(sentence, size, "Stops leading %.200s.", mutex);
    else if (simba_owner_is_none(&view->owner))
        snprintf(sentence, size, "Contends for %.200s.", mutex);
    else
        snprintf(sentence, size, "Waits for %.200s, which %.200s owns.", mutex,
                 simba__escape(view->owner.id, owner, sizeof owner));
}

static void notify_of(const health_view *view)
{
    char words[sizeof notify.status + 16] = "STATUS=";
    char *sentence = words + strlen(words);
    const bool owns = view->lease.token != 0;
    const bool ready = notify.when == READY_LEADING ? health_is_leader(view) : view->contends;
    /* A healthy leader renews when its ttl ends. A shorter watchdog would kill it. */
    const int64_t ttl_ms = view->lease.ttl_left_ms;
    if (!notify.checked && owns && notify.alive_us > 0 && ttl_ms * 1000 >= notify.alive_us)
        cli_warn(notify.command,
                 "WatchdogSec of the unit is %" PRId64 " ms, and the lease is renewed every %" PRId64
                 " ms: systemd will take this process for dead.",
                 notify.alive_us / 1000, ttl_ms);
    notify.checked = notify.checked || owns;
    if (ready && !notify.ready)
        notify.ready = send_words("READY=1");
    make_sentence(view, sentence, sizeof notify.status);
    if (strcmp(sentence, notify.status) != 0 && send_words(words))
        strcpy(notify.status, sentence);
    if (notify.alive_us == 0)
        return;
    /* A process that does not lead has nothing to renew, and lives if its loop runs. */
    const int64_t now_ns = clock_boot_ns();
    const int64_t end_ns = now_ns + min64(view->lease.left_ms, SIMBA_LEASE_MAX_MS) * MS;
    bool lives = now_ns - notify.alive_ns >= notify.alive_us * 1000 / 4;
    if (owns)
        lives = end_ns > notify.lease_end_ns + RENEWED_BY_MS * MS;
    if (owns && lives)
        notify.lease_end_ns = end_ns;
    if (lives && send_words("WATCHDOG=1"))
        notify.alive_ns = now_ns;
}

/* --- both ----------------------------------------------------------------------------------------- */

int health_open(const char *command, const cli_globals *globals, health_look_fn look_fn, void *user)
{
    int code = globals->status_listen != NULL ? listen_at(command, globals->status_listen) : CLI_GO;
    if (code == CLI_GO)
        code = notify_open(command, globals->notify);
    if (globals->status_listen != NULL || notify.socket >= 0) {
        health.look = look_fn;
        health.user = user;
    }
    if (code != CLI_GO)
        health_close();
    return code;
}

void health_close(void)
{
    if (health.look == NULL)
        return;
    stop_listening();
    if (notify.socket >= 0) {
        send_words("STOPPING=1");
        close(notify.socket);
        notify.socket = -1;
    }
    health.look = NULL;
}

int health_fd(void)
{
#ifdef SIMBA_CLI_WITH_HTTP
    if (health.look != NULL)
        return http_fd(&http);
#endif
    return -1;
}

int health_pause_ms(int ms)
{
    int most_ms = -1;
    if (health.look == NULL)
        return ms;
#ifdef SIMBA_CLI_WITH_HTTP
    most_ms = http_pause_ms(&http);
#endif
    int64_t notify_ms = INT64_MAX;
    if (notify.socket >= 0 && notify.when == READY_CONTENDING && !notify.ready)
        notify_ms = UNREADY_MS;
    else if (notify.socket >= 0 && notify.alive_us > 0)
        notify_ms = max64(1, min64(notify.alive_us / 4000, 60000));
    if (notify_ms < INT64_MAX && (most_ms < 0 || most_ms > notify_ms))
        most_ms = (int)notify_ms;
    return most_ms >= 0 && (ms < 0 || ms > most_ms) ? most_ms : ms;
}

void health_run(void)
{
    if (health.look == NULL)
        return;
#ifdef SIMBA_CLI_WITH_HTTP
    http_run(&http);
#endif
    if (notify.socket >= 0) {
        health_view view;
        look(&view);
        notify_of(&view);
    }
}
