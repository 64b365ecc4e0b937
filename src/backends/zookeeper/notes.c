/* One transaction fences a write: it checks that the child by which the holder leads is still there, and that the note
 * is the one that was read. The first check keeps out everybody who no longer holds the mutex: a child that has led
 * leads until it goes. The second keeps the writes of one holder in order: a write that the server carries out late,
 * after its connection was lost, finds another version. */
#include "backends/zookeeper/notes.h"

#include <string.h>

#include "backends/zookeeper/stored_note.h"
#include "util/mem.h"

enum { MAKING_MAX = 5 }; /* how often to make a node that is missing again */

char *simba__zk_note_path(const zk_ops *ops, const char *mutex)
{
    char *name = simba__zk_note_name(mutex);
    char *path = name ? simba__zk_child_path(ops->session->options->notes, name) : NULL;
    simba__free(name);
    return path;
}

/* The first member of each procedure about a note. */
struct noting {
    zk_op op; /* first */
    char *path;
};

static void *noting_new(zk_ops *ops, const zk_procedure *procedure, size_t size, simba_request *request)
{
    struct noting *noting = simba__zk_op_new(ops, procedure, size, request);
    if (!noting)
        return NULL;
    noting->path = simba__zk_note_path(ops, request->mutex);
    if (noting->path)
        return noting;
    simba__zk_op_fail(&noting->op, SIMBA_ENOMEM, "out of memory");
    return NULL;
}

static void noting_fini(zk_op *op)
{
    simba__free(((struct noting *)op)->path);
}

/* The server's clock shows this time, or a later one. */
static void heed_clock(const zk_op *op, int64_t ms)
{
    if (ms > simba__zk_session_now_ms(op->ops->session))
        simba__zk_session_clock(op->ops->session, ms);
}

/* --- WRITE_NOTE ------------------------------------------------------------------------------------------------- */

/* The purpose of the calls of the step under way. */
typedef enum writing_step {
    WRITING_READ,  /* read the present note */
    WRITING_MAKE,  /* make the node, which was missing */
    WRITING_WRITE, /* write the note */
} writing_step;

/* The outcome of the transaction. */
typedef enum writing_end {
    WRITING_DONE,
    WRITING_CHILD_GONE, /* the writer holds the mutex no longer */
    WRITING_CHANGED,    /* the note is not the one that was read */
} writing_end;

struct writing {
    struct noting noting; /* first */
    zk_nodes *nodes;
    writing_step step;
    writing_end end;
    bool missing, refused; /* there is no node; it could not be made */
    unsigned makings;
    zk_stored_note seen; /* without its bytes */
    int version;
};

static struct writing *of(zk_op *op)
{
    return (struct writing *)op;
}

/* The child by which this request's contender leads; NULL: it does not. */
static zk_node *leading(const struct writing *w, const simba_request *request)
{
    zk_node *node = simba__zk_node_find(w->nodes, request);
    const bool leads = node && node->latch.place == ZK_LEADS && !node->latch.unwanted;
    return leads && (uint64_t)node->latch.czxid == request->token ? node : NULL;
}

static void refuse(struct writing *w)
{
    zk_op *op = &w->noting.op;
    const zk_node *node = simba__zk_node_find(w->nodes, op->request);
    const bool revoked = node && node->latch.place == ZK_REVOKED && (uint64_t)node->latch.czxid == op->request->token;
    simba__zk_op_complete(op, revoked ? SIMBA_REVOKED : SIMBA_NOT_MINE, NULL);
}

static void was_read(zk_op *op, const zk_result *result)
{
    struct writing *w = of(op);
    w->missing = result->rc == ZNONODE;
    if (result->rc == ZOK) {
        /* Another program has written this note: it may be replaced. */
        if (!simba__zk_stored_note_read(result->text, result->length > 0 ? (size_t)result->length : 0, &w->seen))
            w->seen = (zk_stored_note){0};
        w->version = result->stat->version;
    } else if (!w->missing) {
        simba__zk_op_note(op, result->rc);
    }
}

