#include "backends/zookeeper/ops.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/assert.h"
#include "util/mem.h"
#include "util/text.h"

#define OP_OF(link_) SIMBA__OF_ITEM(link_, zk_op, link)

/* --- life --------------------------------------------------------------------------------------------- */

void *simba__zk_op_new(zk_ops *ops, const zk_procedure *procedure, size_t size, simba_request *request)
{
    simba_host *host = ops->session->host;
    zk_op *op = simba__calloc(1, size);
    if (!op) {
        if (request)
            host->fail(host, request, SIMBA_ENOMEM, "zookeeper: out of memory");
        return NULL;
    }
    op->ops = ops;
    op->procedure = procedure;
    op->request = request;
    if (request) {
        request->backend_data = op;
        op->begun = host->now(host);
    }
    simba__list_append(&ops->all, &op->link);
    return op;
}

static void free_if_over(zk_op *op)
{
    if (op->awaited > 0)
        return;
    simba__list_remove(&op->parked);
    simba__list_remove(&op->link);
    if (op->procedure->fini)
        op->procedure->fini(op);
    simba__free(op);
}

void simba__zk_op_end(zk_op *op)
{
    if (op->phase == ZK_OP_RUNS) {
        op->phase = ZK_OP_ENDED;
        if (op->procedure->ended)
            op->procedure->ended(op);
    }
    free_if_over(op);
}

void simba__zk_op_complete(zk_op *op, simba_outcome outcome, const simba_owner *owner)
{
    const zk_session *session = op->ops->session;
    simba_request *request = op->request;
    if (request) {
        op->request = NULL;
        request->reply = (simba_reply){.outcome = outcome, .now_ms = simba__zk_session_now_ms(session)};
        if (owner)
            request->reply.owner = *owner;
        session->host->complete(session->host, request);
    }
    simba__zk_op_end(op);
}

void simba__zk_op_fail(zk_op *op, int code, const char *format, ...)
{
    const zk_session *session = op->ops->session;
    const char *where = session->options->where;
    simba_request *request = op->request;
    if (request) {
        char text[200];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        op->request = NULL;
        session->host->fail(session->host, request, code, "zookeeper %.*s: %s", simba__text_cut(where, 60), where,
                            text);
    }
    simba__zk_op_end(op);
}

/* Fail a request that nobody waits for any more. The procedure may go on without it. */
static void fail_late(zk_op *op)
{
    const zk_session *session = op->ops->session;
    simba_request *request = op->request;
    op->request = NULL;
    if (request && simba__zk_is_connected(session))
        session->host->fail(session->host, request, SIMBA_ETIMEDOUT, "zookeeper %s: no answer in time",
                            session->options->where);
    else if (request)
        session->host->fail(session->host, request, SIMBA_EUNAVAILABLE, "zookeeper %s: not connected: %s",
                            session->options->where, session->cause[0] ? session->cause : "no answer");
}

void simba__zk_op_start(zk_op *op)
{
    zk_ops *ops = op->ops;
    if (!simba__zk_is_connected(ops->session)) {
        if (!op->parked.list)
            simba__list_append(&ops->parked, &op->parked);
        ops->session->host->wake(ops->session->host); /* open a session, but not inside this call */
        return;
    }
    op->error = 0;
    op->procedure->run(op);
}

bool simba__zk_op_is_wanted(const zk_op *op)
{
    return op->request && !op->expired;
}

void simba__zk_op_go(zk_op *op)
{
    if (op->awaited > 0)
        return;
    if (op->phase != ZK_OP_RUNS) {
        free_if_over(op);
    } else if (op->error == ZK_BROKEN && (simba__zk_op_is_wanted(op) || op->procedure->persists)) {
        simba__list_append(&op->ops->parked, &op->parked);
        if (op->expired)
            fail_late(op);
    } else if (!simba__zk_op_is_wanted(op) && !op->procedure->persists) {
        op->error ? simba__zk_op_fail(op, SIMBA_ETIMEDOUT, "no answer in time")
                  : simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL); /* the server has answered, too late */
    } else {
        op->procedure->step(op);
    }
}

/* --- errors ------------------------------------------------------------------------------------------- */

