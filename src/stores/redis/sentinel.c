/* redis+sentinel://: one server at a time, and others that know which.
 *
 * To make a connection, the store asks the sentinels in turn for the master. The server itself must confirm that it
 * is a master (ROLE), because sentinels hear of a fail-over one after the other. A connection to one sentinel listens
 * for "+switch-master". When that connection had to be made anew, something may have been missed, so the store asks
 * again. A changed master also concerns a connection that seems to be well: it may lead to a server that was cut off.
 *
 * The old master goes on saying that it is one until the sentinels demote it, which takes them seconds. So for a
 * while the store does not believe a sentinel that still names it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "util/clock.h"
#include "util/mem.h"

enum { OUTDATED_MS = 10000 };

typedef struct redis_sentinel {
    redis_store *store;
    redis_discovery discovery;
    simba__endpoint master; /* what the sentinels answered last */
    simba__endpoint former; /* the master before that, as the listener heard */
    simba_local outdated;   /* until then, a sentinel that names `former` has not heard of the change */

    redis_conn listener;
    size_t listens_to;
} redis_sentinel;

static redis_sentinel *of(redis_store *store)
{
    return store->topology_data;
}

/* --- where the master is ------------------------------------------------------------------------------ */

static bool set_endpoint(simba__endpoint *endpoint, const char *host, const char *port)
{
    char *end;
    const long number = strtol(port, &end, 10);
    return *end == '\0' && simba__endpoint_set(endpoint, host, strlen(host), number);
}

static bool is_outdated(const redis_sentinel *sentinel, const simba__endpoint *named)
{
    simba_host *host = sentinel->store->host;
    return host->now(host).ns < sentinel->outdated.ns && simba__endpoint_is_same(named, &sentinel->former);
}

/* The answer to SENTINEL get-master-addr-by-name. */
static bool take_address(redis_discovery *discovery, const redisReply *reply, char *why, size_t size)
{
    redis_sentinel *sentinel = discovery->owner;
    simba__endpoint named = {0};
    if (reply->type == REDIS_REPLY_NIL) {
        snprintf(why, size, "this sentinel does not know \"%.60s\"", sentinel->discovery.question[2]);
        return false;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING ||
        !set_endpoint(&named, reply->element[0]->str, reply->element[1]->str)) {
        snprintf(why, size, "an odd answer for a sentinel");
        return false;
    }
    if (!is_outdated(sentinel, &named))
        sentinel->master = named;
    return true;
}

static void lead_to_master(redis_sentinel *sentinel, redis_conn *conn, const char *sayer)
{
    if (simba__link_seeks(&conn->link)) {
        conn->link.at = sentinel->master;
        simba__link_found(&conn->link);
    } else if (conn->link.state != SIMBA__LINK_CLOSED && !simba__endpoint_is_same(&conn->link.at, &sentinel->master)) {
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: sentinel %s says that %s is the master now",
                         conn->link.at.where, sayer, sentinel->master.where);
    }
}

static void found(redis_discovery *discovery, const simba_error *error)
{
    redis_sentinel *sentinel = discovery->owner;
    redis_node *node = sentinel->store->first;
    redis_conn *conns[] = {&node->commands, &node->pushes};
    for (size_t i = 0; i < 2; i++)
        if (!error)
            lead_to_master(sentinel, conns[i], discovery->conn.link.at.where);
        else if (simba__link_seeks(&conns[i]->link))
            simba__link_fail(&conns[i]->link, error->code, "no sentinel knows a master: %s", error->text);
}

static void ask(redis_sentinel *sentinel)
{
    const redis_options *options = &sentinel->store->options;
    if (!sentinel->discovery.running)
        simba__redis_discovery_start(&sentinel->discovery, options->endpoints, options->endpoint_count);
}

static void find_master(redis_conn *conn)
{
    const redis_node *node = conn->owner;
    redis_sentinel *sentinel = of(node->store);
    if (conn->link.failures > 0 && !sentinel->discovery.running)
        sentinel->discovery.first++; /* another sentinel may know better */
    ask(sentinel);
    /* There is no time to ask the sentinels, which may be behind the same outage. If the master has changed, the
     * listener will hear it. */
    if (conn->link.hurries > 0 && sentinel->master.port != 0)
        lead_to_master(sentinel, conn, sentinel->master.where);
    if (sentinel->listener.link.state == SIMBA__LINK_CLOSED)
        simba__link_open(&sentinel->listener.link);
}

/* --- when it changes ---------------------------------------------------------------------------------- */

