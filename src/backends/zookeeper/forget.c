/* One transaction removes the node of a mutex and its note. The server does not remove a node that has children, so
 * nobody can have entered meanwhile. If the node has vanished already, as it does when it has been empty for a while,
 * FORGET first makes it again for that purpose.
 *
 * If other mutexes lie below the node ("a/b" below "a"), the node has to stay. Then FORGET removes only the note, in
 * the version that it has seen: a contender that enters just then may find the note gone.
 *
 * Tokens are numbers of the ensemble's transactions, which only grow, whatever is removed. */
#include "backends/zookeeper/forget.h"

#include "backends/zookeeper/look.h"
#include "backends/zookeeper/notes.h"
#include "util/mem.h"

/* The purpose of the calls of the step under way. */
typedef enum forgetting_step {
    FORGETTING_LOOK,
    FORGETTING_ASK,  /* ask for the owner */
    FORGETTING_MAKE, /* a node, so that the transaction has one to remove */
    FORGETTING_REMOVE,
} forgetting_step;

struct forgetting {
    zk_look look; /* first */
    char *note;   /* its path */
    forgetting_step step;
    bool has_note;
    int note_version;
    bool is_shared; /* other mutexes are below the node */
    bool again;     /* the nodes to remove have changed */
};

static struct forgetting *of(zk_op *op)
{
    return (struct forgetting *)op;
}

static void fini(zk_op *op)
{
    simba__free(of(op)->note);
    simba__zk_look_fini(op);
}

static void was_listed(zk_op *op, const zk_result *result)
{
    simba__zk_look_listed(op, result);
    of(op)->is_shared = result->count > of(op)->look.contenders;
}

static void note_found(zk_op *op, const zk_result *result)
{
    of(op)->has_note = result->rc == ZOK && result->stat;
    if (of(op)->has_note)
        of(op)->note_version = result->stat->version;
    else if (result->rc != ZNONODE)
        simba__zk_op_note(op, result->rc == ZOK ? ZK_MALFORMED : result->rc);
}

static void was_made(zk_op *op, const zk_result *result)
{
    if (result->rc == ZUNIMPLEMENTED)
        op->ops->no_containers = true;
    else if (result->rc != ZNODEEXISTS && result->rc != ZNONODE)
        simba__zk_op_note(op, result->rc);
}

static void was_removed(zk_op *op, const zk_result *result)
{
    of(op)->again = result->rc == ZNOTEMPTY || result->rc == ZNONODE || result->rc == ZBADVERSION;
    if (!of(op)->again)
        simba__zk_op_note(op, result->rc);
}

static void remove_all(struct forgetting *f)
{
    zk_op *op = &f->look.op;
    const zk_change node = {.kind = f->is_shared ? ZK_CHECK : ZK_DELETE, .path = f->look.path, .version = -1};
    const zk_change note = {.kind = ZK_DELETE, .path = f->note, .version = f->note_version};
    f->step = FORGETTING_REMOVE;
    if (f->has_note)
        simba__zk_call_both(op, (const zk_change[]){node, note}, was_removed);
    else
        simba__zk_call_delete(op, op->ops->session->options->root, op->request->mutex, was_removed);
    simba__zk_op_go(op);
}

static void make_node(struct forgetting *f)
{
    f->step = FORGETTING_MAKE;
    simba__zk_call_parents(&f->look.op, f->look.path, was_made);
    simba__zk_op_go(&f->look.op);
}

static void ask_owner(struct forgetting *f)
{
    f->step = FORGETTING_ASK;
    simba__zk_look_ask(&f->look);
    simba__zk_op_go(&f->look.op);
}

static void looked(struct forgetting *f)
{
    if (f->look.leader)
        ask_owner(f);
    else if (!f->has_note && (f->look.sight == ZK_SIGHT_MISSING || f->is_shared))
        simba__zk_op_complete(&f->look.op, SIMBA_NOT_MINE, NULL); /* there is no such mutex */
    else if (f->look.sight == ZK_SIGHT_MISSING)
        make_node(f);
    else
        remove_all(f);
}

static void forget_on(zk_op *op)
{
    struct forgetting *f = of(op);
    if (!simba__zk_op_good(op))
        return;
    if (f->step == FORGETTING_LOOK)
        looked(f);
    else if (f->step == FORGETTING_ASK && f->look.sight == ZK_SIGHT_ASKED)
        simba__zk_op_complete(op, SIMBA_NOT_MINE, &f->look.owner);
    else if (f->step == FORGETTING_REMOVE && !f->again)
        simba__zk_op_complete(op, SIMBA_MINE, NULL);
    else
        simba__zk_op_start(op); /* look again */
}

static void forget(zk_op *op)
{
    struct forgetting *f = of(op);
    simba__zk_look_forget(&f->look);
    f->step = FORGETTING_LOOK;
    simba__zk_call_sync(op);
    simba__zk_call_children(op, f->look.path, NULL, was_listed);
    simba__zk_call_exists(op, f->note, NULL, note_found);
    simba__zk_op_go(op);
}

static const zk_procedure forgetting = {.run = forget, .step = forget_on, .fini = fini};

void simba__zk_forget(zk_ops *ops, simba_request *request)
{
    struct forgetting *f = simba__zk_look_new(ops, &forgetting, sizeof *f, request, request->mutex);
    if (!f)
        return;
    f->note = simba__zk_note_path(ops, request->mutex);
    if (f->note)
        simba__zk_op_start(&f->look.op);
    else
        simba__zk_op_fail(&f->look.op, SIMBA_ENOMEM, "out of memory");
}
