/* One ZooKeeper server and its clients: handshakes, requests that are answered in order of arrival, watches. It
 * reads what it has applied so far; it passes writes and syncs on to the leader. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"

typedef struct zk_waiting zk_waiting;
struct zk_waiting {
    zk_waiting *next;
    size_t length;
    char data[];
};

typedef enum zk_interest { ZK_DATA_WATCH, ZK_CHILD_WATCH } zk_interest;

/* A connection, as the server sees it. */
typedef struct zk_peer {
    char *in; /* not a whole packet yet */
    size_t length;
    bool greeted, busy; /* busy: the first of the requests has gone to the leader */
    uint64_t session;
    uint32_t version; /* tells it from an earlier one on the same wire */
    zk_waiting *first, **last;
    unsigned watches;
    struct {
        zk_interest interest;
        char path[ZK_PATH];
    } watch[ZK_WATCHES];
} zk_peer;

void server_opened(sim *s, unsigned wire)
{
    zk_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        abort();
    peer->last = &peer->first;
    peer->version = ++zk_state_of(s)->peers;
    wire_set_peer(s, wire, peer);
}

static void forget_first(zk_peer *peer)
{
    zk_waiting *waiting = peer->first;
    peer->first = waiting->next;
    if (!peer->first)
        peer->last = &peer->first;
    free(waiting);
}

void server_closed(sim *s, unsigned wire)
{
    zk_peer *peer = wire_peer(s, wire);
    while (peer->first)
        forget_first(peer);
    free(peer->in);
    free(peer);
    wire_set_peer(s, wire, NULL);
}

void server_drop_all(sim *s, unsigned server)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_server(s, wire) == server)
            wire_drop(s, wire);
}

void server_end_session(sim *s, unsigned server, uint64_t session)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_server(s, wire) == server && ((const zk_peer *)wire_peer(s, wire))->session == session)
            wire_drop(s, wire);
}

static zk_tree *tree_of(sim *s, unsigned wire)
{
    return &zk_state_of(s)->server[wire_server(s, wire)].tree;
}

/* --- answers ----------------------------------------------------------------------------------------- */

static void say(sim *s, unsigned wire, const jute_out *out)
{
    jute_out packet = {0};
    jute_put_int(&packet, (int32_t)out->length);
    memcpy(packet.bytes + packet.length, out->bytes, out->length);
    wire_answer(s, wire, packet.bytes, packet.length + out->length);
}

static void begin_answer(sim *s, unsigned wire, int32_t xid, int32_t error, jute_out *out)
{
    out->length = 0;
    jute_put_int(out, xid);
    jute_put_long(out, ensemble_zxid(s, wire_server(s, wire)));
    jute_put_int(out, error);
}

static void put_stat(jute_out *out, zk_tree *tree, const zk_znode *node)
{
    int32_t children = 0;
    for (const zk_znode *child = tree_child(tree, node->path, NULL); child;
         child = tree_child(tree, node->path, (zk_znode *)(uintptr_t)child))
        children++;
    jute_put_long(out, node->czxid);
    jute_put_long(out, node->mzxid);
    jute_put_long(out, node->ctime_ms);
    jute_put_long(out, node->mtime_ms);
    jute_put_int(out, node->version);
    jute_put_int(out, node->born);
    jute_put_int(out, 0);
    jute_put_long(out, (int64_t)node->session);
    jute_put_int(out, (int32_t)node->length);
    jute_put_int(out, children);
    jute_put_long(out, node->pzxid);
}

static void say_changed(sim *s, unsigned wire, const char *path, int type)
{
    jute_out out;
    sim_tell(s, "process %u server %u watch %d %s", wire_process(s, wire), wire_server(s, wire), type, path);
    out.length = 0;
    jute_put_int(&out, -1);
    jute_put_long(&out, -1);
    jute_put_int(&out, 0);
    jute_put_int(&out, type);
    jute_put_int(&out, 3); /* connected */
    jute_put_text(&out, path, strlen(path));
    say(s, wire, &out);
}

