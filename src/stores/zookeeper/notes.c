/* WRITE_NOTE, READ_NOTE and FORGET.
 *
 * The note of a mutex is a node of its own, in a folder beside that of the mutexes: the node of a mutex vanishes with its last
 * contender, and contenders on the JVM take every child of it for a contender.
 *
 * One transaction fences a write: it checks that the child by which the holder leads is still there, and that the note is the one
 * that was read. The first check keeps out everybody who no longer holds the mutex: a child that has led leads until it goes.
 * The second keeps the writes of one holder in order: a write that the server carries out late, after its connection was
 * lost, finds another version. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/assert.h"
#include "util/digits.h"
#include "util/mem.h"

char *simba__zk_note_path(const zk_store *store, const char *mutex)
{
    char *name = simba__zk_note_name(mutex);
    char *path = name ? simba__zk_child_path(store->options.notes, name) : NULL;
    simba__free(name);
    return path;
}

/* --- a note as it is stored --------------------------------------------------------------------------------- */

#define VERSION "1 "

bool simba__zk_stored_note_read(const char *data, size_t length, zk_stored_note *ret_note)
{
    const size_t version = strlen(VERSION);
    zk_stored_note note = {0};
    if (length > ZK_STORED_NOTE_MAX || length < version || memcmp(data, VERSION, version) != 0)
        return false; /* a node without data may have no bytes at all */
    const char *end = data + length;
    const char *at = simba__digits_read(data + version, end, ' ', &note.token);
    at = at ? simba__digits_read(at, end, '\n', &note.number) : NULL;
    if (!at || end - at > SIMBA_NOTE_MAX || (note.token == 0 && at < end))
        return false;
    note.bytes = at;
    note.size = (size_t)(end - at);
    *ret_note = note;
    return true;
}

size_t simba__zk_stored_note_write(const zk_stored_note *note, char ret_data[ZK_STORED_NOTE_MAX])
{
    SIMBA__ASSERT(note->size <= SIMBA_NOTE_MAX);
    const int head =
        snprintf(ret_data, ZK_STORED_NOTE_MAX, VERSION "%" PRIu64 " %" PRIu64 "\n", note->token, note->number);
    SIMBA__ASSERT(head > 0 && (size_t)head + note->size <= ZK_STORED_NOTE_MAX);
    if (note->size > 0)
        memcpy(ret_data + head, note->bytes, note->size);
    return (size_t)head + note->size;
}

int simba__zk_stored_note_order(const zk_stored_note *note, const simba_request *request)
{
    if (note->token != request->token)
        return note->token < request->token ? -1 : 1;
    return note->number < request->note_number ? -1 : note->number > request->note_number;
}

/* The server's clock shows this time, or a later one. */
static void heed_clock(zk_store *store, int64_t ms)
{
    if (ms > simba__zk_now_ms(store))
        simba__zk_heed_clock(store, ms);
}

/* --- the procedures ----------------------------------------------------------------------------------------- */

enum { MAKING_MAX = 5 }; /* how often to make a node that is missing again */

typedef struct zk_noting {
    zk_op op; /* first */
    char *note;
    /* What the node of the note is. */
    bool missing;
    int32_t version;
    zk_stored_note seen; /* without its bytes */
    bool tried;          /* to change it, since it was looked at */
    /* WRITE_NOTE */
    unsigned makings;
    bool refused;       /* the node could not be made */
    bool written, gone; /* the transaction was carried out; it was not, because the writer's child is gone */
    /* READ_NOTE */
    bool corrupt;
    int rc; /* of the host */
    /* FORGET */
    char *mutex;
    bool is_node, is_shared; /* the mutex has a node; other mutexes are below it */
    bool led, vanished, removed;
    simba_owner owner;
} zk_noting;

static zk_noting *of(zk_op *op)
{
    return (zk_noting *)op;
}

static void fini(zk_op *op)
{
    simba__free(of(op)->note);
    simba__free(of(op)->mutex);
}

