/* The inside of the model of ZooKeeper, for the files that make it up:
 *
 *   zk_jute.c      numbers and texts on the wire
 *   zk_tree.c      the nodes, and what a transaction does to them
 *   zk_truth.c     what was agreed on, and who leads by that
 *   zk_notes.c     what servers say to each other
 *   zk_writes.c    how they agree on a transaction, and apply it
 *   zk_ensemble.c  leaders, followers, elections, sessions
 *   zk_faults.c    what goes wrong with them
 *   zk_server.c    one server and its clients: handshakes, requests in order, watches
 */
#ifndef TESTS_SIM_ZK_MODEL_H
#define TESTS_SIM_ZK_MODEL_H

#include <stddef.h>

#include "sim/world.h"

enum {
    ZK_NODES = 96,
    ZK_PATH = 96,
    ZK_DATA = 96,
    ZK_SESSIONS = 64,
    ZK_JUTE = 8192,
    ZK_WATCHES = 64, /* of a connection */
};

/* --- zk_jute.c --------------------------------------------------------------------------------------- */

typedef struct jute_in {
    const char *at, *end;
} jute_in;

int32_t jute_int(jute_in *in);
int64_t jute_long(jute_in *in);
bool jute_bool(jute_in *in);
/* A text or a buffer. Returns its length. */
size_t jute_text(jute_in *in, char *out, size_t size);

typedef struct jute_out {
    size_t length;
    char bytes[ZK_JUTE];
} jute_out;

void jute_put_int(jute_out *out, int32_t number);
void jute_put_long(jute_out *out, int64_t number);
void jute_put_bool(jute_out *out, bool value);
void jute_put_text(jute_out *out, const char *text, size_t length);

/* --- zk_tree.c --------------------------------------------------------------------------------------- */

typedef struct zk_znode {
    char path[ZK_PATH];       /* "": not used */
    uint32_t key, parent_key; /* of this path and of that above it */
    char data[ZK_DATA];
    size_t length;
    uint64_t session; /* whose it is; 0: it stays */
    bool container;
    int64_t czxid, mzxid, pzxid, ctime_ms, mtime_ms;
    int32_t version; /* how often its data was set */
    int32_t born;    /* children, ever: the number of the next */
} zk_znode;

typedef struct zk_tree {
    unsigned used; /* places so far */
    zk_znode node[ZK_NODES];
} zk_tree;

typedef enum zk_txn_kind {
    ZK_TXN_CREATE,
    ZK_TXN_DELETE,
    ZK_TXN_SET,   /* if another node is there: the one transaction of two parts that the store makes here */
    ZK_TXN_OPEN,  /* a session */
    ZK_TXN_CLOSE, /* a session, and with it all that it has made */
    ZK_TXN_ERROR, /* agreed on like any other, and changes nothing */
} zk_txn_kind;

/* What was agreed on. */
typedef struct zk_txn {
    zk_txn_kind kind;
    int64_t at; /* agreed on */
    int64_t zxid, ctime_ms;
    int32_t error; /* what is answered */
    char path[ZK_PATH];
    char data[ZK_DATA];
    size_t length;
    char guard[ZK_PATH]; /* SET: the other node */
    int32_t version;     /* SET: the expected one; -1: any */
    unsigned failed;     /* SET: which of the two parts has the error */
    uint64_t session;
    bool ephemeral, container;
    /* Who is to be answered. */
    unsigned server, wire;
    uint32_t wire_version;
    int32_t xid, op;
} zk_txn;

/* With its root, and nothing else. */
void tree_plant(zk_tree *tree);
zk_znode *tree_find(zk_tree *tree, const char *path);
/* The next child of a path, in no order; begin with NULL. */
zk_znode *tree_child(zk_tree *tree, const char *path, zk_znode *after);
bool tree_has_children(zk_tree *tree, const char *path);
void tree_apply(zk_tree *tree, const zk_txn *txn, void (*changed)(void *user, const char *path, int type), void *user);