/* --- watches ----------------------------------------------------------------------------------------- */

static bool is_for(zk_interest interest, int type)
{
    return interest == ZK_DATA_WATCH ? type != ZK_CHILD : type == ZK_CHILD || type == ZK_DELETED;
}

static void fire(sim *s, unsigned wire, zk_peer *peer, const char *path, int type)
{
    bool told = false;
    for (unsigned i = 0; i < peer->watches;) {
        if (strcmp(peer->watch[i].path, path) != 0 || !is_for(peer->watch[i].interest, type)) {
            i++;
            continue;
        }
        peer->watch[i] = peer->watch[--peer->watches];
        told = true;
    }
    if (told) /* one message for all */
        say_changed(s, wire, path, type);
}

void server_changed(sim *s, unsigned server, const char *path, int type)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_server(s, wire) == server)
            fire(s, wire, wire_peer(s, wire), path, type);
}

static void add_watch(zk_peer *peer, zk_interest interest, const char *path)
{
    for (unsigned i = 0; i < peer->watches; i++)
        if (peer->watch[i].interest == interest && strcmp(peer->watch[i].path, path) == 0)
            return;
    if (peer->watches == ZK_WATCHES)
        abort();
    peer->watch[peer->watches].interest = interest;
    strcpy(peer->watch[peer->watches++].path, path);
}

/* --- reads ------------------------------------------------------------------------------------------- */

static void answer_children(sim *s, unsigned wire, int32_t xid, const char *path)
{
    jute_out out;
    zk_tree *tree = tree_of(s, wire);
    int32_t count = 0;
    begin_answer(s, wire, xid, 0, &out);
    for (zk_znode *child = tree_child(tree, path, NULL); child; child = tree_child(tree, path, child))
        count++;
    jute_put_int(&out, count);
    for (zk_znode *child = tree_child(tree, path, NULL); child; child = tree_child(tree, path, child)) {
        const char *name = strrchr(child->path, '/') + 1;
        jute_put_text(&out, name, strlen(name));
    }
    say(s, wire, &out);
}

static void read_node(sim *s, unsigned wire, int32_t xid, int32_t op, jute_in *in)
{
    char path[ZK_PATH];
    jute_out out;
    jute_text(in, path, sizeof path);
    const bool watch = jute_bool(in);
    const zk_znode *node = tree_find(tree_of(s, wire), path);
    if (watch && (node || op == ZK_OP_EXISTS))
        add_watch(wire_peer(s, wire), op == ZK_OP_CHILDREN ? ZK_CHILD_WATCH : ZK_DATA_WATCH, path);
    if (node && op == ZK_OP_CHILDREN) {
        answer_children(s, wire, xid, path);
        return;
    }
    begin_answer(s, wire, xid, node ? 0 : ZK_ERR_NO_NODE, &out);
    if (node && op == ZK_OP_GET)
        jute_put_text(&out, node->data, node->length);
    if (node)
        put_stat(&out, tree_of(s, wire), node);
    say(s, wire, &out);
}

/* --- writes ------------------------------------------------------------------------------------------ */

static void take_acl(jute_in *in)
{
    char text[ZK_PATH];
    for (int32_t n = jute_int(in); n > 0; n--) {
        jute_int(in);
        jute_text(in, text, sizeof text);
        jute_text(in, text, sizeof text);
    }
}

/* A transaction: this one is there, and that one is set. */
static void take_parts(zk_txn *txn, jute_in *in)
{
    for (int32_t part = 0;; part++) {
        const int32_t op = jute_int(in);
        const bool last = jute_bool(in);
        jute_int(in);
        if (last && part == 2)
            return;
        if (last || op != (part == 0 ? ZK_OP_CHECK : ZK_OP_SET))
            abort(); /* the store makes no other */
        if (part == 0) {
            jute_text(in, txn->guard, sizeof txn->guard);
            jute_int(in); /* any version */
        } else {
            jute_text(in, txn->path, sizeof txn->path);
            txn->length = jute_text(in, txn->data, sizeof txn->data);
            txn->version = jute_int(in);
        }
    }
}

