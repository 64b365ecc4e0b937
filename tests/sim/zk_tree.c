/* The nodes of a ZooKeeper server, and what a transaction does to them. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"

/* Numbers tell most paths apart: texts are compared only where these are equal. */
static uint32_t key_of(const char *path)
{
    uint32_t key = 2166136261U;
    for (; *path; path++)
        key = (key ^ (unsigned char)*path) * 16777619U;
    return key;
}

static void parent_of(const char *path, char out[ZK_PATH])
{
    const size_t length = (size_t)(strrchr(path, '/') - path);
    memcpy(out, path, length);
    strcpy(out + length, length ? "" : "/");
}

static void name_node(zk_znode *node, const char *path)
{
    char parent[ZK_PATH];
    parent_of(path, parent);
    strcpy(node->path, path);
    node->key = key_of(path);
    node->parent_key = path[1] ? key_of(parent) : 0; /* the root is nobody's child */
}

void tree_plant(zk_tree *tree)
{
    memset(tree, 0, sizeof *tree);
    name_node(&tree->node[tree->used++], "/");
}

zk_znode *tree_find(zk_tree *tree, const char *path)
{
    const uint32_t key = key_of(path);
    for (unsigned i = 0; i < tree->used; i++)
        if (tree->node[i].key == key && strcmp(tree->node[i].path, path) == 0)
            return &tree->node[i];
    return NULL;
}

static bool is_child(const zk_znode *node, const char *parent)
{
    char own[ZK_PATH];
    if (!node->path[0])
        return false;
    parent_of(node->path, own);
    return strcmp(own, parent) == 0;
}

zk_znode *tree_child(zk_tree *tree, const char *path, zk_znode *after)
{
    const uint32_t key = key_of(path);
    for (zk_znode *node = after ? after + 1 : tree->node; node < tree->node + tree->used; node++)
        if (node->parent_key == key && is_child(node, path))
            return node;
    return NULL;
}

bool tree_has_children(zk_tree *tree, const char *path)
{
    return tree_child(tree, path, NULL) != NULL;
}

static zk_znode *find_place(zk_tree *tree)
{
    for (unsigned i = 0; i < tree->used; i++)
        if (!tree->node[i].path[0])
            return &tree->node[i];
    if (tree->used == ZK_NODES)
        abort();
    return &tree->node[tree->used++];
}

static void set_data(zk_znode *node, const zk_txn *txn)
{
    memcpy(node->data, txn->data, sizeof node->data);
    node->length = txn->length;
}

static void create(zk_tree *tree, const zk_txn *txn)
{
    char parent[ZK_PATH];
    parent_of(txn->path, parent);
    zk_znode *above = tree_find(tree, parent);
    zk_znode *node = find_place(tree);
    *node = (zk_znode){.session = txn->ephemeral ? txn->session : 0,
                       .container = txn->container,
                       .czxid = txn->zxid,
                       .mzxid = txn->zxid,
                       .pzxid = txn->zxid,
                       .ctime_ms = txn->ctime_ms,
                       .mtime_ms = txn->ctime_ms};
    name_node(node, txn->path);
    set_data(node, txn);
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
    case ZK_TXN_DELETE: {
        zk_znode *node = tree_find(tree, txn->path);
        if (!node)
            abort(); /* the leader has looked */
        remove_node(tree, node, txn->zxid, changed, user);
        break;
    }
    case ZK_TXN_SET: {
        zk_znode *node = tree_find(tree, txn->path);
        if (!node)
            abort();
        set_data(node, txn);
        node->version++;
        node->mzxid = txn->zxid;
        node->mtime_ms = txn->ctime_ms;
        changed(user, txn->path, ZK_CHANGED);
        break;
    }
    case ZK_TXN_CLOSE:
        for (unsigned i = 0; i < tree->used; i++)
            if (tree->node[i].path[0] && tree->node[i].session == txn->session)
                remove_node(tree, &tree->node[i], txn->zxid, changed, user);
        break;
    case ZK_TXN_OPEN:
    case ZK_TXN_ERROR:
        break;
    }
}
