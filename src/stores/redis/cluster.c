/* redis+cluster://: many masters, each with some of the slots. A cluster divides the keys into 16384 slots.
 *
 * The store asks for the map of the slots (CLUSTER SLOTS) when it first needs a slot, when a server says that a slot is
 * elsewhere (MOVED), and when a server does not answer, which may be a fail-over. It asks at most four times a second.
 * A request that got MOVED or ASK goes on by itself to the server that the answer names.
 *
 * Requests for a slot whose server is not known wait at a node of their own, the limbo. To find its address, the limbo
 * asks for the map; when the map has come, it sends all waiting requests on. So the code treats an unknown server like
 * a connection that is being made: it has the same deadlines, the same pauses after a failure, and an error that says
 * why.
 *
 * A message reaches subscribers at any server, but PUBLISH counts only the subscribers at the server of the slot: so we
 * subscribe there. While a slot moves, a subscriber may be at another server: it hears the message and is not counted.
 * Then the script wakes the next waiter, too, and one of the two waits again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "util/clock.h"
#include "util/mem.h"

enum { REFRESH_MS = 250, REPLICAS_MOST = 16 };

typedef struct redis_cluster {
    redis_store *store;
    redis_node *limbo;
    redis_node *slots[REDIS_SLOTS]; /* NULL: the server is not known */

    redis_discovery discovery;
    simba__endpoint *candidates;
    simba__endpoint replicas[REPLICAS_MOST]; /* some of those that the latest map names */
    size_t replica_count;
    simba_timer refresh;
    simba_local asked_at;
} redis_cluster;

static redis_cluster *of(redis_store *store)
{
    return store->topology_data;
}

/* --- slots -------------------------------------------------------------------------------------------- */

/* CRC16, with the polynomial 0x1021, from 0, highest bit first: as XMODEM has it. All keys are "simba:{MUTEX}" with or without
 * something behind it: so the tag is the name, up to the first "}" in it. */
unsigned simba__redis_slot(const char *mutex)
{
    const size_t length = strcspn(mutex, "}");
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(uint8_t)mutex[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return (crc & 0xFFFF) % REDIS_SLOTS;
}

/* --- nodes -------------------------------------------------------------------------------------------- */

/* True if the node has no connection and no slots, so that its memory can serve another server. */
static bool is_free(const redis_cluster *cluster, const redis_node *node)
{
    return node != cluster->limbo && !node->serves && node->commands.link.state == SIMBA__LINK_CLOSED &&
           node->pushes.link.state == SIMBA__LINK_CLOSED && simba__redis_node_idle(node) && node->store->walks == 0;
}

/* The node at this address. NULL: out of memory. */
static redis_node *node_at(redis_cluster *cluster, const simba__endpoint *at)
{
    redis_node *unused = NULL;
    for (redis_node *node = cluster->store->first; node; node = node->next)
        if (node != cluster->limbo && simba__endpoint_is_same(&node->commands.link.at, at))
            return node;
        else if (is_free(cluster, node))
            unused = node;
    if (!unused)
        return simba__redis_node_new(cluster->store, at);
    unused->commands.link.at = unused->pushes.link.at = *at;
    unused->commands.link.failures = unused->pushes.link.failures = 0;
    return unused;
}

/* The server has lost its slots. The node stays, so that the server can still answer the calls that were sent to it. */
static void retire(redis_node *node)
{
    const simba_error why = {.code = SIMBA_EUNAVAILABLE, .text = "redis: the server is not in the cluster any more"};
    simba__redis_conn_close(&node->pushes);
    if (node->commands.link.state != SIMBA__LINK_UP || !node->sent.first)
        simba__redis_node_close(node, &why);
}

/* --- the map ------------------------------------------------------------------------------------------ */

/* [host, port, …] */
static bool is_server(const redisReply *server)
{
    return server->type == REDIS_REPLY_ARRAY && server->elements >= 2 &&
           (server->element[0]->type == REDIS_REPLY_STRING || server->element[0]->type == REDIS_REPLY_NIL) &&
           server->element[1]->type == REDIS_REPLY_INTEGER && server->element[1]->integer > 0 &&
           server->element[1]->integer < 65536;
}

/* [first slot, last slot, master, replica, …] */
static bool is_range(const redisReply *range)
{
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 || range->element[0]->type != REDIS_REPLY_INTEGER ||
        range->element[1]->type != REDIS_REPLY_INTEGER || !is_server(range->element[2]))
        return false;
    const long long first = range->element[0]->integer;
    const long long last = range->element[1]->integer;
    return first >= 0 && first <= last && last < REDIS_SLOTS;
}

