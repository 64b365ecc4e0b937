/* zookeeper://: the table of functions. See zookeeper.h for who does what. */
#include "backends/zookeeper/zookeeper.h"

#include "stores/schemes.h"
#include "util/error.h"

/* --- what becomes of the session --------------------------------------------------------------------- */

static zk_store *store_of(zk_session *session)
{
    return (zk_store *)(void *)((char *)session - offsetof(zk_store, session));
}

static void connected(zk_session *session, bool anew)
{
    simba__zk_ops_connected(&store_of(session)->ops);
    if (anew)
        simba__zk_topics_anew(&store_of(session)->topics);
}

static void disconnected(zk_session *session)
{
    simba__zk_ops_disconnected(&store_of(session)->ops);
}

static void over(zk_session *session)
{
    zk_store *self = store_of(session);
    simba__zk_nodes_drop(&self->nodes);
    simba__zk_watches_drop(&self->ops);
    simba__zk_ops_fail_parked(&self->ops, "the session has ended", "");
}

static void unavailable(zk_session *session)
{
    simba__zk_ops_fail_parked(&store_of(session)->ops, "cannot connect: ", session->cause);
}

static void closed(zk_session *session)
{
    session->host->closed(session->host);
}

static const zk_session_events events = {connected, disconnected, over, unavailable, closed};

/* --- requests --------------------------------------------------------------------------------------- */

static void zk_submit(void *instance, simba_request *request)
{
    zk_store *self = instance;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        simba__zk_acquire(&self->nodes, request);
        break;
    case SIMBA_OP_RENEW:
        simba__zk_renew(&self->nodes, request);
        break;
    case SIMBA_OP_RELEASE:
        simba__zk_release(&self->nodes, request);
        break;
    case SIMBA_OP_READ:
    case SIMBA_OP_FORCE_RELEASE:
        simba__zk_look(&self->ops, request);
        break;
    case SIMBA_OP_LIST:
        simba__zk_list(&self->ops, request);
        break;
    case SIMBA_OP_WRITE_NOTE:
        simba__zk_write_note(&self->nodes, request);
        break;
    case SIMBA_OP_READ_NOTE:
        simba__zk_read_note(&self->ops, request);
        break;
    case SIMBA_OP_FORGET:
        simba__zk_forget(&self->ops, request);
        break;
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE:
        self->session.host->fail(self->session.host, request, SIMBA_ENOTSUP, "zookeeper: there is nothing to set up");
        break;
    }
}

static void zk_expire(void *instance, simba_request *request)
{
    simba__zk_ops_expire(&((zk_store *)instance)->ops, request);
}

static void zk_flush(void *instance)
{
    simba__zk_session_flush(&((zk_store *)instance)->session);
}

static void zk_woken(void *instance)
{
    zk_store *self = instance;
    if (self->session.closing)
        return;
    if (self->ops.all.first)
        simba__zk_session_want(&self->session);
    simba__zk_session_flush(&self->session);
}

static int zk_watch_topic(void *instance, simba_topic *topic)
{
    return simba__zk_observe(&((zk_store *)instance)->topics, topic);
}

static void zk_unwatch_topic(void *instance, simba_topic *topic)
{
    (void)instance;
    simba__zk_unobserve(topic);
}

/* --- lifetime --------------------------------------------------------------------------------------- */

static int64_t zk_session_ms(void *instance)
{
    return ((zk_store *)instance)->options.session_ms;
}

static const char *zk_server(void *instance)
{
    return ((zk_store *)instance)->session.server;
}

static int zk_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    zk_store *self = instance;
    const int rc = simba__zk_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    self->ops.session = &self->session;
    if (simba__zk_session_init(&self->session, host, &self->options, &events) < 0 ||
        simba__zk_nodes_init(&self->nodes, &self->ops, simba__zk_chores) < 0 ||
        simba__zk_topics_init(&self->topics, &self->ops) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    return 0;
}

static void zk_close(void *instance)
{
    zk_store *self = instance;
    simba_host *host = self->session.host;
    host->timer_clear(host, &self->nodes.chores);
    host->timer_clear(host, &self->topics.later);
    simba__zk_nodes_drop(&self->nodes);
    simba__zk_watches_drop(&self->ops);
    simba__zk_ops_close(&self->ops);
    simba__zk_session_close(&self->session);
}

static void zk_fini(void *instance)
{
    zk_store *self = instance;
    simba__zk_topics_fini(&self->topics);
    simba__zk_nodes_fini(&self->nodes);
    simba__zk_session_fini(&self->session);
    simba__zk_options_free(&self->options);
}

static int zk_accepts(const simba_url *url, const char *mutex, simba_error *err)
{
    (void)url;
    return simba__zk_check_mutex(mutex, err);
}

static const char *const schemes[] = {SIMBA__SCHEMES_zookeeper, NULL};
static const char *const keys[] = {"session-timeout", "acl", NULL};

const simba_backend simba__backend_zookeeper = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(zk_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_SESSION | SIMBA_CAP_QUEUE | SIMBA_CAP_CALLS | SIMBA_CAP_LIST | SIMBA_CAP_NOTE,
    .workers = 2,
    .init = zk_init,
    .submit = zk_submit,
    .expire = zk_expire,
    .flush = zk_flush,
    .watch = zk_watch_topic,
    .unwatch = zk_unwatch_topic,
    .woken = zk_woken,
    .close = zk_close,
    .fini = zk_fini,
    .accepts = zk_accepts,
    .session_ms = zk_session_ms,
    .server = zk_server,
};
