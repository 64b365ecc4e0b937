/* Contenders on a real Redis server that is maltreated, see plays.h. The server writes every change to its disk before it
 * answers, since a server that forgets can promise nothing. */
#include <signal.h>
#include <stdio.h>

#include "faults/plays.h"

static bool start(void)
{
    return server_start_redis(&subject, (const char *const[]){"--appendonly", "yes", "--appendfsync", "always", NULL});
}

static const char *url(int port)
{
    static char text[64];
    snprintf(text, sizeof text, "redis://127.0.0.1:%d?restart-wait=no", port);
    return text;
}

static void freeze(bool frozen)
{
    server_signal(&subject, frozen ? SIGSTOP : SIGCONT);
}

static void end_connections(void)
{
    server_tell_redis(&subject, "CLIENT KILL SKIPME yes TYPE normal");
    server_tell_redis(&subject, "CLIENT KILL TYPE pubsub");
}

static const acts_on_server acts = {
    .program = "redis-server",
    .start = start,
    .crash = SIGKILL,
    .url = url,
    .freeze = freeze,
    .end_connections = end_connections,
};

int main(void)
{
    const struct CMUnitTest tests[] = {PLAYS_TESTS};
    return RUN_PLAYS(tests);
}