/* A server that does not know its own address leaves the host empty or null: then it means the address at which we
 * asked it. */
static bool set_endpoint(simba__endpoint *endpoint, const redisReply *server, const simba__endpoint *asked)
{
    const redisReply *host = server->element[0];
    const bool is_named = host->type == REDIS_REPLY_STRING && host->len > 0;
    const char *name = is_named ? host->str : asked->host;
    return simba__endpoint_set(endpoint, name, strlen(name), server->element[1]->integer);
}

/* Servers announce this host for a server whose name they have not learned yet. */
static bool is_unknown(const simba__endpoint *at)
{
    return strcmp(at->host, "?") == 0;
}

static bool take_range(redis_cluster *cluster, const redisReply *range)
{
    simba__endpoint at;
    if (!set_endpoint(&at, range->element[2], &cluster->discovery.conn.link.at))
        return false;
    if (is_unknown(&at))
        return true; /* leave these slots without a server */
    redis_node *node = node_at(cluster, &at);
    if (!node)
        return false;
    node->serves = true;
    for (long long slot = range->element[0]->integer; slot <= range->element[1]->integer; slot++)
        cluster->slots[slot] = node;
    return true;
}

static bool is_noted(const redis_cluster *cluster, const simba__endpoint *replica)
{
    for (size_t i = 0; i < cluster->replica_count; i++)
        if (simba__endpoint_is_same(&cluster->replicas[i], replica))
            return true;
    return false;
}

/* If all masters that we know are gone, these replicas have taken their places and know the map. */
static void note_replicas(redis_cluster *cluster, const redisReply *range)
{
    for (size_t i = 3; i < range->elements && cluster->replica_count < REPLICAS_MOST; i++) {
        simba__endpoint replica;
        if (is_server(range->element[i]) &&
            set_endpoint(&replica, range->element[i], &cluster->discovery.conn.link.at) && !is_unknown(&replica) &&
            !is_noted(cluster, &replica))
            cluster->replicas[cluster->replica_count++] = replica;
    }
}

/* The answer to CLUSTER SLOTS. */
static bool take_map(redis_discovery *discovery, const redisReply *reply, char *why, size_t size)
{
    redis_cluster *cluster = discovery->owner;
    bool good = reply->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; good && i < reply->elements; i++)
        good = is_range(reply->element[i]);
    if (!good || reply->elements == 0) {
        snprintf(why, size, good ? "this server knows of no slots" : "an odd answer to CLUSTER SLOTS");
        return false;
    }
    memset(cluster->slots, 0, sizeof cluster->slots);
    for (redis_node *node = cluster->store->first; node; node = node->next)
        node->serves = false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!take_range(cluster, reply->element[i])) {
            snprintf(why, size, "out of memory for what it knows");
            return false;
        }
    cluster->replica_count = 0;
    for (size_t i = 0; i < reply->elements; i++)
        note_replicas(cluster, reply->element[i]);
    return true;
}

