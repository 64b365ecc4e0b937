/* redis:// and the other Redis schemes: a store of leases in a Redis server, shared with Simba on the JVM. redis.h
 * lists its parts, scripts.c what is stored, reply.c what errors lead to. */
#include <string.h>

#include "backends/redis/cluster.h"
#include "backends/redis/redis.h"
#include "backends/redis/sentinel.h"
#include "backends/redis/single.h"
#include "backends/redis/slots.h"
#include "backends/redis/store.h"
#include "stores/schemes.h"
#include "util/error.h"

/* Worker threads look names up. If the URL has only addresses, the store needs none. */
static unsigned workers_for(const redis_options *options)
{
    simba__address address;
    if (options->kind != REDIS_SINGLE)
        return 2;
    const simba__endpoint *at = &options->endpoints[0];
    return at->port == 0 || simba__address_parse(at->host, at->port, &address) ? 0 : 1;
}

static int redis_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    static const redis_topology *const topologies[] = {[REDIS_SINGLE] = &simba__redis_single,
                                                       [REDIS_SENTINEL] = &simba__redis_sentinel,
                                                       [REDIS_CLUSTER] = &simba__redis_cluster};
    redis_store *self = instance;
    simba__tls_context *tls = NULL;
    int rc = simba__redis_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    const redis_options *options = &self->options;
    host->workers = workers_for(options);
    const simba__tls_files files = {options->ca, options->cert, options->key, options->verify};
    if (options->tls)
        rc = simba__tls_context_new(&files, err, &tls);
    if (rc < 0)
        return rc;
    rc = simba__redis_store_init(self, host, tls, topologies[options->kind]);
    return rc < 0 ? simba__fail(err, rc, "out of memory") : 0;
}

static int redis_accepts(const simba_url *url, const char *mutex, simba_error *err)
{
    if (!strstr(simba_url_scheme(url), "+cluster") || simba__redis_in_one_slot(mutex))
        return 0;
    return simba__fail(
        err, SIMBA_EINVAL,
        "a mutex name that begins with \"}\" cannot be used in a Redis Cluster: its keys would lie apart");
}

/* A cluster has many servers, so it names none. */
static const char *redis_server(void *instance)
{
    const redis_store *self = instance;
    return self->options.kind == REDIS_SENTINEL ? self->nodes.first->commands.conn.link.at.where : "";
}

static const char *const schemes[] = {SIMBA__SCHEMES_redis, NULL};
static const char *const keys[] = {"db",
                                   "connect-timeout",
                                   "timeout",
                                   "replicas",
                                   "ca",
                                   "cert",
                                   "key",
                                   "verify",
                                   "sentinel-user",
                                   "sentinel-password-file",
                                   NULL};

const simba_backend simba__backend_redis = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(redis_store),
    .caps =
        SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_QUEUE | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE | SIMBA_CAP_NOTE,
    /* Some 5 ms of a server's time, so that a fleet that wants too much delays renewals by no more than 5 ms a client; and still 50,000
     * requests a second at a round trip of 5 ms. */
    .window = 256,
    .workers = 2,
    .init = redis_init,
    .submit = simba__redis_store_submit,
    .expire = simba__redis_store_expire,
    .flush = simba__redis_store_flush,
    .watch = simba__redis_store_watch,
    .unwatch = simba__redis_store_unwatch,
    .woken = simba__redis_store_woken,
    .close = simba__redis_store_close,
    .fini = simba__redis_store_fini,
    .accepts = redis_accepts,
    .server = redis_server,
};