enum { ZK_CREATED = 1, ZK_DELETED = 2, ZK_CHANGED = 3, ZK_CHILD = 4 };
enum {
    ZK_OP_CREATE = 1,
    ZK_OP_DELETE = 2,
    ZK_OP_EXISTS = 3,
    ZK_OP_GET = 4,
    ZK_OP_SET = 5,
    ZK_OP_CHILDREN = 8,
    ZK_OP_SYNC = 9,
    ZK_OP_CHECK = 13,
    ZK_OP_MULTI = 14,
    ZK_OP_CREATE2 = 15,
    ZK_OP_CREATE_CONTAINER = 19,
    ZK_OP_AUTH = 100,
    ZK_OP_OPEN = -10,
    ZK_OP_CLOSE = -11,
};
enum {
    ZK_ERR_NO_NODE = -101,
    ZK_ERR_BAD_VERSION = -103,
    ZK_ERR_EXISTS = -110,
    ZK_ERR_NOT_EMPTY = -111,
    ZK_ERR_EXPIRED = -112,
    ZK_ERR_AUTH_FAILED = -115,
    ZK_ERR_MOVED = -118,
};

/* --- zk_ensemble.c ----------------------------------------------------------------------------------- */

typedef enum zk_role { ZK_LOOKING, ZK_FOLLOWS, ZK_LEADS_ALL } zk_role;

typedef struct zk_tracked {
    uint64_t id; /* 0: none */
    int64_t timeout_ms;
    int64_t expires_at; /* by the ensemble's clock */
    unsigned owner;     /* the server by which it was heard of last; SIM_NOBODY: not known */
    bool closing;
} zk_tracked;

/* Notes in the order in which they came. */
typedef struct zk_line {
    uint32_t first, last; /* first 0: there are none */
} zk_line;

typedef struct zk_server {
    zk_role role;
    uint32_t epoch;
    unsigned leader; /* FOLLOWS: whom */
    unsigned applied;
    zk_tree tree;
    zk_tracked session[ZK_SESSIONS]; /* known to it; LEADS: and tracked by it */
    bool touched[ZK_SESSIONS];       /* FOLLOWS: heard of since the leader was told */
    int64_t down_until, frozen_until, isolated_until;
    uint32_t with_it;          /* isolated: which processes are on its side, by bit */
    zk_line asked;             /* what it has asked its leader for, and the leader has not heard of */
    unsigned proposed, agreed; /* LEADS: so many, in this epoch */
    zk_line proposals;         /* LEADS: those between */
    zk_line syncs;             /* LEADS: that wait for them */
    int64_t heard_at;          /* of its leader, or of enough followers */
    int64_t timeout_ns;        /* how long it goes on without */
} zk_server;

/* What servers say to each other, or to themselves later. */
typedef enum zk_note_kind {
    ZK_NOTE_WRITE, /* in the line `asked`, as is SYNC */
    ZK_NOTE_SYNC,
    ZK_NOTE_ASKED, /* the first of that line gets through to the leader */
    ZK_NOTE_COMMIT,
    ZK_NOTE_APPLY,
    ZK_NOTE_SYNCED,
    ZK_NOTE_TICK,
    ZK_NOTE_EXPIRE
} zk_note_kind;

typedef struct zk_note {
    zk_note_kind kind;
    uint32_t next; /* in the list of free ones, or in a line */
    unsigned from, to;
    uint32_t epoch;
    unsigned upto; /* APPLY, SYNCED: of the log; COMMIT, SYNC: of what was proposed */
    zk_txn txn;    /* WRITE, a proposal: as asked for */
    bool sequential;
} zk_note;

typedef struct zk_state {
    unsigned servers;
    zk_server server[SIM_SERVERS];
    int64_t tick_ns;
    uint32_t epoch;
    int64_t zxid;
    int64_t tidy_at; /* when empty containers go */
    uint64_t sessions;
    uint32_t peers; /* connections so far */
    zk_txn *log;
    unsigned logged, log_capacity;
    zk_note *note;
    unsigned notes, note_capacity;
    uint32_t note_free;
    zk_tree truth;                        /* all that was agreed on */
    int64_t refused_until[SIM_PROCESSES]; /* no server takes the password of this one */
} zk_state;

