/* Procedures: see zk_op. Here is their life; calls.c has what they are made of. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/mem.h"
#include "util/text.h"

/* --- life --------------------------------------------------------------------------------------------- */

zk_op *simba__zk_op_new(zk_store *self, simba_request *request, void (*run)(zk_op *op))
{
    simba_host *host = self->host;
    zk_op *op = simba__calloc(1, sizeof *op);
    if (!op) {
        if (request)
            host->fail(host, request, SIMBA_ENOMEM, "zookeeper: out of memory");
        return NULL;
    }
    op->store = self;
    op->request = request;
    op->run = run;
    op->next = self->ops;
    if (op->next)
        op->next->previous = op;
    self->ops = op;
    if (request && (self->deadlines.index == 0 || request->deadline.ns < self->deadlines.at.ns))
        host->timer_set(host, &self->deadlines, request->deadline);
    return op;
}

void simba__zk_op_forget(zk_op *op)
{
    simba__free(op->leader);
    simba__free(op->before);
    op->leader = op->before = NULL;
    op->missing = op->vanished = op->found = false;
    op->children = 0;
    memset(&op->owner, 0, sizeof op->owner);
}

static void drop_names(zk_op *op)
{
    for (size_t i = 0; i < op->name_count; i++)
        simba__free(op->names[i]);
    simba__free(op->names);
    op->names = NULL;
    op->name_count = op->name_room = op->name_next = 0;
}

bool simba__zk_op_add_name(zk_op *op, const char *parent, const char *name)
{
    if (op->name_count >= ZK_NAMES_MAX) {
        op->error = ZK_TOO_MANY;
        return false;
    }
    if (op->name_count == op->name_room) {
        const size_t room = op->name_room ? op->name_room * 2 : 16;
        char **names = simba__realloc(op->names, room * sizeof *names);
        op->no_memory |= !names;
        if (!names)
            return false;
        op->names = names;
        op->name_room = room;
    }
    char *copy = parent ? simba__zk_child_path(parent, name) : simba__strdup(name);
    op->no_memory |= !copy;
    if (copy)
        op->names[op->name_count++] = copy;
    return copy != NULL;
}

static void op_free(zk_op *op)
{
    simba__zk_op_forget(op);
    drop_names(op);
    simba__free(op->path);
    if (op->node) {
        if (op->node->op == op)
            op->node->op = NULL;
        simba__zk_node_unref(op->node);
    }
    simba__free(op);
}

static void park(zk_op *op)
{
    zk_store *self = op->store;
    if (op->parked)
        return;
    op->parked = true;
    op->parked_next = NULL;
    op->parked_previous = self->parked_last;
    if (self->parked_last)
        self->parked_last->parked_next = op;
    else
        self->parked_first = op;
    self->parked_last = op;
}

static void unpark(zk_store *self, zk_op *op)
{
    if (!op->parked)
        return;
    op->parked = false;
    if (op->parked_previous)
        op->parked_previous->parked_next = op->parked_next;
    else
        self->parked_first = op->parked_next;
    if (op->parked_next)
        op->parked_next->parked_previous = op->parked_previous;
    else
        self->parked_last = op->parked_previous;
}

static void unlink_op(zk_store *self, zk_op *op)
{
    unpark(self, op);
    if (op->previous)
        op->previous->next = op->next;
    else
        self->ops = op->next;
    if (op->next)
        op->next->previous = op->previous;
}

void simba__zk_op_end(zk_op *op)
{
    if (!op->ended) {
        op->ended = true;
        if (op->finished)
            op->finished(op);
    }
    if (op->calls > 0 || op->rows > 0)
        return;
    unlink_op(op->store, op);
    op_free(op);
}

void simba__zk_op_complete(zk_op *op, simba_outcome outcome, const simba_owner *owner)
{
    zk_store *self = op->store;
    simba_request *request = op->request;
    if (request) {
        op->request = NULL;
        memset(&request->reply, 0, sizeof request->reply);
        request->reply.outcome = outcome;
        if (owner)
            request->reply.owner = *owner;
        request->reply.now_ms = simba__zk_session_now_ms(&self->session);
        self->host->complete(self->host, request);
    }
    simba__zk_op_end(op);
}

void simba__zk_op_fail(zk_op *op, int code, const char *format, ...)
{
    zk_store *self = op->store;
    simba_request *request = op->request;
    if (request) {
        char text[200];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        op->request = NULL;
        self->host->fail(self->host, request, code, "zookeeper %.*s: %s", simba__text_cut(self->options.where, 60),
                         self->options.where, text);
    }
    simba__zk_op_end(op);
}

