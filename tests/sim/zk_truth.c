/* What most servers of a model ensemble have agreed on, whichever of them have applied it by now. Shows who leads a
 * mutex, and reports that to check.c. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"
#include "stores/zookeeper/zookeeper.h"

static void nothing(void *user, const char *path, int type)
{
}

void truth_apply(sim *s, const zk_txn *txn)
{
    tree_apply(&zk_state_of(s)->truth, txn, nothing, NULL);
}

zk_znode *truth_first(sim *s, unsigned mutex)
{
    char path[ZK_PATH];
    zk_tree *truth = &zk_state_of(s)->truth;
    zk_znode *first = NULL;
    snprintf(path, sizeof path, "/simba/%s", sim_mutex_name(mutex));
    for (zk_znode *child = tree_child(truth, path, NULL); child; child = tree_child(truth, path, child))
        if (!first || simba__zk_order(child->path, first->path) < 0)
            first = child;
    return first;
}

static bool is_of(const sim_handle *handle, const char *name)
{
    char prefix[ZK_PREFIX_MAX];
    for (unsigned over = 0; over < ZK_SESSIONS; over++) {
        simba__zk_prefix(simba__zk_salted(handle->candidate.machine.nonce, over), handle->id, prefix);
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

static unsigned handle_of(const sim *s, unsigned mutex, const zk_znode *child)
{
    for (unsigned i = 0; i < s->plan->contenders; i++) {
        const sim_handle *handle = &s->handle[i];
        if (handle->mutex == mutex && handle->running && strcmp(handle->id, child->data) == 0 &&
            is_of(handle, strrchr(child->path, '/') + 1))
            return i;
    }
    return SIM_NOBODY;
}

/* The token of who leads; 0: nobody does. */
static int64_t first_of(sim *s, unsigned mutex)
{
    const zk_znode *first = truth_first(s, mutex);
    return first ? first->czxid : 0;
}

/* Who leads now, compared with before. */
static void compare(sim *s, unsigned mutex, int64_t before)
{
    const zk_znode *first = truth_first(s, mutex);
    const int64_t after = first ? first->czxid : 0;
    if (before == after)
        return;
    if (before)
        check_freed(s, mutex);
    if (first) {
        const unsigned handle = handle_of(s, mutex, first);
        check_granted(s, mutex, handle, (uint64_t)after, handle == SIM_NOBODY);
    }
}

void truth_append(sim *s, const zk_txn *txn)
{
    zk_state *state = zk_state_of(s);
    int64_t before[SIM_MUTEXES] = {0};
    const bool changes = !txn->error && txn->kind != ZK_TXN_OPEN;
    for (unsigned m = 0; changes && m < s->plan->mutexes; m++)
        before[m] = first_of(s, m);
    if (state->logged == state->log_capacity) {
        state->log_capacity = state->log_capacity ? 2 * state->log_capacity : 256;
        if (!(state->log = realloc(state->log, state->log_capacity * sizeof *state->log)))
            abort();
    }
    state->log[state->logged++] = *txn;
    sim_tell(s, "log %u kind %d path %s session %llu error %d zxid %llx from server %u", state->logged, txn->kind,
             txn->path, (unsigned long long)txn->session, txn->error, (unsigned long long)txn->zxid, txn->server);
    truth_apply(s, txn);
    for (unsigned m = 0; changes && m < s->plan->mutexes; m++)
        compare(s, m, before[m]);
}