/* The map has come: the calls that waited for it go on to their servers, or fail if no server has their slot. */
static void empty_limbo(redis_cluster *cluster)
{
    static const char nobody[] = "redis: no server of the cluster has the slot";
    redis_node *limbo = cluster->limbo;
    if (simba__link_seeks(&limbo->commands.link) && limbo->waiting.first)
        simba__link_fail(&limbo->commands.link, SIMBA_EUNAVAILABLE, nobody);
    else if (simba__link_seeks(&limbo->commands.link))
        simba__redis_conn_close(&limbo->commands);
    if (simba__link_seeks(&limbo->pushes.link) && simba__redis_pushes_need(limbo))
        simba__link_fail(&limbo->pushes.link, SIMBA_EUNAVAILABLE, nobody);
    else if (simba__link_seeks(&limbo->pushes.link))
        simba__redis_conn_close(&limbo->pushes);
}

/* Ask for the map soon, but not too often: while a cluster is in trouble, every client asks. */
static void refresh(redis_cluster *cluster)
{
    simba_host *host = cluster->store->host;
    const simba_local now = host->now(host);
    const simba_local due = {cluster->asked_at.ns + REFRESH_MS * SIMBA__NS_PER_MS};
    if (!cluster->discovery.running && cluster->refresh.index == 0 && !cluster->store->closing)
        host->timer_set(host, &cluster->refresh, due.ns > now.ns ? due : now);
}

/* Send everything to the servers that the new map names. */
static void over(redis_discovery *discovery, const simba_error *error)
{
    redis_cluster *cluster = discovery->owner;
    redis_store *store = cluster->store;
    redis_conn *limbo[] = {&cluster->limbo->commands, &cluster->limbo->pushes};
    cluster->asked_at = store->host->now(store->host);
    for (size_t i = 0; error && i < 2; i++)
        if (simba__link_seeks(&limbo[i]->link))
            simba__link_fail(&limbo[i]->link, error->code, "no server knows the cluster: %s", error->text);
    if (error) {
        if (store->pushes.channels.count > 0)
            refresh(cluster); /* what was refused is subscribed again when the map comes */
        return;
    }
    simba__redis_moved(store);
    empty_limbo(cluster);
    for (redis_node *node = store->first; node; node = node->next)
        if (!node->serves && node != cluster->limbo)
            retire(node);
    store->host->wake(store->host); /* to send the calls that go elsewhere now */
}

/* The servers to ask: the known masters and replicas, and the servers that the URL names. */
static size_t gather_candidates(redis_cluster *cluster)
{
    const redis_options *options = &cluster->store->options;
    size_t count = options->endpoint_count + cluster->replica_count;
    for (const redis_node *node = cluster->store->first; node; node = node->next)
        count += node->serves;
    simba__endpoint *candidates = simba__realloc(cluster->candidates, count * sizeof *candidates);
    if (!candidates)
        return 0;
    cluster->candidates = candidates;
    memcpy(candidates, options->endpoints, options->endpoint_count * sizeof *candidates);
    candidates += options->endpoint_count;
    for (const redis_node *node = cluster->store->first; node; node = node->next)
        if (node->serves)
            *candidates++ = node->commands.link.at;
    memcpy(candidates, cluster->replicas, cluster->replica_count * sizeof *candidates);
    return count;
}

static void ask(redis_cluster *cluster)
{
    const redis_options *options = &cluster->store->options;
    if (cluster->discovery.running)
        return;
    const size_t count = gather_candidates(cluster);
    if (count > 0)
        simba__redis_discovery_start(&cluster->discovery, cluster->candidates, count);
    else
        simba__redis_discovery_start(&cluster->discovery, options->endpoints, options->endpoint_count);
}

static void find(redis_conn *conn)
{
    const redis_node *limbo = conn->owner;
    ask(of(limbo->store));
}

static void on_refresh(simba_timer *timer, simba_local now)
{
    (void)now;
    ask((redis_cluster *)(void *)((char *)timer - offsetof(redis_cluster, refresh)));
}

/* --- redirections ------------------------------------------------------------------------------------- */

