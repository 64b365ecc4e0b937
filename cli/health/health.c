/* See health.h. */
#include "health/health.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/notify.h"
#include "refusal.h"

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
#include <unistd.h>

#include "address.h"
#include "http.h"
#include "json.h"

static address listens_at;

static void print_status(FILE *out, const health_view *view)
{
    const bool holds = view->lease.token != 0;
    const char *owner = simba_owner_is_none(&view->owner) ? NULL : view->owner.id;
    fputc('{', out);
    json_text(out, "mutex", view->mutex);
    fputc(',', out);
    json_text(out, "id", view->id);
    fprintf(out, ",\"leads\":%s,", health_is_leader(view) ? "true" : "false");
    json_token(out, holds ? &view->lease.token : NULL);
    fprintf(out, ",\"held_for_ms\":%" PRId64 ",\"left_ms\":%" PRId64 ",\"overdue\":%s,",
            holds && view->leads ? view->lease.held_for_ms : 0, view->lease.left_ms,
            view->lease.overdue ? "true" : "false");
    json_text(out, "owner", holds && view->id != NULL ? view->id : owner);
    fputs("}\n", out);
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

/* If we are killed, the supervisor outlives us for a moment: clients must be refused then, not kept waiting. */
static void leave_to_parent(void)
{
    http_leave_to_parent(&http);
}

static int listen_at(const char *command, const char *where)
{
    if (where == NULL)
        return CLI_GO;
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

int health_fd(void)
{
    return http_fd(&http);
}

#else

static int listen_at(const char *command, const char *where)
{
    return where == NULL ? CLI_GO
                         : cli_fail(command, CLI_CONFIG,
                                    "this simba was built without libmicrohttpd, which it needs for --status-listen.");
}

static void stop_listening(void)
{
}

int health_fd(void)
{
    return -1;
}

#endif

/* --- both ----------------------------------------------------------------------------------------- */

int health_open(const char *command, const cli_globals *globals, health_look_fn look_fn, void *user)
{
    health.look = look_fn;
    health.user = user;
    int code = listen_at(command, globals->status_listen);
    if (code == CLI_GO)
        code = notify_open(command, globals->notify);
    if (code != CLI_GO)
        health_close();
    return code;
}

void health_close(void)
{
    stop_listening();
    notify_close();
    health.look = NULL;
}

int health_pause_ms(int ms)
{
    int most_ms[] = {notify_pause_ms(), -1};
#ifdef SIMBA_CLI_WITH_HTTP
    most_ms[1] = http_pause_ms(&http);
#endif
    for (size_t i = 0; i < 2; i++)
        if (most_ms[i] >= 0 && (ms < 0 || ms > most_ms[i]))
            ms = most_ms[i];
    return ms;
}

void health_turn(void)
{
    if (health.look == NULL)
        return;
#ifdef SIMBA_CLI_WITH_HTTP
    http_turn(&http);
#endif
    if (notify_is_wanted()) {
        health_view view;
        look(&view);
        notify_tell(&view);
    }
}
