/* The nodes of a ZooKeeper server, and what a transaction does to them. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"

zk_znode *tree_find(zk_tree *tree, const char *path)
{
    for (unsigned i = 0; i < ZK_NODES; i++)
        if (strcmp(tree->node[i].path, path) == 0)
            return &tree->node[i];
    return NULL;
}

static bool is_child(const char *path, const char *parent)
{
    const size_t length = strcmp(parent, "/") == 0 ? 0 : strlen(parent);
    return strncmp(path, parent, length) == 0 && path[length] == '/' && path[length + 1] &&
           !strchr(path + length + 1, '/');
}

zk_znode *tree_child(zk_tree *tree, const char *path, zk_znode *after)
{
    for (zk_znode *node = after ? after + 1 : tree->node; node < tree->node + ZK_NODES; node++)
        if (is_child(node->path, path))
            return node;
    return NULL;
}

static void parent_of(const char *path, char out[ZK_PATH])
{
    const size_t length = (size_t)(strrchr(path, '/') - path);
    memcpy(out, path, length);
    strcpy(out + length, length ? "" : "/");
}

static void create(zk_tree *tree, const zk_txn *txn)
{
    char parent[ZK_PATH];
    parent_of(txn->path, parent);
    zk_znode *above = tree_find(tree, parent);
    zk_znode *node = tree_find(tree, "");
    if (!node)
        abort();
    *node = (zk_znode){.session = txn->ephemeral ? txn->session : 0,
                       .container = txn->container,
                       .czxid = txn->zxid,
                       .pzxid = txn->zxid,
                       .ctime_ms = txn->ctime_ms};
    strcpy(node->path, txn->path);
    strcpy(node->data, txn->data);
    if (above) {
        above->born++;
        above->pzxid = txn->zxid;
    }
}

static void remove_node(zk_tree *tree, zk_znode *node, int64_t zxid, void (*changed)(void *, const char *, int),
                        void *user)
{
    char parent[ZK_PATH];
    char path[ZK_PATH];
    strcpy(path, node->path);
    parent_of(path, parent);
    node->path[0] = '\0';
    zk_znode *above = tree_find(tree, parent);
    if (above)
        above->pzxid = zxid;
    changed(user, path, ZK_DELETED);
    changed(user, parent, ZK_CHILD);
}

void tree_apply(zk_tree *tree, const zk_txn *txn, void (*changed)(void *user, const char *path, int type), void *user)
{
    char parent[ZK_PATH];
    if (txn->error)
        return;
    switch (txn->kind) {
    case ZK_TXN_CREATE:
        create(tree, txn);
        changed(user, txn->path, ZK_CREATED);
        parent_of(txn->path, parent);
        changed(user, parent, ZK_CHILD);
        break;
    case ZK_TXN_DELETE:
        remove_node(tree, tree_find(tree, txn->path), txn->zxid, changed, user);
        break;
    case ZK_TXN_CLOSE:
        for (unsigned i = 0; i < ZK_NODES; i++)
            if (tree->node[i].path[0] && tree->node[i].session == txn->session)
                remove_node(tree, &tree->node[i], txn->zxid, changed, user);
        break;
    case ZK_TXN_OPEN:
    case ZK_TXN_ERROR:
        break;
    }
}