void simba__zk_op_start(zk_op *op)
{
    zk_store *self = op->store;
    if (!simba__zk_is_connected(&self->session)) {
        park(op);
        self->host->wake(self->host); /* have a session: not inside of this call */
        return;
    }
    simba__zk_op_forget(op);
    drop_names(op);
    op->error = 0;
    op->no_memory = false;
    op->run(op);
}

void simba__zk_op_go(zk_op *op)
{
    if (op->calls > 0)
        return;
    if (op->ended || (!op->request && !op->persists)) {
        simba__zk_op_end(op);
    } else if (op->lost) {
        op->lost = false;
        park(op);
    } else {
        op->step(op);
    }
}

void simba__zk_op_step(zk_op *op, void (*then)(zk_op *op))
{
    op->step = then;
}

zk_op *simba__zk_op_answered(const void *data)
{
    zk_op *op = (zk_op *)(uintptr_t)data;
    op->calls--;
    if (op->store) {
        simba__zk_expected_answered(&op->store->session.wire.expected);
        return op;
    }
    if (op->calls == 0)
        op_free(op);
    return NULL;
}

static int code_of(int error)
{
    switch (error) {
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
    if (op->no_memory)
        simba__zk_op_fail(op, SIMBA_ENOMEM, "out of memory");
    else if (op->error)
        simba__zk_op_fail(op, code_of(op->error), "%s", text_of(op->error));
    else
        return true;
    return false;
}

/* --- all of them --------------------------------------------------------------------------------------- */

void simba__zk_ops_connected(zk_store *self)
{
    /* As many as wait now: one that loses its connection at once goes to the end. */
    size_t count = 0;
    for (const zk_op *op = self->parked_first; op; op = op->parked_next)
        count++;
    for (; count > 0 && self->parked_first && simba__zk_is_connected(&self->session); count--) {
        zk_op *op = self->parked_first;
        unpark(self, op);
        simba__zk_op_start(op);
    }
}

void simba__zk_ops_expire(zk_store *self, simba_local now)
{
    simba_host *host = self->host;
    simba_local next = {INT64_MAX};
    for (zk_op *op = self->ops, *after; op; op = after) {
        after = op->next;
        simba_request *request = op->request;
        if (!request)
            continue;
        if (request->deadline.ns > now.ns) {
            if (request->deadline.ns < next.ns)
                next = request->deadline;
            continue;
        }
        op->request = NULL;
        if (simba__zk_is_connected(&self->session))
            host->fail(host, request, SIMBA_ETIMEDOUT, "zookeeper %s: no answer in time", self->options.where);
        else
            host->fail(host, request, SIMBA_EUNAVAILABLE, "zookeeper %s: not connected: %s", self->options.where,
                       self->session.cause[0] ? self->session.cause : "no answer");
        if (op->parked && !op->persists)
            simba__zk_op_end(op);
    }
    if (next.ns != INT64_MAX)
        host->timer_set(host, &self->deadlines, next);
}

/* Those that wait for a connection. */
static void fail_parked(zk_store *self, const char *what, const char *cause)
{
    for (zk_op *op = self->ops, *after; op; op = after) {
        after = op->next;
        simba_request *request = op->request;
        if (!request || !op->parked)
            continue;
        op->request = NULL;
        self->host->fail(self->host, request, SIMBA_EUNAVAILABLE, "zookeeper %s: %s%s", self->options.where, what,
                         cause);
        if (!op->persists)
            simba__zk_op_end(op);
    }
}

void simba__zk_ops_unavailable(zk_store *self)
{
    fail_parked(self, "cannot connect: ", self->session.cause);
}

void simba__zk_ops_session_over(zk_store *self)
{
    fail_parked(self, "the session has ended", "");
}

void simba__zk_ops_close(zk_store *self)
{
    while (self->ops) {
        zk_op *op = self->ops;
        if (op->request)
            self->host->fail(self->host, op->request, SIMBA_ECLOSED, "zookeeper: the store closes");
        op->request = NULL;
        op->finished = NULL;
        unlink_op(self, op);
        if (op->node && op->node->op == op)
            op->node->op = NULL;
        op->store = NULL;
        if (op->calls == 0)
            op_free(op);
    }
}