bool simba__zk_is_loss(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED ||
           rc == ZCLOSING || rc == ZINVALIDSTATE || rc == ZRUNTIMEINCONSISTENCY || rc == ZAUTHFAILED;
}

void simba__zk_op_note(zk_op *op, int rc)
{
    if (simba__zk_is_loss(rc))
        rc = ZK_BROKEN;
    else if (rc == ZMARSHALLINGERROR || rc == ZSYSTEMERROR)
        rc = ZK_NO_MEMORY;
    if (op->error == 0 || (rc >= ZK_NO_MEMORY && rc > op->error))
        op->error = rc;
}

static int code_of(int error)
{
    switch (error) {
    case ZK_NO_MEMORY:
        return SIMBA_ENOMEM;
    case ZNOAUTH:
    case ZAUTHFAILED:
    case ZINVALIDACL:
        return SIMBA_EPERM;
    case ZTHROTTLEDOP:
        return SIMBA_ETIMEDOUT;
    default:
        return SIMBA_ESTORE;
    }
}

static const char *text_of(int error)
{
    switch (error) {
    case ZK_NO_MEMORY:
        return "out of memory";
    case ZK_MALFORMED:
        return "the server's answer makes no sense; is it a ZooKeeper?";
    case ZK_TOO_MANY:
        return "there are more than 1000000 nodes to list";
    default:
        return zerror(error);
    }
}

bool simba__zk_op_good(zk_op *op)
{
    const int error = op->error;
    if (error)
        simba__zk_op_fail(op, code_of(error), "%s", text_of(error));
    return !error;
}

/* --- all of them --------------------------------------------------------------------------------------- */

/* The request of a procedure that waits for a connection has been failed. */
static void end_if_idle(zk_op *op)
{
    if (op->parked.list && !op->procedure->persists)
        simba__zk_op_end(op);
}

void simba__zk_ops_expire(zk_ops *ops, simba_request *request)
{
    zk_op *op = request->backend_data;
    SIMBA__ASSERT(op->request == request);
    op->expired = true;
    if (op->parked.list || !simba__zk_is_connected(ops->session)) {
        fail_late(op);
        end_if_idle(op);
    } else {
        simba__zk_session_doubt(ops->session, op->begun);
    }
}

void simba__zk_ops_disconnected(zk_ops *ops)
{
    for (simba__list_item *link = ops->all.first, *after; link; link = after) {
        zk_op *op = OP_OF(link);
        after = link->next;
        if (!op->expired)
            continue;
        fail_late(op);
        end_if_idle(op);
    }
}

void simba__zk_ops_connected(zk_ops *ops)
{
    /* Run only those that wait now: one that loses its connection at once goes to the end. */
    for (size_t count = ops->parked.count; count > 0 && ops->parked.first && simba__zk_is_connected(ops->session);
         count--) {
        zk_op *op = SIMBA__OF_ITEM(ops->parked.first, zk_op, parked);
        simba__list_remove(&op->parked);
        simba__zk_op_start(op);
    }
}

void simba__zk_ops_fail_parked(zk_ops *ops, const char *what, const char *cause)
{
    simba_host *host = ops->session->host;
    for (simba__list_item *link = ops->all.first, *after; link; link = after) {
        zk_op *op = OP_OF(link);
        after = link->next;
        if (!op->request || !op->parked.list)
            continue;
        host->fail(host, op->request, SIMBA_EUNAVAILABLE, "zookeeper %s: %s%s", ops->session->options->where, what,
                   cause);
        op->request = NULL;
        end_if_idle(op);
    }
}

void simba__zk_ops_close(zk_ops *ops)
{
    simba_host *host = ops->session->host;
    while (ops->all.first) {
        zk_op *op = OP_OF(ops->all.first);
        if (op->request)
            host->fail(host, op->request, SIMBA_ECLOSED, "zookeeper: the store closes");
        op->request = NULL;
        op->phase = ZK_OP_CLOSED;
        if (op->procedure->ended)
            op->procedure->ended(op);
        simba__list_remove(&op->parked);
        simba__list_remove(&op->link);
        free_if_over(op);
    }
}
