/* See listen.h. */
#include "listen.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "cli.h"

static void describe(listener *l, bool has_tls)
{
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    char host[64] = "?";
    char port[8] = "?";
    if (getsockname(l->fd, (struct sockaddr *)&bound, &length) == 0)
        getnameinfo((struct sockaddr *)&bound, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    const bool is_v6 = strchr(host, ':') != NULL;
    snprintf(l->url, sizeof l->url, "http%s://%s%s%s:%s/", has_tls ? "s" : "", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
             port);
}

int serve_listen(const serve_options *options, listener *ret_listener)
{
    address at;
    if (!address_parse(options->listen, &at) || address_port(&at) < 0)
        return cli_usage_error(SERVE_COMMAND,
                               "--listen wants ADDRESS:PORT, such as 127.0.0.1:7460 or [::1]:7460, not \"%s\"",
                               options->listen);
    ret_listener->is_loopback = address_is_local(&at);
    ret_listener->fd = address_listen(&at);
    if (ret_listener->fd < 0) {
        cli_say(SERVE_COMMAND, "%s cannot be listened at: %s.", options->listen, strerror(-ret_listener->fd));
        return CLI_CONFIG;
    }
    describe(ret_listener, options->cert != NULL);
    return CLI_GO;
}