static void write_node(sim *s, unsigned wire, int32_t xid, int32_t op, jute_in *in)
{
    zk_peer *peer = wire_peer(s, wire);
    zk_txn txn = {.server = wire_server(s, wire),
                  .wire = wire,
                  .wire_version = peer->version,
                  .xid = xid,
                  .op = op,
                  .session = peer->session};
    bool sequential = false;
    if (op != ZK_OP_CLOSE && op != ZK_OP_MULTI)
        jute_text(in, txn.path, sizeof txn.path);
    switch (op) {
    case ZK_OP_MULTI:
        txn.kind = ZK_TXN_SET;
        take_parts(&txn, in);
        break;
    case ZK_OP_DELETE:
        txn.kind = ZK_TXN_DELETE;
        break;
    case ZK_OP_SET:
        txn.kind = ZK_TXN_ERROR; /* only ever with a version that there is not */
        txn.error = ZK_ERR_BAD_VERSION;
        break;
    case ZK_OP_CLOSE:
        txn.kind = ZK_TXN_CLOSE;
        break;
    default: {
        txn.kind = ZK_TXN_CREATE;
        txn.length = jute_text(in, txn.data, sizeof txn.data);
        take_acl(in);
        const int32_t flags = jute_int(in);
        txn.ephemeral = flags == 1 || flags == 3;
        txn.container = flags == 4;
        sequential = flags == 2 || flags == 3;
    }
    }
    peer->busy = true;
    writes_ask(s, txn.server, &txn, sequential);
}

static void sync_up(sim *s, unsigned wire, int32_t xid, jute_in *in)
{
    zk_peer *peer = wire_peer(s, wire);
    zk_txn asked = {
        .server = wire_server(s, wire), .wire = wire, .wire_version = peer->version, .xid = xid, .op = ZK_OP_SYNC};
    jute_text(in, asked.path, sizeof asked.path);
    peer->busy = true;
    writes_ask_sync(s, asked.server, &asked);
}

/* --- requests in order -------------------------------------------------------------------------------- */

/* Refused is told, and then the connection is closed. The session lives on. */
static void check_password(sim *s, unsigned wire, int32_t xid)
{
    const bool refused = s->now < zk_state_of(s)->refused_until[wire_process(s, wire)];
    jute_out out;
    begin_answer(s, wire, xid, refused ? ZK_ERR_AUTH_FAILED : 0, &out);
    say(s, wire, &out);
    if (refused)
        wire_drop(s, wire);
}

static void do_request(sim *s, unsigned wire, const zk_waiting *waiting)
{
    jute_in in = {waiting->data, waiting->data + waiting->length};
    const int32_t xid = jute_int(&in);
    const int32_t op = jute_int(&in);
    sim_tell(s, "process %u server %u op %d xid %d", wire_process(s, wire), wire_server(s, wire), op, xid);
    switch (op) {
    case ZK_OP_EXISTS:
    case ZK_OP_GET:
    case ZK_OP_CHILDREN:
        read_node(s, wire, xid, op, &in);
        break;
    case ZK_OP_SYNC:
        sync_up(s, wire, xid, &in);
        break;
    case ZK_OP_AUTH:
        check_password(s, wire, xid);
        break;
    case ZK_OP_CREATE:
    case ZK_OP_CREATE2:
    case ZK_OP_CREATE_CONTAINER:
    case ZK_OP_DELETE:
    case ZK_OP_SET:
    case ZK_OP_MULTI:
    case ZK_OP_CLOSE:
        write_node(s, wire, xid, op, &in);
        break;
    default:
        fprintf(stderr, "simba-sim: the model does not know the operation %d\n", op);
        abort();
    }
}

