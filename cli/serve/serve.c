/* See server.h: the loop of `simba serve`. */
#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#include "address.h"
#include "clock.h"
#include "refusal.h"
#include "signals.h"

/* One iteration of the loop. A store that refuses from the first goes on to: then returns the exit code. */
static int go_round(server *s, const cli_signals *signals)
{
    enum { ALIVE_MS = 1000 }; /* streams send a sign of life, and somebody may have ceased to watch */
    struct pollfd fds[] = {{.fd = http_fd(&s->http), .events = POLLIN},
                           {.fd = poller_fd(s->poller), .events = POLLIN},
                           {.fd = signals->fd, .events = POLLIN}};
    const int pause_ms = http_pause_ms(&s->http);
    if (poll(fds, 3, pause_ms >= 0 ? pause_ms : ALIVE_MS) < 0 && errno != EINTR)
        return CLI_SYSTEM;
    if (fds[2].revents != 0) {
        const int number = signals_read(signals);
        if (number == SIGTSTP)
            raise(SIGSTOP);
        else if (signals_is_ending(number))
            return CLI_OK;
    }
    look *l = fds[1].revents != 0 ? poller_take(s->poller) : NULL;
    table *t = &s->table;
    int code = CLI_GO;
    if (l != NULL && l->code < 0 && !t->was_answered && !refusal_may_pass(l->code)) {
        code = look_failure(SERVE_COMMAND, l);
    } else if (l != NULL) {
        const bool answered = t->answers || t->since_ms == 0;
        table_apply(t, l);
        if (!t->answers && answered)
            cli_warn(SERVE_COMMAND, "the store does not answer: %s.", t->error);
        else if (t->answers && !answered)
            cli_info(SERVE_COMMAND, "the store answers.");
    }
    look_free(l);
    /* There may be news for those who follow, or the answer to a release. */
    const release_order *done = poller_released(s->poller);
    http_connection *c;
    if (done != NULL)
        http_resume(done->user);
    TAILQ_FOREACH (c, &s->http.all, in_all) {
        if (c->state == HTTP_FOLLOWS)
            http_resume(c);
    }
    poller_watch(s->poller, s->http.streams > 0 || clock_read_ms(CLOCK_MONOTONIC) < s->watched_until_ms);
    http_run(&s->http);
    return code;
}

/* "http://127.0.0.1:7460/", for people, whatever the option has left out. */
static void describe(int fd, bool has_tls, char *url, size_t size)
{
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    char host[64] = "?";
    char port[8] = "?";
    if (getsockname(fd, (struct sockaddr *)&bound, &length) == 0)
        getnameinfo((struct sockaddr *)&bound, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    const bool is_v6 = strchr(host, ':') != NULL;
    snprintf(url, size, "http%s://%s%s%s:%s/", has_tls ? "s" : "", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

static int serve_client(simba_client *client, const serve_options *options, int fd, const cli_signals *signals)
{
    const bool has_tls = options->tls.cert != NULL;
    char url[96];
    server s = {.options = options,
                .http = {.answer = routes_answer,
                         .limits = {.request_ms = 5000,
                                    .answer_ms = 60000,
                                    .stalled_s = 15,
                                    .connections = 512,
                                    .scarce = 240,
                                    .memory = 24 * 1024,
                                    .keeps_alive = true}}};
    table_init(&s.table);
    s.rules = (access_rules){options->token, options->tls.client_ca != NULL, has_tls};
    s.about = (answers){.t = &s.table, .client = client, .can_release = options->allow_release};
    uint32_t number = (uint32_t)clock_read_ms(CLOCK_REALTIME);
    (void)!getrandom(&number, sizeof number, GRND_NONBLOCK);
    snprintf(s.about.instance, sizeof s.about.instance, "%08" PRIx32, number);
    s.poller = poller_start(client);
    if (s.poller == NULL)
        return cli_fail(SERVE_COMMAND, CLI_SYSTEM, "no thread can be started: %s.", strerror(errno));
    describe(fd, has_tls, url, sizeof url);
    int code = http_start(SERVE_COMMAND, &s.http, fd, has_tls ? &options->tls : NULL);
    if (code == CLI_GO)
        cli_info(SERVE_COMMAND, "%s shows %s.", url, simba_client_url(client));
    while (code == CLI_GO)
        code = go_round(&s, signals);
    code = cli_leave(code);
    poller_stop(s.poller); /* first: it may be at a release that a connection waits for */
    http_stop(&s.http);
    table_fini(&s.table);
    return code;
}

int serve_run(cli_globals *globals, const serve_options *options)
{
    address at;
    cli_signals signals;
    simba_client *client = NULL;
    int code = http_load(SERVE_COMMAND);
    if (code != CLI_GO)
        return code;
    if (!address_parse(options->listen, &at) || address_port(&at) < 0)
        return cli_usage_error(SERVE_COMMAND,
                               "--listen wants ADDRESS:PORT, such as 127.0.0.1:7460 or [::1]:7460, not \"%s\"",
                               options->listen);
    const int fd = address_listen(&at);
    if (fd < 0)
        return cli_fail(SERVE_COMMAND, CLI_CONFIG, "%s cannot be listened at: %s.", options->listen, strerror(-fd));
    if (options->allow_release && options->token == NULL)
        return cli_usage_error(SERVE_COMMAND, "--allow-release wants a --token-file as well");
    /* Every process on this machine that can connect can read the store's URL anyway. From elsewhere, clients must prove
     * who they are. */
    const bool proves = options->token != NULL || options->tls.client_ca != NULL;
    if (!address_is_local(&at) && !proves)
        return cli_usage_error(SERVE_COMMAND,
                               "others than this machine can reach %s, so it wants a --token-file or a --client-ca",
                               options->listen);
    globals->quiet = true; /* the table has the state of the store */
    globals->only_looks = true;
    code = cli_open(SERVE_COMMAND, globals, &client);
    if (code != CLI_GO)
        return code;
    code = signals_open(SERVE_COMMAND, &signals);
    if (code == CLI_GO)
        code = serve_client(client, options, fd, &signals);
    return cli_close(client, code);
}
