/* WRITE_NOTE and READ_NOTE.
 *
 * One transaction fences a write: it checks that the key by which the holder leads still has the holder's create_revision, and that the
 * note is the one that was read. The first check keeps out everybody who no longer holds the mutex: a key that has led leads until it
 * goes. The second keeps the writes of one holder in order: a write that etcd carries out late finds another mod_revision. If the answer
 * to a write is lost, the note tells whether it was carried out. */
#include <string.h>

#include "stores/etcd/etcd.h"

enum { ROUNDS_MOST = 16 };

typedef struct etcd_noting {
    etcd_op op; /* first */
    etcd_names names;
    unsigned rounds;
} etcd_noting;

static etcd_noting *of(etcd_op *op)
{
    return (etcd_noting *)op;
}

static void on_seen(etcd_op *op, const etcd_answer *answer);

static void read_note(etcd_noting *n, etcd_answered *answered)
{
    n->op.body.length = 0;
    simba__json_put(&n->op.body, "{");
    simba__etcd_put_key(&n->op.body, n->names.note);
    simba__json_put(&n->op.body, "}");
    simba__etcd_call(&n->op, "/v3/kv/range", answered);
}

/* The note in an answer, or zeroes. False: the answer is none of etcd's. *ret_corrupt: it is not a note of this library. */
static bool take_note(const etcd_answer *answer, char data[ETCD_STORED_NOTE_MAX + 1], etcd_note *ret_note,
                      uint64_t *ret_mod, bool *ret_corrupt)
{
    simba__json element = {0};
    uint64_t revision, term;
    size_t length;
    etcd_kv kv;
    *ret_note = (etcd_note){0};
    *ret_mod = 0;
    *ret_corrupt = false;
    if (!simba__etcd_read_header(answer->json, &revision, &term))
        return false;
    if (!simba__json_next(simba__json_get(answer->json, "kvs"), &element))
        return true;
    if (!simba__etcd_read_kv(element, &kv))
        return false;
    *ret_mod = kv.mod_revision;
    *ret_corrupt = !simba__json_base64(kv.value, data, ETCD_STORED_NOTE_MAX + 1, &length) ||
                   !simba__etcd_note_read(data, length, ret_note);
    return true;
}

static void revoked(etcd_op *op)
{
    const simba_request *request = op->request;
    /* The holder may not know it yet: have it ask. */
    op->store->host->push_to(op->store->host, request->mutex, request->nonce,
                             &(simba_push){.kind = SIMBA_PUSH_CHANGED});
    simba__etcd_finish(op, SIMBA_REVOKED, NULL);
}

static void on_written(etcd_op *op, const etcd_answer *answer)
{
    etcd_noting *n = of(op);
    bool more;
    simba__json element = {0};
    if (!simba__etcd_good(op, answer))
        return;
    if (simba__json_bool(simba__json_get(answer->json, "succeeded"))) {
        const etcd_contender *c = simba__etcd_contender_find(op->store, op->request);
        const simba_owner none = {0};
        simba_owner own = {.ttl_at_ms = INT64_MAX, .transition_at_ms = INT64_MAX, .token = op->request->token};
        strcpy(own.id, op->request->id);
        simba__etcd_finish(op, SIMBA_MINE, c ? &own : &none);
    } else if (!simba__json_next(simba__etcd_response_kvs(answer->json, 0, &more), &element)) {
        revoked(op); /* our key is gone */
    } else if (n->rounds++ < ROUNDS_MOST) {
        read_note(n, on_seen); /* the note is not the one that was read */
    } else {
        simba__etcd_fail(op, SIMBA_ESTORE, "the note changes each time");
        simba__etcd_op_end(op);
    }
}

