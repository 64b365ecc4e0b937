/* Beats: writes that change nothing, and what their answers mean to liveness.c. */
#include "backends/zookeeper/zookeeper.h"
#include "util/clock.h"
#include "util/mem.h"

/* A beat under way. */
struct beat {
    zk_store *store;
    unsigned connection;
};

static zk_answer answer_of(int rc)
{
    switch (rc) {
    case ZBADVERSION:
    case ZNOAUTH:
        return ZK_ANSWER_AGREED;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZRUNTIMEINCONSISTENCY:
    case ZAUTHFAILED:
        return ZK_ANSWER_LOST;
    default:
        return ZK_ANSWER_REFUSED;
    }
}

static void on_beat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    struct beat *sent = (struct beat *)(uintptr_t)data;
    const struct beat beat = *sent;
    simba__free(sent);
    if (rc == ZCLOSING)
        return; /* on the thread that closes the handle, while another session may be under way */
    zk_session *session = &beat.store->session;
    simba_host *host = beat.store->host;
    simba__zk_expected_answered(&session->expected);
    if (answer_of(rc) != ZK_ANSWER_LOST)
        session->in_vain = 0;
    if (simba__zk_live_answer(&session->live, beat.connection, answer_of(rc)))
        host->session(host, session->live.proven, session->live.timeout_ns / SIMBA__NS_PER_MS);
}

void simba__zk_send_beat(zk_store *self, simba_local now)
{
    zk_session *session = &self->session;
    struct beat *beat = simba__malloc(sizeof *beat);
    if (!beat || !simba__zk_expect(&session->expected, ZK_REPLY_STAT)) {
        simba__free(beat);
        return;
    }
    beat->store = self;
    beat->connection = session->live.connection;
    simba__zk_library_lock();
    const int rc = zoo_aset(session->zh, "/", "", 0, INT32_MIN, on_beat, beat);
    simba__zk_library_unlock();
    if (rc == ZOK) {
        simba__zk_live_beat(&session->live, now);
    } else {
        simba__zk_expect_not(&session->expected);
        simba__free(beat);
    }
}
