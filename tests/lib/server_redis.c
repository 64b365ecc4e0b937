/* Redis servers, see server.h. */
#include "lib/server.h"

#include <stdio.h>

bool server_start_redis(server *s, const char *const *more)
{
    const char *const ours[] = {"redis-server",
                                "--port",
                                s->port_text,
                                "--bind",
                                "127.0.0.1",
                                "::1",
                                "--dir",
                                s->folder,
                                "--save",
                                "",
                                "--appendonly",
                                "no",
                                "--repl-diskless-sync-delay",
                                "0",
                                "--unixsocketperm",
                                "777",
                                NULL};
    size_t n = 0;
    for (size_t i = 0; ours[i]; i++)
        s->argv[n++] = ours[i];
    for (size_t i = 0; more && more[i] && n < SERVER_ARGS - 1; i++)
        s->argv[n++] = more[i];
    s->argv[n] = NULL;
    return server_start(s);
}

bool server_start_redis_tls(server *s, const char *folder, const char *password, bool wants_client_certificate)
{
    char ca[96], cert[96], key[96];
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    const char *const more[] = {"--port",
                                "0",
                                "--tls-port",
                                s->port_text,
                                "--tls-cert-file",
                                cert,
                                "--tls-key-file",
                                key,
                                "--tls-ca-cert-file",
                                ca,
                                "--tls-auth-clients",
                                wants_client_certificate ? "yes" : "no",
                                "--requirepass",
                                password,
                                NULL};
    return server_start_redis(s, more);
}

static bool start_plain(server *s)
{
    char path[96];
    snprintf(path, sizeof path, "%s/redis.sock", s->folder);
    return server_start_redis(s, (const char *const[]){"--unixsocket", path, NULL});
}

static bool start_tls(server *s)
{
    return server_make_certificates(s->folder) && server_start_redis_tls(s, s->folder, "secret", false);
}

const server_kind server_kind_redis = {"redis", "redis-server", start_plain};
const server_kind server_kind_redis_tls = {"redis-tls", "redis-server", start_tls};