/* "MOVED SLOT HOST:PORT", "ASK SLOT HOST:PORT". The host may be missing, and an IPv6 address has no brackets. */
static bool parse_redirection(const redis_node *from, const char *text, unsigned *ret_slot, simba__endpoint *ret_at)
{
    char *end;
    const char *blank = strchr(text, ' ');
    const unsigned long slot = blank ? strtoul(blank, &end, 10) : REDIS_SLOTS;
    const char *colon = strrchr(text, ':');
    if (slot >= REDIS_SLOTS || *end != ' ' || !colon || colon <= end)
        return false;
    const char *host = end + 1;
    const long port = strtol(colon + 1, NULL, 10);
    *ret_slot = (unsigned)slot;
    if (host == colon)
        return simba__endpoint_set(ret_at, from->commands.link.at.host, strlen(from->commands.link.at.host), port);
    return simba__endpoint_set(ret_at, host, (size_t)(colon - host), port);
}

static bool cluster_redirect(redis_call *call, const char *error)
{
    redis_node *node = call->node;
    redis_cluster *cluster = of(node->store);
    const bool moved = strncmp(error, "MOVED ", 6) == 0;
    simba__endpoint at;
    unsigned slot;
    if (!parse_redirection(node, error, &slot, &at))
        return false;
    const bool unknown = is_unknown(&at);
    redis_node *target = unknown ? NULL : node_at(cluster, &at);
    if (target && moved) {
        target->serves = true;
        cluster->slots[slot] = target;
    }
    if (moved)
        refresh(cluster);
    if (target)
        simba__redis_call_submit(target, call);
    else
        simba__redis_call_fail(call, unknown ? SIMBA_EUNAVAILABLE : SIMBA_ENOMEM, "redis %s: %s",
                               node->commands.link.at.where,
                               unknown ? "it is not known yet who has the slot" : "out of memory");
    return true;
}

static void cluster_lost(redis_node *node)
{
    redis_cluster *cluster = of(node->store);
    if (node != cluster->limbo)
        refresh(cluster);
}

/* --- the store's side --------------------------------------------------------------------------------- */

static int cluster_init(redis_store *store)
{
    simba_host *host = store->host;
    redis_cluster *cluster = simba__calloc(1, sizeof *cluster);
    if (!cluster)
        return SIMBA_ENOMEM;
    store->topology_data = cluster;
    cluster->store = store;
    cluster->asked_at.ns = INT64_MIN / 2;
    cluster->refresh.fire = on_refresh;
    int rc = simba__redis_discovery_init(&cluster->discovery, &store->conns, &store->options.login);
    if (rc == 0)
        rc = host->timer_add(host, &cluster->refresh);
    if (rc < 0)
        return rc;
    cluster->discovery.owner = cluster;
    cluster->discovery.question[0] = "CLUSTER";
    cluster->discovery.question[1] = "SLOTS";
    cluster->discovery.words = 2;
    cluster->discovery.take = take_map;
    cluster->discovery.over = over;
    const simba__endpoint nowhere = {.where = "cluster"};
    cluster->limbo = simba__redis_node_new(store, &nowhere);
    if (!cluster->limbo)
        return SIMBA_ENOMEM;
    cluster->limbo->commands.find = cluster->limbo->pushes.find = find;
    return 0;
}

static redis_node *cluster_route(redis_store *store, const char *mutex)
{
    redis_cluster *cluster = of(store);
    redis_node *node = cluster->slots[simba__redis_slot(mutex)];
    return node ? node : cluster->limbo;
}

static void cluster_close(redis_store *store)
{
    simba__redis_discovery_close(&of(store)->discovery);
    store->host->timer_clear(store->host, &of(store)->refresh);
}

static void cluster_fini(redis_store *store)
{
    redis_cluster *cluster = of(store);
    if (!cluster)
        return;
    simba__redis_discovery_fini(&cluster->discovery);
    simba__free(cluster->candidates);
    simba__free(cluster);
}

const redis_topology simba__redis_cluster = {.init = cluster_init,
                                             .route = cluster_route,
                                             .redirect = cluster_redirect,
                                             .lost = cluster_lost,
                                             .close = cluster_close,
                                             .fini = cluster_fini};