static void was_made(zk_op *op, const zk_result *result)
{
    if (result->rc == ZNOAUTH)
        of(op)->refused = true; /* the node may be there all the same */
    else if (result->rc != ZOK && result->rc != ZNODEEXISTS && result->rc != ZNONODE)
        simba__zk_op_note(op, result->rc);
}

static void was_written(zk_op *op, const zk_result *result)
{
    struct writing *w = of(op);
    if (result->rc == ZOK) {
        w->end = WRITING_DONE;
        heed_clock(op, result->stat->mtime);
    } else if (result->rc == ZNONODE && result->failed == 0) {
        w->end = WRITING_CHILD_GONE;
    } else if (result->rc == ZNONODE || result->rc == ZBADVERSION) {
        w->end = WRITING_CHANGED;
    } else {
        simba__zk_op_note(op, result->rc);
    }
}

/* An empty stored note is no note, so anybody may make it. That gives the transaction one form, whether there was a
 * note or not. */
static void make_node(struct writing *w)
{
    zk_op *op = &w->noting.op;
    char data[ZK_STORED_NOTE_MAX];
    const size_t length = simba__zk_stored_note_write(&(zk_stored_note){0}, data);
    w->step = WRITING_MAKE;
    w->refused = false;
    for (const char *slash = strchr(w->noting.path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        char *folder = simba__strdup(w->noting.path);
        if (!folder) {
            simba__zk_op_note(op, ZK_NO_MEMORY);
            break;
        }
        folder[slash - w->noting.path] = '\0';
        simba__zk_call_keep(op, folder, "", 0, was_made);
        simba__free(folder);
    }
    simba__zk_call_keep(op, w->noting.path, data, length, was_made);
    simba__zk_op_go(op);
}

static void write_stored(struct writing *w, const zk_node *node)
{
    zk_op *op = &w->noting.op;
    const simba_request *request = op->request;
    const zk_stored_note stored = {request->token, request->note_number, request->note, request->note_size};
    char data[ZK_STORED_NOTE_MAX];
    const size_t length = simba__zk_stored_note_write(&stored, data);
    char *child = simba__zk_child_path(node->queue->path, node->latch.name);
    w->step = WRITING_WRITE;
    if (child)
        simba__zk_call_both(op,
                            (const zk_change[]){{.kind = ZK_CHECK, .path = child, .version = -1},
                                                {ZK_SET, w->noting.path, w->version, data, length}},
                            was_written);
    else
        simba__zk_op_note(op, ZK_NO_MEMORY);
    simba__free(child);
    simba__zk_op_go(op);
}

static void complete_write(struct writing *w, const zk_node *node)
{
    const simba_owner own = simba__zk_owner(node->id, node->latch.czxid, node->latch.ctime_ms);
    simba__zk_op_complete(&w->noting.op, SIMBA_MINE, &own);
}

/* The child of a holder is gone. The holder may not know it yet: have it ask. */
static void tell_holder(const struct writing *w)
{
    const simba_request *request = w->noting.op.request;
    simba_host *host = w->noting.op.ops->session->host;
    host->push_to(host, request->mutex, request->nonce, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
}

static void read_on(struct writing *w, const zk_node *node)
{
    zk_op *op = &w->noting.op;
    if (w->missing && w->makings++ < MAKING_MAX && !w->refused)
        make_node(w);
    else if (w->missing)
        simba__zk_op_fail(op, w->refused ? SIMBA_EPERM : SIMBA_ESTORE, "cannot make a node below %s: %s",
                          op->ops->session->options->notes, w->refused ? "no permission" : "it goes again each time");
    else if (simba__zk_stored_note_is_of(&w->seen, op->request))
        complete_write(w, node); /* an earlier write was carried out, and its answer was lost */
    else if (simba__zk_stored_note_is_later(&w->seen, op->request))
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
    else
        write_stored(w, node);
}

static void write_on(zk_op *op)
{
    struct writing *w = of(op);
    const zk_node *node = leading(w, op->request);
    if (!simba__zk_op_good(op))
        return;
    if (w->step == WRITING_WRITE && w->end == WRITING_CHILD_GONE) {
        tell_holder(w);
        simba__zk_op_complete(op, SIMBA_REVOKED, NULL);
    } else if (w->step == WRITING_WRITE && w->end == WRITING_DONE && node) {
        complete_write(w, node);
    } else if (w->step == WRITING_WRITE && w->end == WRITING_DONE) {
        simba__zk_op_complete(op, SIMBA_MINE, NULL); /* the contender has left meanwhile */
    } else if (!node) {
        refuse(w);
    } else if (w->step == WRITING_READ) {
        read_on(w, node);
    } else {
        simba__zk_op_start(op); /* look again */
    }
}

static void write_note(zk_op *op)
{
    struct writing *w = of(op);
    if (!leading(w, op->request)) {
        refuse(w);
        return;
    }
    w->step = WRITING_READ;
    simba__zk_call_get(op, w->noting.path, NULL, NULL, was_read);
    simba__zk_op_go(op);
}

static const zk_procedure writing = {.run = write_note, .step = write_on, .fini = noting_fini};

void simba__zk_write_note(zk_nodes *nodes, simba_request *request)
{
    struct writing *w = noting_new(nodes->ops, &writing, sizeof *w, request);
    if (!w)
        return;
    w->nodes = nodes;
    if (leading(w, request))
        simba__zk_op_start(&w->noting.op);
    else
        refuse(w); /* also if there is no connection */
}

/* --- READ_NOTE -------------------------------------------------------------------------------------------------- */

struct reading {
    struct noting noting; /* first */
    bool corrupt;
    int rc; /* of the host */
};

static void hand_over(zk_op *op, const zk_result *result)
{
    struct reading *r = (struct reading *)op;
    simba_host *host = op->ops->session->host;
    zk_stored_note stored;
    r->corrupt = !simba__zk_stored_note_read(result->text, result->length > 0 ? (size_t)result->length : 0, &stored);
    heed_clock(op, result->stat->mtime);
    if (!r->corrupt && stored.size > 0 && op->request && op->error == 0)
        r->rc = host->noted(host, op->request,
                            &(simba_stored_note){stored.bytes, stored.size, stored.token, result->stat->mtime});
}

static void note_read(zk_op *op, const zk_result *result)
{
    if (result->rc == ZOK)
        hand_over(op, result);
    else if (result->rc != ZNONODE)
        simba__zk_op_note(op, result->rc);
}

static void read_note_on(zk_op *op)
{
    const struct reading *r = (struct reading *)op;
    if (!simba__zk_op_good(op))
        return;
    if (r->corrupt)
        simba__zk_op_fail(op, SIMBA_ECORRUPT, "%s is not a note of this library; remove it, or have the holder write",
                          r->noting.path);
    else if (r->rc < 0)
        simba__zk_op_fail(op, r->rc, "the note at %s cannot be taken", r->noting.path);
    else
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
}

/* First have the servers agree on a write, so that nobody answers with the past: neither a server that lags behind, nor
 * a leader that the others have replaced without its knowledge, which would answer a sync. */
static void read_note(zk_op *op)
{
    struct reading *r = (struct reading *)op;
    r->corrupt = false;
    r->rc = 0;
    simba__zk_call_agree(op);
    simba__zk_call_get(op, r->noting.path, NULL, NULL, note_read);
    simba__zk_op_go(op);
}

static const zk_procedure reading = {.run = read_note, .step = read_note_on, .fini = noting_fini};

void simba__zk_read_note(zk_ops *ops, simba_request *request)
{
    struct reading *r = noting_new(ops, &reading, sizeof *r, request);
    if (r)
        simba__zk_op_start(&r->noting.op);
}