static void on_up(redis_conn *conn)
{
    simba__redis_put(&conn->link.out, 2, (const char *const[]){"SUBSCRIBE", "+switch-master"});
}

/* "SERVICE OLD-HOST OLD-PORT NEW-HOST NEW-PORT" */
static void hear_switch(redis_sentinel *sentinel, const char *text)
{
    const char *service = sentinel->discovery.question[2];
    const size_t length = strlen(service);
    char old_host[256];
    char old_port[8];
    char host[256];
    char port[8];
    if (strncmp(text, service, length) != 0 || text[length] != ' ' ||
        sscanf(text + length, " %255s %7s %255s %7s", old_host, old_port, host, port) != 4 ||
        !set_endpoint(&sentinel->master, host, port))
        return;
    redis_node *node = sentinel->store->first;
    if (set_endpoint(&sentinel->former, old_host, old_port))
        sentinel->outdated.ns = sentinel->store->host->now(sentinel->store->host).ns + OUTDATED_MS * SIMBA__NS_PER_MS;
    lead_to_master(sentinel, &node->commands, sentinel->listener.link.at.where);
    lead_to_master(sentinel, &node->pushes, sentinel->listener.link.at.where);
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_sentinel *sentinel = conn->owner;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || !simba__redis_is_text(reply->element[0]))
        return;
    if (strcmp(reply->element[0]->str, "subscribe") == 0)
        ask(sentinel);
    else if (strcmp(reply->element[0]->str, "message") == 0 && simba__redis_is_text(reply->element[2]))
        hear_switch(sentinel, reply->element[2]->str);
}

/* The connection tries again by itself; let it try the next sentinel. */
static void on_down(redis_conn *conn)
{
    redis_sentinel *sentinel = conn->owner;
    const redis_options *options = conn->options;
    if (conn->link.failures == 1)
        conn->link.host->log(conn->link.host, SIMBA_LOG_INFO, "%s; another sentinel is listened to",
                             conn->link.error.text);
    sentinel->listens_to = (sentinel->listens_to + 1) % options->endpoint_count;
    conn->link.at = options->endpoints[sentinel->listens_to];
}

static const redis_conn_events listener_events = {.up = on_up, .answer = on_answer, .down = on_down};

/* --- the store's side --------------------------------------------------------------------------------- */

static int sentinel_init(redis_store *store)
{
    const redis_options *options = &store->options;
    redis_sentinel *sentinel = simba__calloc(1, sizeof *sentinel);
    if (!sentinel)
        return SIMBA_ENOMEM;
    store->topology_data = sentinel;
    sentinel->store = store;
    int rc = simba__redis_discovery_init(&sentinel->discovery, &store->conns, &options->sentinel_login);
    if (rc == 0)
        rc = simba__redis_conn_init(&sentinel->listener, &store->conns, &listener_events, sentinel);
    if (rc < 0)
        return rc;
    sentinel->discovery.owner = sentinel;
    sentinel->discovery.question[0] = "SENTINEL";
    sentinel->discovery.question[1] = "get-master-addr-by-name";
    sentinel->discovery.question[2] = options->service;
    sentinel->discovery.words = 3;
    sentinel->discovery.take = take_address;
    sentinel->discovery.over = found;
    sentinel->listens_to = sentinel->discovery.first % options->endpoint_count;
    sentinel->listener.listens = true;
    sentinel->listener.login = &options->sentinel_login;
    sentinel->listener.link.at = options->endpoints[sentinel->listens_to];
    /* Until the master is found, messages name the service. */
    simba__endpoint nowhere = {.port = 1};
    snprintf(nowhere.where, sizeof nowhere.where, "%.100s", options->service);
    redis_node *node = simba__redis_node_new(store, &nowhere);
    if (!node)
        return SIMBA_ENOMEM;
    node->serves = true;
    node->commands.find = node->pushes.find = find_master;
    return 0;
}

static redis_node *sentinel_route(redis_store *store, const char *mutex)
{
    (void)mutex;
    return store->first;
}

static void sentinel_close(redis_store *store)
{
    simba__redis_discovery_close(&of(store)->discovery);
    simba__redis_conn_close(&of(store)->listener);
}

static void sentinel_fini(redis_store *store)
{
    redis_sentinel *sentinel = of(store);
    if (!sentinel)
        return;
    simba__redis_discovery_fini(&sentinel->discovery);
    simba__redis_conn_fini(&sentinel->listener);
    simba__free(sentinel);
}

const redis_topology simba__redis_sentinel = {
    .init = sentinel_init, .route = sentinel_route, .close = sentinel_close, .fini = sentinel_fini};
