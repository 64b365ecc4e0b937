/* The library's calls, of which procedures consist, and its watches. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_CALLS_H
#define SIMBA_BACKENDS_ZOOKEEPER_CALLS_H

#include "backends/zookeeper/ops.h"

/* --- watches ---------------------------------------------------------------------------------------- */

/* The store calls `fired` when a node changes. A watch belongs to the session: it goes when it has fired, or with the
 * session. */
typedef struct zk_watch zk_watch;

/* Prepare a watch. `slot`, a member of the owner, points to it while the owner wants it: only then `fired` is called,
 * once. The owner no longer wants an earlier watch in that slot. NULL: out of memory, and the procedure knows. */
zk_watch *simba__zk_watch_new(zk_op *op, zk_watch **slot, void *owner, void (*fired)(void *owner, int type));
/* The owner no longer wants the watch in this slot. */
void simba__zk_watch_drop(zk_watch **slot);
/* The session is over. */
void simba__zk_watches_drop(zk_ops *ops);

/* --- calls ------------------------------------------------------------------------------------------ */

typedef struct zk_result {
    int rc;           /* of the library, or ZK_MALFORMED */
    const char *text; /* the path that was made, or the contents of the node that was read */
    int length;
    const struct Stat *stat; /* if rc is ZOK: of a get, a create, or a transaction with a set */
    char *const *names;      /* of children; none is empty or has a slash */
    size_t count;
    bool watched;  /* the call was to set a watch, and did */
    size_t failed; /* of a transaction: which of the two calls is the reason for rc */
} zk_result;

/* Handles the answer. Afterwards the procedure goes on. */
typedef void zk_answered(zk_op *op, const zk_result *result);

/* Each makes one call of the procedure's step. If the call cannot be made, the procedure knows, and its watch is
 * freed. */
void simba__zk_call_sync(zk_op *op);
/* Have most servers agree on a write that changes nothing. A sync only brings the server up to what its leader knows.
 * If the others have replaced that leader, this may be old; then `agree` fails. It costs an entry in the servers'
 * logs. */
void simba__zk_call_agree(zk_op *op);
/* Make a node, and the nodes above it that are missing. The next calls show whether that worked. */
void simba__zk_call_parents(zk_op *op, const char *path, zk_answered *answered);
/* Make PATH/PREFIXnumber. False: the call was not made. */
bool simba__zk_call_create(zk_op *op, const char *path, const char *prefix, const char *id, zk_answered *answered);
void simba__zk_call_children(zk_op *op, const char *path, zk_watch *watch, zk_answered *answered);
void simba__zk_call_exists(zk_op *op, const char *path, zk_watch *watch, zk_answered *answered);
/* PATH, or PATH/CHILD. */
void simba__zk_call_get(zk_op *op, const char *path, const char *child, zk_watch *watch, zk_answered *answered);
void simba__zk_call_delete(zk_op *op, const char *path, const char *child, zk_answered *answered);
/* Make a persistent node. */
void simba__zk_call_keep(zk_op *op, const char *path, const char *data, size_t length, zk_answered *answered);

/* One half of a transaction. A `version` of -1 means any. */
typedef struct zk_change {
    enum { ZK_CHECK, ZK_SET, ZK_DELETE } kind; /* the first of the two is no SET */
    const char *path;
    int version;
    const char *data; /* SET */
    size_t length;
} zk_change;

/* Make both changes, or none. */
void simba__zk_call_both(zk_op *op, const zk_change changes[2], zk_answered *answered);

/* The owner according to the leading node. */
simba_owner simba__zk_owner_of(const char *child, const zk_result *result);

#endif