static void write_note(etcd_noting *n, const etcd_contender *c, uint64_t mod)
{
    const simba_request *request = n->op.request;
    simba__buffer *out = &n->op.body;
    char data[ETCD_STORED_NOTE_MAX];
    char text[SIMBA__BASE64_SIZE(ETCD_STORED_NOTE_MAX)];
    const size_t length = simba__etcd_note_write(&(etcd_note){.token = request->token,
                                                              .number = request->note_number,
                                                              .written_at_ms = simba__etcd_now_ms(n->op.store),
                                                              .bytes = request->note,
                                                              .size = request->note_size},
                                                 data);
    out->length = 0;
    simba__json_put(out, "{'compare':[{");
    simba__etcd_put_key(out, c->names.own);
    simba__json_put(out, ",'target':'CREATE','result':'EQUAL','create_revision':'%lld'},{", (long long)request->token);
    simba__etcd_put_key(out, n->names.note);
    simba__json_put(out, ",'target':'MOD','result':'EQUAL','mod_revision':'%lld'}],'success':[{'request_put':{",
                    (long long)mod);
    simba__etcd_put_key(out, n->names.note);
    simba__json_put(out, ",'value':%s}}],'failure':[{'request_range':{", simba__base64(data, length, text));
    simba__etcd_put_key(out, c->names.own);
    simba__json_put(out, "}}]}");
    simba__etcd_call(&n->op, "/v3/kv/txn", on_written);
}

/* What happens to a request of somebody who does not hold the mutex under its token. */
static void refuse(etcd_op *op)
{
    const etcd_contender *c = simba__etcd_contender_find(op->store, op->request);
    const bool removed = c && c->queue.place == ETCD_GONE && c->queue.revision == op->request->token;
    simba__etcd_finish(op, removed ? SIMBA_REVOKED : SIMBA_NOT_MINE, NULL);
}

static void on_seen(etcd_op *op, const etcd_answer *answer)
{
    const simba_request *request = op->request;
    char data[ETCD_STORED_NOTE_MAX + 1];
    etcd_note note;
    uint64_t mod;
    bool corrupt; /* another program may have written it: it may be replaced */
    if (!simba__etcd_good(op, answer))
        return;
    const etcd_contender *c = simba__etcd_contender_find(op->store, request);
    if (!take_note(answer, data, &note, &mod, &corrupt)) {
        simba__etcd_malformed(op);
    } else if (!simba__etcd_holds(c, request)) {
        refuse(op);
    } else if (note.token > request->token || (note.token == request->token && note.number > request->note_number)) {
        simba__etcd_finish(op, SIMBA_NOT_MINE, NULL);
    } else if (note.token == request->token && note.number == request->note_number) {
        simba_owner own = {.ttl_at_ms = INT64_MAX, .transition_at_ms = INT64_MAX, .token = request->token};
        strcpy(own.id, request->id);
        simba__etcd_finish(op, SIMBA_MINE, &own); /* an earlier attempt was carried out */
    } else {
        write_note(of(op), c, mod);
    }
}

static etcd_noting *noting_new(etcd_store *store, simba_request *request)
{
    etcd_noting *n = simba__etcd_op_new(store, sizeof *n, request);
    if (n)
        simba__etcd_names(store->options.prefix, request->mutex, &n->names);
    return n;
}

void simba__etcd_write_note(etcd_store *store, simba_request *request)
{
    etcd_noting *n = noting_new(store, request);
    if (n && simba__etcd_holds(simba__etcd_contender_find(store, request), request))
        read_note(n, on_seen);
    else if (n)
        refuse(&n->op); /* also if there is no connection */
}

/* --- READ_NOTE ---------------------------------------------------------------------------------------------- */

static void on_read(etcd_op *op, const etcd_answer *answer)
{
    simba_host *host = op->store->host;
    char data[ETCD_STORED_NOTE_MAX + 1];
    etcd_note note;
    uint64_t mod;
    bool corrupt;
    if (!simba__etcd_good(op, answer))
        return;
    if (!take_note(answer, data, &note, &mod, &corrupt)) {
        simba__etcd_malformed(op);
        return;
    }
    const int rc = corrupt || note.size == 0
                       ? 0
                       : host->noted(host, op->request,
                                     &(simba_stored_note){note.bytes, note.size, note.token, note.written_at_ms});
    if (corrupt)
        simba__etcd_fail(op, SIMBA_ECORRUPT, "%s is not a note of this library; remove it, or have the holder write",
                         of(op)->names.note);
    else if (rc < 0)
        simba__etcd_fail(op, rc, "the note at %s cannot be taken", of(op)->names.note);
    simba__etcd_finish(op, SIMBA_NOT_MINE, NULL);
}

void simba__etcd_read_note(etcd_store *store, simba_request *request)
{
    etcd_noting *n = noting_new(store, request);
    if (n)
        read_note(n, on_read);
}
