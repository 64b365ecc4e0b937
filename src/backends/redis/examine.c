/* EXAMINE: what every server reports about itself (INFO), as far as it concerns locks. The request goes from one server
 * to the next. */
#include "backends/redis/examine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct examination {
    redis_node *node;
    simba_host *host;
    simba_request *request;
    const char *info; /* lines of "name:value\r\n" */
    int rc;
} examination;

/* The value of a field, "" if there is none. */
static const char *field(const char *info, const char *name, char *text, size_t size)
{
    const size_t length = strlen(name);
    text[0] = '\0';
    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            snprintf(text, size, "%.*s", (int)strcspn(line, "\r\n"), line);
            break;
        }
    }
    return text;
}

static long number(const char *info, const char *name)
{
    char text[32];
    return strtol(field(info, name, text, sizeof text), NULL, 10);
}

static void found(examination *e, simba_verdict verdict, const char *what, const char *text, const char *remedy)
{
    const simba_finding finding = {sizeof(simba_finding), verdict, what, text, remedy};
    if (e->rc == 0)
        e->rc = e->host->found(e->host, e->request, &finding);
}

static void examine_server(examination *e)
{
    char version[32];
    char role[16];
    char text[256];
    field(e->info, "redis_version", version, sizeof version);
    const bool is_master = strcmp(field(e->info, "role", role, sizeof role), "slave") != 0;
    snprintf(text, sizeof text, "%s is Redis %s, a %s.", e->node->commands.conn.link.at.where, version,
             is_master ? "master" : "replica");
    if (is_master)
        found(e, SIMBA_VERDICT_OK, "server", text, NULL);
    else
        found(e, SIMBA_VERDICT_BROKEN, "server", text, "Replicas take no writes: name the master, or use Sentinel.");
}

static void examine_memory(examination *e)
{
    char policy[32];
    char text[160];
    field(e->info, "maxmemory_policy", policy, sizeof policy);
    if (number(e->info, "maxmemory") == 0 || strcmp(policy, "noeviction") == 0) {
        found(e, SIMBA_VERDICT_OK, "eviction", "The server evicts nothing.", NULL);
        return;
    }
    snprintf(text, sizeof text, "maxmemory-policy is %s: the server may throw away a lock that is held.", policy);
    found(e, SIMBA_VERDICT_WARNING, "eviction", text, "Set it to noeviction, or give the locks a server of their own.");
}

static void examine_durability(examination *e)
{
    if (number(e->info, "aof_enabled") == 1)
        found(e, SIMBA_VERDICT_OK, "durability",
              "appendonly is on; with appendfsync always a server that restarts forgets nothing.", NULL);
    else
        found(e, SIMBA_VERDICT_WARNING, "durability",
              "appendonly is off: a server that restarts forgets who holds what, while they still hold it.",
              "Set appendonly yes and appendfsync always.");
}

static void examine_replicas(examination *e)
{
    const long connected = number(e->info, "connected_slaves");
    const long wanted = e->node->commands.options->replicas;
    char text[160];
    snprintf(text, sizeof text, "%ld connected; a grant waits for %ld of them.", connected, wanted);
    if (connected < wanted)
        found(e, SIMBA_VERDICT_BROKEN, "replicas", text,
              "Connect the replicas, or lower replicas=: nothing can be granted.");
    else if (connected > 0 && wanted == 0)
        found(e, SIMBA_VERDICT_WARNING, "replicas", text,
              "A failover may lose the latest grants; replicas=1 in the URL prevents most of that.");
    else
        found(e, SIMBA_VERDICT_OK, "replicas", text, NULL);
}

void simba__redis_examined(redis_node *self, redis_errand *errand, const redisReply *reply)
{
    examination e = {.node = self, .host = self->commands.host, .request = errand->request, .info = reply->str};
    examine_server(&e);
    examine_memory(&e);
    examine_durability(&e);
    examine_replicas(&e);
    redis_node *next = simba__redis_node_serving(self->next);
    if (e.rc < 0) {
        simba__redis_errand_fail(errand, e.rc, "redis: out of memory");
    } else if (next) {
        simba__redis_commands_submit(&next->commands, errand);
        e.host->wake(e.host); /* to send it */
    } else {
        simba__redis_errand_complete(errand);
    }
}

/* --- unasked ------------------------------------------------------------------------------------------ */

/* The value of a setting; NULL: the answer, which is a list of names and values, has none. */
static const char *setting(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->type == REDIS_REPLY_STRING && reply->element[i + 1]->type == REDIS_REPLY_STRING &&
            strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return NULL;
}

/* An error: the user may not ask, or the service has no such command. Then nobody knows. */
static void take_durability(void *user, const redisReply *reply)
{
    const redis_node *node = user;
    simba_host *host = node->commands.host;
    const char *appendonly = reply ? setting(reply, "appendonly") : NULL;
    const char *save = reply ? setting(reply, "save") : NULL;
    if (appendonly && save && strcmp(appendonly, "no") == 0 && save[0] == '\0')
        host->forgets(
            host,
            "redis %s: the server keeps nothing on disk (appendonly no, save \"\"): if it restarts, it forgets who "
            "holds what, and two may run at once; set appendonly yes and appendfsync always",
            node->commands.conn.link.at.where);
}

void simba__redis_ask_durability(redis_node *node)
{
    /* A pattern, because only Redis 7 takes two names: appendonly and save, and little else. */
    static const char *const question[] = {"CONFIG", "GET", "[as][pa][pv]e*"};
    simba__redis_commands_ask(&node->commands, 3, question, take_durability, node);
}