zk_state *zk_state_of(const sim *s);
zk_server *ensemble_server(sim *s, unsigned server);
/* A session that this server knows; NULL: it does not. */
zk_tracked *ensemble_session(zk_server *server, uint64_t id);
/* The two reach each other, and one follows the other. */
bool ensemble_follows(sim *s, unsigned follower, unsigned leader);
/* The server has heard of this session. False: it does not know it. */
bool ensemble_touch(sim *s, unsigned index, uint64_t id);
/* Its timeout. 0: there is no such session, as far as the leader of this server knows. -1: the leader cannot be asked. */
int64_t ensemble_validate(sim *s, unsigned index, uint64_t id);
bool ensemble_serves(const sim *s, unsigned server);
int64_t ensemble_zxid(const sim *s, unsigned server);

bool ensemble_is_up(const sim *s, const zk_server *server);
/* Do most servers follow it? */
bool ensemble_has_quorum(sim *s, unsigned leader);
/* It serves nobody until it has found a leader, or leads. */
void ensemble_look_for_leader(sim *s, unsigned index);
void ensemble_apply_session(sim *s, zk_server *server, const zk_txn *txn);
void ensemble_begin(sim *s);
void ensemble_event(sim *s, const sim_event *event);

/* --- zk_notes.c -------------------------------------------------------------------------------------- */

zk_note *note_new(sim *s, zk_note_kind kind, unsigned from, unsigned to, uint32_t *ret_index);
zk_note *note_at(sim *s, uint32_t index);
void note_free(sim *s, uint32_t index);
void note_post(sim *s, uint32_t index, int64_t after_ns);
/* What does not get through is sent again, as long as the two have not given each other up. */
void note_post_again(sim *s, const zk_note *note);
/* How long it takes between two servers. */
int64_t note_hop(sim *s);
void line_append(sim *s, zk_line *line, uint32_t index);
/* Take the first out. False: there is none. */
bool line_take(sim *s, zk_line *line, zk_note *ret_note);
void line_forget(sim *s, zk_line *line);

/* --- zk_writes.c ------------------------------------------------------------------------------------- */

/* A write on behalf of a client: to the leader with it. */
void writes_ask(sim *s, unsigned server, const zk_txn *asked, bool sequential);
/* A sync: `server_synced` follows, unless the leader cannot be reached. */
void writes_ask_sync(sim *s, unsigned server, const zk_txn *asked);
/* At the leader: this server's next request has come; ask the others; what was proposed is agreed on, if most servers follow
 * the leader; it is agreed on. */
void writes_hear(sim *s, unsigned from);
void writes_propose(sim *s, unsigned leader, const zk_txn *txn, bool sequential);
void writes_commit(sim *s, const zk_note *note);
void writes_agree(sim *s, unsigned leader, const zk_txn *asked, bool sequential);
/* The server neither leads nor follows any more. */
void writes_forget(sim *s, unsigned index);
/* At any server: it learns what was agreed on. */
void writes_news(sim *s, const zk_note *note);
void writes_apply(sim *s, unsigned index, unsigned upto);

/* --- zk_truth.c -------------------------------------------------------------------------------------- */

void truth_apply(sim *s, const zk_txn *txn);
/* It is agreed on. */
void truth_append(sim *s, const zk_txn *txn);
/* The child that leads a mutex; NULL: there is none. */
zk_znode *truth_first(sim *s, unsigned mutex);

/* --- zk_server.c ------------------------------------------------------------------------------------- */

/* The server has applied it. */
void server_applied(sim *s, unsigned server, const zk_txn *txn);
void server_changed(sim *s, unsigned server, const char *path, int type);
void server_synced(sim *s, const zk_txn *asked);
/* The session is over: so are its connections. */
void server_end_session(sim *s, unsigned server, uint64_t session);
/* It serves nobody any more. */
void server_drop_all(sim *s, unsigned server);
void server_opened(sim *s, unsigned wire);
void server_bytes(sim *s, unsigned wire, const char *data, size_t length);
void server_closed(sim *s, unsigned wire);

#endif