static void go_on(sim *s, unsigned wire, uint32_t version)
{
    for (zk_peer *peer = wire_peer(s, wire); peer && peer->version == version && peer->first && !peer->busy;
         peer = wire_peer(s, wire)) {
        do_request(s, wire, peer->first);
        peer = wire_peer(s, wire);
        if (peer && peer->version == version && !peer->busy)
            forget_first(peer);
    }
}

/* The first of its requests is done. */
static void done(sim *s, unsigned wire, zk_peer *peer)
{
    peer->busy = false;
    forget_first(peer);
    go_on(s, wire, peer->version);
}

/* The connection that asked, if it is still there. */
static zk_peer *asker(sim *s, const zk_txn *txn)
{
    zk_peer *peer = txn->wire ? wire_peer_at(s, txn->wire, txn->server) : NULL;
    return peer && peer->version == txn->wire_version ? peer : NULL;
}

void server_synced(sim *s, const zk_txn *asked)
{
    zk_peer *peer = asker(s, asked);
    jute_out out;
    if (!peer)
        return;
    begin_answer(s, asked->wire, asked->xid, 0, &out);
    jute_put_text(&out, asked->path, strlen(asked->path));
    say(s, asked->wire, &out);
    done(s, asked->wire, peer);
}

/* --- handshakes -------------------------------------------------------------------------------------- */

static void say_session(sim *s, unsigned wire, uint64_t session, int64_t timeout_ms)
{
    static const char password[16] = "simba";
    jute_out out;
    out.length = 0;
    jute_put_int(&out, 0);
    jute_put_int(&out, (int32_t)timeout_ms);
    jute_put_long(&out, (int64_t)session);
    jute_put_text(&out, password, sizeof password);
    jute_put_bool(&out, false);
    say(s, wire, &out);
}

static void greet(sim *s, unsigned wire, jute_in *in)
{
    zk_peer *peer = wire_peer(s, wire);
    const unsigned server = wire_server(s, wire);
    jute_int(in);
    const int64_t seen = jute_long(in);
    const int32_t timeout_ms = jute_int(in);
    const uint64_t session = (uint64_t)jute_long(in);
    peer->greeted = true;
    sim_tell(s, "greet process %u server %u session %llu seen %llx, has %llx", wire_process(s, wire), server,
             (unsigned long long)session, (unsigned long long)seen, (unsigned long long)ensemble_zxid(s, server));
    if (!ensemble_serves(s, server) || seen > ensemble_zxid(s, server)) {
        wire_drop(s, wire); /* it has no leader, or is behind what the client has seen */
        return;
    }
    if (session) {
        const int64_t granted_ms = ensemble_validate(s, server, session);
        if (granted_ms < 0)
            return;                             /* nobody answers */
        server_end_session(s, server, session); /* an earlier connection to this server */
        peer->session = granted_ms ? session : 0;
        say_session(s, wire, peer->session, granted_ms);
        if (!granted_ms)
            wire_drop(s, wire);
        return;
    }
    zk_txn txn = {.kind = ZK_TXN_OPEN,
                  .server = server,
                  .wire = wire,
                  .wire_version = peer->version,
                  .op = ZK_OP_OPEN,
                  .ctime_ms = timeout_ms};
    peer->busy = true;
    writes_ask(s, server, &txn, false);
}

static void opened_session(sim *s, const zk_txn *txn, zk_peer *peer)
{
    peer->session = txn->session;
    peer->busy = false;
    /* A server tells of the session that it has made, also if that has ended meanwhile: the client learns it afterwards. */
    (void)ensemble_validate(s, txn->server, txn->session);
    say_session(s, txn->wire, txn->session, txn->ctime_ms);
    go_on(s, txn->wire, peer->version);
}

