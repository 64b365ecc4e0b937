/* redis:// and its kin: a store of leases in a Redis server, shared with Simba on the JVM. See redis.h for its parts,
 * scripts.c for what is stored, reply.c for what becomes of errors. */
#include <string.h>

#include "backends/redis/tls.h"
#include "backends/schemes.h"
#include "util/error.h"

void simba__redis_look_whether_closed(redis_store *self)
{
    if (self->closing && self->lookups == 0 && !self->closed) {
        self->closed = true;
        self->host->closed(self->host);
    }
}

/* Workers look names up. Where all that we ever connect to is an address, there is nothing for them to do. */
static unsigned workers_for(const redis_options *options)
{
    simba__address address;
    if (options->topology != &simba__redis_single)
        return 2;
    const simba__endpoint *at = &options->endpoints[0];
    return at->port == 0 || simba__address_parse(at->host, at->port, &address) ? 0 : 1;
}

static int redis_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    redis_store *self = instance;
    self->host = host;
    int rc = simba__redis_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    host->workers = workers_for(&self->options);
    if (self->options.tls)
        rc = simba__redis_tls_context_new(&self->options, err, &self->tls);
    if (rc < 0)
        return rc;
    rc = simba__redis_subs_init(self);
    if (rc == 0)
        rc = simba__redis_lists_init(self);
    if (rc == 0)
        rc = self->options.topology->init(self);
    return rc < 0 ? simba__fail(err, rc, "out of memory") : 0;
}

static void redis_submit(void *instance, simba_request *request)
{
    redis_store *self = instance;
    if (request->op == SIMBA_OP_LIST)
        simba__redis_list_begin(self, request);
    else
        simba__redis_calls_submit(simba__redis_node_for(self, request), request);
}

static void redis_flush(void *instance)
{
    redis_store *self = instance;
    for (redis_node *node = self->nodes; node; node = node->next)
        simba__redis_calls_flush(node);
}

static int redis_watch_topic(void *instance, simba_topic *topic)
{
    return simba__redis_subs_watch(instance, topic);
}

static void redis_unwatch_topic(void *instance, simba_topic *topic)
{
    simba__redis_subs_unwatch(instance, topic);
}

static void redis_woken(void *instance)
{
    redis_store *self = instance;
    redis_flush(self);
    simba__redis_subs_woken(self);
}

static void redis_close(void *instance)
{
    const simba_error why = {.code = SIMBA_ECANCELED, .text = "redis: the client closes"};
    redis_store *self = instance;
    self->closing = true;
    for (redis_node *node = self->nodes; node; node = node->next)
        simba__redis_node_close(node, &why);
    simba__redis_lists_close(self);
    self->options.topology->close(self);
    simba__redis_subs_close(self);
    simba__redis_look_whether_closed(self);
}

static void redis_fini(void *instance)
{
    redis_store *self = instance;
    simba__redis_subs_fini(self);
    if (self->options.topology)
        self->options.topology->fini(self);
    while (self->nodes) {
        redis_node *next = self->nodes->next;
        simba__redis_node_free(self->nodes);
        self->nodes = next;
    }
    simba__redis_tls_context_free(self->tls);
    simba__redis_options_free(&self->options);
}

static int redis_accepts(const simba_url *url, const char *mutex, simba_error *err)
{
    if (!strstr(simba_url_scheme(url), "+cluster") || simba__redis_in_one_slot(mutex))
        return 0;
    return simba__fail(
        err, SIMBA_EINVAL,
        "a mutex name that begins with \"}\" cannot be used in a Redis Cluster: its keys would lie apart");
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
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_STORE_CLOCK | SIMBA_CAP_QUEUE | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE,
    .workers = 2,
    .init = redis_init,
    .submit = redis_submit,
    .flush = redis_flush,
    .watch = redis_watch_topic,
    .unwatch = redis_unwatch_topic,
    .woken = redis_woken,
    .close = redis_close,
    .fini = redis_fini,
    .accepts = redis_accepts,
};
