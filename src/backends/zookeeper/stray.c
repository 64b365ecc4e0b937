#include "backends/zookeeper/stray.h"

#include "util/mem.h"

/* Removes the child. It is a procedure of its own: the contender that has read the child goes on waiting, and hears of
 * the removal by its watch. */
struct removal {
    zk_op op; /* first */
    char *path, *child;
};

static struct removal *of(zk_op *op)
{
    return (struct removal *)op;
}

/* The outcome does not matter: a contender that finds the child again tries again. */
static void removed(zk_op *op, const zk_result *result)
{
    (void)op;
    (void)result;
}

static void run(zk_op *op)
{
    simba__zk_call_delete(op, of(op)->path, of(op)->child, removed);
    simba__zk_op_go(op);
}

static void fini(zk_op *op)
{
    simba__free(of(op)->path);
    simba__free(of(op)->child);
}

static const zk_procedure procedure = {.run = run, .step = simba__zk_op_end, .fini = fini};

void simba__zk_stray_check(zk_nodes *nodes, const char *path, const char *child, const zk_result *result)
{
    const zk_session *session = nodes->ops->session;
    if (result->stat->ephemeralOwner != zoo_client_id(session->zh)->client_id || !simba__zk_nodes_miss(nodes, child))
        return;
    session->host->log(session->host, SIMBA_LOG_WARN,
                       "zookeeper %s: %s/%s is there again, although it was removed: the ensemble has lost writes",
                       session->options->where, path, child);
    struct removal *r = simba__zk_op_new(nodes->ops, &procedure, sizeof *r, NULL);
    if (!r)
        return;
    r->path = simba__strdup(path);
    r->child = simba__strdup(child);
    if (r->path && r->child)
        simba__zk_op_start(&r->op);
    else
        simba__zk_op_end(&r->op);
}