static void put_result(jute_out *out, int32_t type, bool last, int32_t error)
{
    jute_put_int(out, type);
    jute_put_bool(out, last);
    jute_put_int(out, error);
}

/* What failed says why, those before it nothing, those after it that they were not tried. */
static void answer_parts(sim *s, const zk_txn *txn, jute_out *out)
{
    enum { NOT_TRIED = -2 };
    begin_answer(s, txn->wire, txn->xid, 0, out);
    for (unsigned part = 0; part < 2; part++) {
        const int32_t error = part == txn->failed ? txn->error : part < txn->failed ? 0 : NOT_TRIED;
        if (txn->error) {
            put_result(out, -1, false, error);
            jute_put_int(out, error);
            continue;
        }
        put_result(out, part == 0 ? ZK_OP_CHECK : ZK_OP_SET, false, 0);
        if (part == 1)
            put_stat(out, tree_of(s, txn->wire), tree_find(tree_of(s, txn->wire), txn->path));
    }
    put_result(out, -1, true, -1);
}

void server_applied(sim *s, unsigned server, const zk_txn *txn)
{
    zk_peer *peer = server == txn->server ? asker(s, txn) : NULL;
    jute_out out;
    if (!peer)
        return;
    if (txn->kind == ZK_TXN_OPEN) {
        opened_session(s, txn, peer);
        return;
    }
    if (txn->error == ZK_ERR_MOVED || txn->error == ZK_ERR_EXPIRED) {
        wire_drop(s, txn->wire);
        return;
    }
    begin_answer(s, txn->wire, txn->xid, txn->error, &out);
    if (txn->kind == ZK_TXN_SET)
        answer_parts(s, txn, &out);
    if (!txn->error && txn->kind == ZK_TXN_CREATE) {
        jute_put_text(&out, txn->path, strlen(txn->path));
        const zk_znode *node = tree_find(tree_of(s, txn->wire), txn->path);
        if (txn->op != ZK_OP_CREATE && node)
            put_stat(&out, tree_of(s, txn->wire), node);
    }
    say(s, txn->wire, &out);
    if (txn->kind == ZK_TXN_CLOSE)
        wire_drop(s, txn->wire);
    else
        done(s, txn->wire, peer);
}

/* --- packets ----------------------------------------------------------------------------------------- */

static void take_packet(sim *s, unsigned wire, const char *data, size_t length)
{
    zk_peer *peer = wire_peer(s, wire);
    jute_in in = {data, data + length};
    if (!peer->greeted) {
        greet(s, wire, &in);
        return;
    }
    if (!ensemble_touch(s, wire_server(s, wire), peer->session)) {
        wire_drop(s, wire);
        return;
    }
    zk_waiting *waiting = malloc(sizeof *waiting + length);
    if (!waiting)
        abort();
    waiting->next = NULL;
    waiting->length = length;
    memcpy(waiting->data, data, length);
    *peer->last = waiting;
    peer->last = &waiting->next;
    go_on(s, wire, peer->version);
}

void server_bytes(sim *s, unsigned wire, const char *data, size_t length)
{
    zk_peer *peer = wire_peer(s, wire);
    const uint32_t version = peer->version;
    if (!(peer->in = realloc(peer->in, peer->length + length)))
        abort();
    memcpy(peer->in + peer->length, data, length);
    peer->length += length;
    while (peer && peer->version == version && peer->length >= 4) {
        jute_in in = {peer->in, peer->in + peer->length};
        const size_t size = (size_t)jute_int(&in);
        if (peer->length < 4 + size)
            return;
        char *packet = malloc(size + 1);
        if (!packet)
            abort();
        memcpy(packet, peer->in + 4, size);
        peer->length -= 4 + size;
        memmove(peer->in, peer->in + 4 + size, peer->length);
        take_packet(s, wire, packet, size);
        free(packet);
        peer = wire_peer_at(s, wire, wire_server(s, wire));
    }
}