static zk_noting *noting_new(zk_store *store, const zk_kind *kind, simba_request *request)
{
    zk_noting *n = simba__zk_op_new(store, kind, sizeof *n, request);
    if (!n)
        return NULL;
    n->note = simba__zk_note_path(store, request->mutex);
    n->mutex = simba__zk_child_path(store->options.root, request->mutex);
    if (n->note && n->mutex)
        return n;
    simba__zk_fail_by(&n->op, ZK_NO_MEMORY);
    simba__zk_op_end(&n->op);
    return NULL;
}

/* --- WRITE_NOTE --------------------------------------------------------------------------------------------- */

static void was_read(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_noting *n = of(op);
    (void)call;
    n->missing = result->error == ZK_NO_NODE;
    n->version = result->stat.version;
    /* Another program may have written this note: it may be replaced. */
    if (result->error || !simba__zk_stored_note_read(result->text, result->length, &n->seen))
        n->seen = (zk_stored_note){0};
    if (!n->missing)
        simba__zk_op_note(op, result->error);
}

static void was_made(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    if (result->error == ZK_NO_AUTH)
        of(op)->refused = true; /* the node may be there anyway */
    else if (result->error != ZK_NODE_EXISTS && result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
}

static void was_written(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_noting *n = of(op);
    (void)call;
    n->written = result->error == ZK_OK;
    n->gone = result->error == ZK_NO_NODE && result->failed == 0;
    if (n->written)
        heed_clock(op->store, result->stat.mtime_ms);
    else if (result->error != ZK_NO_NODE && result->error != ZK_BAD_VERSION) /* otherwise the note has changed */
        simba__zk_op_note(op, result->error);
}

static void write_begin(zk_op *op)
{
    zk_noting *n = of(op);
    n->tried = n->written = n->gone = false;
    simba__zk_call(op, was_read, ZK_GET, n->note, NULL, false);
    simba__zk_op_go(op);
}

/* An empty stored note is no note, so anybody may make it. That gives the transaction one form, whether there was a note or not. */
static void make_note(zk_noting *n)
{
    zk_store *store = n->op.store;
    char data[ZK_STORED_NOTE_MAX];
    const size_t length = simba__zk_stored_note_write(&(zk_stored_note){0}, data);
    n->refused = false;
    simba__zk_call_parents(&n->op, was_made, ZK_CREATE, store->options.notes);
    simba__zk_ask(
        &n->op, was_made,
        &(zk_request){.type = ZK_CREATE, .path = n->note, .data = data, .length = length, .acl = store->options.acl});
    simba__zk_call(&n->op, was_read, ZK_GET, n->note, NULL, false);
}

static void set_note(zk_noting *n, const zk_contender *c)
{
    const simba_request *request = n->op.request;
    char data[ZK_STORED_NOTE_MAX];
    char *child = simba__zk_child_path(n->mutex, c->name);
    const zk_stored_note stored = {request->token, request->note_number, request->note, request->note_size};
    const size_t length = simba__zk_stored_note_write(&stored, data);
    if (!child) {
        simba__zk_op_note(&n->op, ZK_NO_MEMORY);
        return;
    }
    const zk_request parts[] = {
        {.type = ZK_CHECK, .path = child, .version = -1},
        {.type = ZK_SET, .path = n->note, .data = data, .length = length, .version = n->version}};
    simba__zk_ask(&n->op, was_written, &(zk_request){.type = ZK_MULTI, .path = n->note, .parts = parts});
    simba__free(child);
}

/* What happens to a request of somebody who does not hold the mutex under its token. */
static void refuse(zk_op *op)
{
    const bool revoked = simba__zk_was_revoked(simba__zk_contender_find(op->store, op->request), op->request);
    simba__zk_finish(op, revoked ? SIMBA_REVOKED : SIMBA_NOT_MINE, NULL);
}

/* The note was read, or made and read, or written. */
static void write_step(zk_op *op)
{
    zk_noting *n = of(op);
    simba_request *request = op->request;
    const zk_contender *c = simba__zk_contender_find(op->store, request);
    const bool holds = simba__zk_holds(c, request);
    const int order = simba__zk_stored_note_order(&n->seen, request);
    if (n->gone) {
        /* The holder may not know it yet: have it ask. */
        op->store->host->push_to(op->store->host, request->mutex, request->nonce,
                                 &(simba_push){.kind = SIMBA_PUSH_CHANGED});
        simba__zk_finish(op, SIMBA_REVOKED, NULL);
    } else if (n->written ||
               (holds && !n->missing && !n->tried && order == 0)) { /* or it was, and the answer was lost */
        const simba_owner self = holds ? simba__zk_self(c) : (simba_owner){0};
        simba__zk_finish(op, SIMBA_MINE, holds ? &self : NULL);
    } else if (!holds) {
        refuse(op);
    } else if (n->tried) {
        write_begin(op); /* the note is not the one that was read */
    } else if (n->missing && (n->refused || n->makings++ == MAKING_MAX)) {
        simba__zk_fail_by(op, n->refused ? ZK_REFUSED : ZK_VANISHES);
        simba__zk_op_end(op);
    } else if (n->missing) {
        make_note(n);
        simba__zk_op_go(op);
    } else if (order > 0) {
        simba__zk_finish(op, SIMBA_NOT_MINE, NULL);
    } else {
        n->tried = true;
        set_note(n, c);
        simba__zk_op_go(op);
    }
}

static const zk_kind writing = {.begin = write_begin, .step = write_step, .fini = fini};

void simba__zk_write_note(zk_store *store, simba_request *request)
{
    zk_noting *n = noting_new(store, &writing, request);
    if (n && simba__zk_holds(simba__zk_contender_find(store, request), request))
        simba__zk_op_start(&n->op);
    else if (n)
        refuse(&n->op); /* also if there is no connection */
}

/* --- READ_NOTE ---------------------------------------------------------------------------------------------- */

static void note_shown(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_noting *n = of(op);
    simba_host *host = op->store->host;
    zk_stored_note stored;
    (void)call;
    if (result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
    if (result->error || op->error || !op->request)
        return;
    n->corrupt = !simba__zk_stored_note_read(result->text, result->length, &stored);
    heed_clock(op->store, result->stat.mtime_ms);
    if (!n->corrupt && stored.size > 0 && !op->expired)
        n->rc = host->noted(host, op->request,
                            &(simba_stored_note){stored.bytes, stored.size, stored.token, result->stat.mtime_ms});
}

/* First have the servers agree on a write, so that nobody answers with the past: neither a server that lags behind, nor a leader that
 * the others have replaced without its knowledge, which would answer a sync. */
static void read_begin(zk_op *op)
{
    of(op)->corrupt = false;
    of(op)->rc = 0;
    simba__zk_call_agree(op);
    simba__zk_call(op, note_shown, ZK_GET, of(op)->note, NULL, false);
    simba__zk_op_go(op);
}

static void read_step(zk_op *op)
{
    const zk_noting *n = of(op);
    if (n->corrupt)
        simba__zk_fail(op, SIMBA_ECORRUPT, "%s is not a note of this library; remove it, or have the holder write",
                       n->note);
    else if (n->rc < 0)
        simba__zk_fail(op, n->rc, "the note at %s cannot be taken", n->note);
    simba__zk_finish(op, SIMBA_NOT_MINE, NULL);
}

static const zk_kind reading = {.begin = read_begin, .step = read_step, .fini = fini};

void simba__zk_read_note(zk_store *store, simba_request *request)
{
    zk_noting *n = noting_new(store, &reading, request);
    if (n)
        simba__zk_op_start(&n->op);
}

/* --- FORGET ------------------------------------------------------------------------------------------------- */

/* One transaction removes the node of a mutex and its note. The server does not remove a node that has children, so nobody can have
 * entered meanwhile. If the node has vanished already, as it does when it has been empty for a while, FORGET first makes it again
 * for that purpose. If other mutexes lie below the node ("a/b" below "a"), the node must stay: then FORGET removes only the
 * note, in the version that it has seen; a contender that enters just then may find the note gone. Tokens are numbers of
 * the ensemble's transactions, which only grow, whatever is removed. */
static void owner_read(zk_op *op, const zk_call *call, zk_result *result)
{
    of(op)->vanished = result->error == ZK_NO_NODE;
    if (result->error == ZK_OK)
        of(op)->owner = simba__zk_owner_of(call, result);
    else if (!of(op)->vanished)
        simba__zk_op_note(op, result->error);
}

static void forget_listed(zk_op *op, const zk_call *call, zk_result *result)
{
    zk_noting *n = of(op);
    (void)call;
    n->is_node = result->error == ZK_OK;
    n->is_shared = result->count > result->contenders;
    n->led = result->contenders > 0;
    if (result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
    if (n->led)
        simba__zk_call(op, owner_read, ZK_GET, n->mutex, result->names[0], false);
}

static void note_found(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    of(op)->missing = result->error == ZK_NO_NODE;
    of(op)->version = result->stat.version;
    if (result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
}

static void forget_made(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    if (result->error != ZK_NODE_EXISTS && result->error != ZK_NO_NODE)
        simba__zk_op_note(op, result->error);
}

static void was_removed(zk_op *op, const zk_call *call, zk_result *result)
{
    (void)call;
    of(op)->removed = result->error == ZK_OK;
    if (result->error != ZK_NOT_EMPTY && result->error != ZK_NO_NODE && result->error != ZK_BAD_VERSION)
        simba__zk_op_note(op, result->error); /* otherwise the nodes have changed: look again */
}

static void forget_look(zk_op *op)
{
    zk_noting *n = of(op);
    n->tried = n->vanished = false;
    simba__zk_call_sync(op);
    simba__zk_call(op, forget_listed, ZK_CHILDREN, n->mutex, NULL, false);
    simba__zk_call(op, note_found, ZK_EXISTS, n->note, NULL, false);
    simba__zk_op_go(op);
}

static void forget_begin(zk_op *op)
{
    of(op)->removed = false;
    forget_look(op);
}

static void forget_step(zk_op *op)
{
    zk_noting *n = of(op);
    const zk_request parts[] = {{.type = n->is_shared ? ZK_CHECK : ZK_DELETE, .path = n->mutex, .version = -1},
                                {.type = ZK_DELETE, .path = n->note, .version = n->version}};
    if (n->removed) {
        simba__zk_finish(op, SIMBA_MINE, NULL);
    } else if (n->tried || n->vanished) { /* what was to be removed has changed, or is there now */
        forget_look(op);
    } else if (n->led) {
        simba__zk_finish(op, SIMBA_NOT_MINE, &n->owner);
    } else if (n->missing && (!n->is_node || n->is_shared)) {
        simba__zk_finish(op, SIMBA_NOT_MINE, NULL); /* there is no such mutex */
    } else {
        n->tried = true;
        if (!n->is_node)
            simba__zk_call_parents(op, forget_made, ZK_CREATE_CONTAINER, n->mutex);
        else if (n->missing)
            simba__zk_call(op, was_removed, ZK_DELETE, n->mutex, NULL, false);
        else
            simba__zk_ask(op, was_removed, &(zk_request){.type = ZK_MULTI, .path = n->note, .parts = parts});
        simba__zk_op_go(op);
    }
}

static const zk_kind forgetting = {.begin = forget_begin, .step = forget_step, .fini = fini};

void simba__zk_forget(zk_store *store, simba_request *request)
{
    zk_noting *n = noting_new(store, &forgetting, request);
    if (n)
        simba__zk_op_start(&n->op);
}
