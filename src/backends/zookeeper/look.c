/* Each procedure begins with a sync, so that a server that lags behind does not answer with the past. */
#include "backends/zookeeper/look.h"

#include <string.h>

#include "backends/zookeeper/names.h"
#include "util/assert.h"
#include "util/mem.h"

void *simba__zk_look_new(zk_ops *ops, const zk_procedure *procedure, size_t size, simba_request *request,
                         const char *mutex)
{
    zk_look *look = simba__zk_op_new(ops, procedure, size, request);
    if (!look)
        return NULL;
    look->path = simba__zk_child_path(ops->session->options->root, mutex);
    if (look->path)
        return look;
    look->op.phase = ZK_OP_ENDED; /* it was never begun */
    simba__zk_op_fail(&look->op, SIMBA_ENOMEM, "out of memory");
    return NULL;
}

void simba__zk_look_see(zk_look *look, zk_sight sight)
{
    static const bool allowed[ZK_SIGHTS][ZK_SIGHTS] = {
        [ZK_SIGHT_NONE] = {[ZK_SIGHT_MISSING] = true, [ZK_SIGHT_FREE] = true, [ZK_SIGHT_LED] = true},
        [ZK_SIGHT_MISSING] = {[ZK_SIGHT_NONE] = true}, /* somebody has made its node */
        [ZK_SIGHT_LED] = {[ZK_SIGHT_ASKED] = true},
        [ZK_SIGHT_ASKED] = {[ZK_SIGHT_VANISHED] = true},
        [ZK_SIGHT_VANISHED] = {[ZK_SIGHT_VANISHED] = true}, /* by a read, then by a removal */
    };
    SIMBA__ASSERT(allowed[look->sight][sight]);
    SIMBA__ASSERT((sight >= ZK_SIGHT_LED) == (look->leader != NULL));
    look->sight = sight;
}

void simba__zk_look_forget(zk_look *look)
{
    simba__free(look->leader);
    look->leader = NULL;
    look->sight = ZK_SIGHT_NONE;
    look->contenders = 0;
    look->owner = (simba_owner){0};
}

void simba__zk_look_fini(zk_op *op)
{
    zk_look *look = (zk_look *)op;
    simba__zk_look_forget(look);
    simba__free(look->path);
}

void simba__zk_look_listed(zk_op *op, const zk_result *result)
{
    zk_look *look = (zk_look *)op;
    simba__zk_look_forget(look);
    const char *leader = simba__zk_first(result->names, result->count, &look->contenders);
    look->leader = leader ? simba__strdup(leader) : NULL;
    if (leader && !look->leader)
        simba__zk_op_note(op, ZK_NO_MEMORY);
    else if (result->rc == ZOK)
        simba__zk_look_see(look, look->leader ? ZK_SIGHT_LED : ZK_SIGHT_FREE);
    else if (result->rc == ZNONODE)
        simba__zk_look_see(look, ZK_SIGHT_MISSING);
    else
        simba__zk_op_note(op, result->rc);
}

static void leader_read(zk_op *op, const zk_result *result)
{
    zk_look *look = (zk_look *)op;
    if (result->rc == ZOK)
        look->owner = simba__zk_owner_of(look->leader, result);
    else if (result->rc == ZNONODE)
        simba__zk_look_see(look, ZK_SIGHT_VANISHED);
    else
        simba__zk_op_note(op, result->rc);
}

void simba__zk_look_ask(zk_look *look)
{
    simba__zk_look_see(look, ZK_SIGHT_ASKED);
    simba__zk_call_get(&look->op, look->path, look->leader, NULL, leader_read);
}

/* --- READ and FORCE_RELEASE --------------------------------------------------------------------------------- */

/* A LeaderLatch does not watch its own node, so it will not notice. */
static void warn_of_foreign_owner(const zk_look *look)
{
    const zk_session *session = look->op.ops->session;
    if (!simba_owner_is_none(&look->owner) && !simba__zk_is_made_by_us(look->leader, look->owner.id))
        session->host->log(session->host, SIMBA_LOG_WARN,
                           "zookeeper: the owner of %s is not one of this library; a LeaderLatch, as Simba on the JVM "
                           "uses it, does not notice that it was removed and goes on leading until it is stopped or "
                           "loses its connection",
                           look->path + strlen(session->options->root) + 1);
}

static void deleted(zk_op *op, const zk_result *result)
{
    if (result->rc == ZNONODE)
        simba__zk_look_see((zk_look *)op, ZK_SIGHT_VANISHED);
    else
        simba__zk_op_note(op, result->rc);
}

static void look_on(zk_op *op)
{
    zk_look *look = (zk_look *)op;
    const bool force = op->request->op == SIMBA_OP_FORCE_RELEASE;
    if (!simba__zk_op_good(op))
        return;
    switch (look->sight) {
    case ZK_SIGHT_VANISHED:
        simba__zk_op_start(op); /* it went by itself; who leads now? */
        break;
    case ZK_SIGHT_ASKED:
        if (force)
            warn_of_foreign_owner(look);
        simba__zk_op_complete(op, force ? SIMBA_MINE : SIMBA_NOT_MINE, force ? NULL : &look->owner);
        break;
    case ZK_SIGHT_LED:
        simba__zk_look_ask(look);
        if (force)
            simba__zk_call_delete(op, look->path, look->leader, deleted);
        simba__zk_op_go(op);
        break;
    default:
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
    }
}

static void look(zk_op *op)
{
    simba__zk_look_forget((zk_look *)op);
    simba__zk_call_sync(op);
    simba__zk_call_children(op, ((zk_look *)op)->path, NULL, simba__zk_look_listed);
    simba__zk_op_go(op);
}

static const zk_procedure looking = {.run = look, .step = look_on, .fini = simba__zk_look_fini};

void simba__zk_look(zk_ops *ops, simba_request *request)
{
    zk_look *look = simba__zk_look_new(ops, &looking, sizeof *look, request, request->mutex);
    if (look)
        simba__zk_op_start(&look->op);
}
