/* The table of functions, and the order in which the parts begin and end. */
#include "stores/etcd/etcd.h"
#include "stores/schemes.h"
#include "util/error.h"

static void etcd_submit(void *instance, simba_request *request)
{
    etcd_store *self = instance;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        simba__etcd_acquire(self, request);
        break;
    case SIMBA_OP_RENEW:
        simba__etcd_renew(self, request);
        break;
    case SIMBA_OP_RELEASE:
        simba__etcd_release(self, request);
        break;
    case SIMBA_OP_READ:
    case SIMBA_OP_FORCE_RELEASE:
        simba__etcd_look(self, request);
        break;
    case SIMBA_OP_LIST:
        simba__etcd_list(self, request);
        break;
    case SIMBA_OP_WRITE_NOTE:
        simba__etcd_write_note(self, request);
        break;
    case SIMBA_OP_READ_NOTE:
        simba__etcd_read_note(self, request);
        break;
    case SIMBA_OP_FORGET:
        simba__etcd_forget(self, request);
        break;
    case SIMBA_OP_EXAMINE:
        simba__etcd_examine(self, request);
        break;
    case SIMBA_OP_PREPARE:
        self->host->fail(self->host, request, SIMBA_ENOTSUP, "etcd: there is nothing to set up");
        break;
    }
}

static void etcd_expire(void *instance, simba_request *request)
{
    simba__etcd_expire(instance, request);
}

/* Calls are sent as they are made. */
static void etcd_flush(void *instance)
{
    (void)instance;
}

static int etcd_watch_mutex(void *instance, simba_watch *shown)
{
    return simba__etcd_observe(instance, shown);
}

static void etcd_unwatch_mutex(void *instance, simba_watch *shown)
{
    (void)instance;
    simba__etcd_unobserve(shown);
}

static int64_t etcd_session_ms(void *instance)
{
    return ((etcd_store *)instance)->options.session_ms;
}

static const char *etcd_server(void *instance)
{
    return ((etcd_store *)instance)->calls.server_name;
}

/* Worker threads look names up. If the URL has only addresses, the store needs none. */
static unsigned workers_for(const etcd_options *options)
{
    simba__address address;
    for (size_t i = 0; i < options->host_count; i++)
        if (!simba__address_parse(options->hosts[i].host, options->hosts[i].port, &address))
            return 1;
    return 0;
}

static int etcd_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    etcd_store *self = instance;
    simba__tls_context *tls = NULL;
    self->host = host;
    int rc = simba__etcd_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    host->workers = workers_for(&self->options);
    self->session.live.ttl_ms = self->options.session_ms;
    self->attend.fire = simba__etcd_attend;
    self->observe.fire = simba__etcd_observe_again;
    if (self->options.tls)
        rc = simba__tls_context_new(&self->options.files, err, &tls);
    if (rc < 0)
        return rc;
    if (simba__etcd_calls_init(self, tls) < 0 || simba__etcd_session_init(self) < 0 ||
        simba__etcd_stream_init(self) < 0 || host->timer_add(host, &self->attend) < 0 ||
        host->timer_add(host, &self->observe) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    return 0;
}

static void etcd_close(void *instance)
{
    etcd_store *self = instance;
    self->host->timer_clear(self->host, &self->attend);
    self->host->timer_clear(self->host, &self->observe);
    simba__etcd_session_close(self);
}

static void etcd_fini(void *instance)
{
    etcd_store *self = instance;
    simba__etcd_calls_end(self);
    simba__etcd_stream_fini(self);
    simba__etcd_calls_fini(self);
    simba__table_fini(&self->contenders);
    simba__etcd_options_free(&self->options);
}

static const char *const schemes[] = {SIMBA__SCHEMES_etcd, NULL};
static const char *const keys[] = {"prefix", "session-timeout", "ca", "cert", "key", "verify", NULL};

const simba_backend simba__backend_etcd = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(etcd_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_SESSION | SIMBA_CAP_QUEUE | SIMBA_CAP_CALLS | SIMBA_CAP_LIST | SIMBA_CAP_NOTE |
            SIMBA_CAP_EXAMINE,
    .workers = 1,
    .init = etcd_init,
    .submit = etcd_submit,
    .expire = etcd_expire,
    .flush = etcd_flush,
    .watch = etcd_watch_mutex,
    .unwatch = etcd_unwatch_mutex,
    .woken = etcd_flush,
    .close = etcd_close,
    .fini = etcd_fini,
    .session_ms = etcd_session_ms,
    .server = etcd_server,
};
