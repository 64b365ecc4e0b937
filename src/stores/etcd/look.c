/* Looks at a mutex without contending: READ and FORCE_RELEASE, FORGET, and observers. All of them first scan the keys of the mutex in
 * the order of create_revision until they find a contender. A scan may take several pages: keys of other mutexes ("a/b" below
 * "a") lie among them. No key ever comes before one that was seen, so what a later page shows is what counts. */
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/clock.h"

enum { ROUNDS_MOST = 16, RETRY_MS = 100 };

typedef struct etcd_scan etcd_scan;
struct etcd_scan {
    etcd_op op; /* first */
    etcd_names names;
    uint64_t beyond;   /* keys up to this create_revision were seen */
    uint64_t revision; /* of the latest page */
    bool found;
    etcd_kv first;
    etcd_answered *read; /* a page has come */
    void (*then)(etcd_scan *scan);
    unsigned rounds;
};

static void read_page(etcd_scan *scan)
{
    simba__buffer *out = &scan->op.body;
    out->length = 0;
    out->failed = false;
    simba__json_put(out, "{");
    simba__etcd_put_folder(out, scan->names.folder);
    simba__json_put(out, ",'limit':'%lld','sort_target':'CREATE','sort_order':'ASCEND','min_create_revision':'%lld'}",
                    (long long)ETCD_PAGE, (long long)scan->beyond + 1);
    simba__etcd_call(&scan->op, "/v3/kv/range", scan->read);
}

/* False: no etcd says such a thing. */
static bool take_page(etcd_scan *scan, const etcd_answer *answer)
{
    uint64_t term;
    bool sound = simba__etcd_read_header(answer->json, &scan->revision, &term);
    const simba__json kvs = simba__json_get(answer->json, "kvs");
    for (simba__json element = {0}; sound && !scan->found && simba__json_next(kvs, &element);) {
        sound = simba__etcd_read_kv(element, &scan->first) && scan->first.create_revision > scan->beyond;
        scan->beyond = scan->first.create_revision;
        scan->found = simba__etcd_contends(scan->names.folder, scan->first.key);
    }
    return sound;
}

static bool is_whole(const etcd_scan *scan, const etcd_answer *answer)
{
    return scan->found || !simba__json_bool(simba__json_get(answer->json, "more"));
}

static void on_page(etcd_op *op, const etcd_answer *answer)
{
    etcd_scan *scan = (etcd_scan *)op;
    if (!simba__etcd_good(op, answer))
        return;
    if (!take_page(scan, answer))
        simba__etcd_malformed(op);
    else if (is_whole(scan, answer))
        scan->then(scan);
    else
        read_page(scan);
}

/* `then` follows, unless the request fails. */
static void begin_scan(etcd_scan *scan, void (*then)(etcd_scan *scan))
{
    scan->beyond = 0;
    scan->found = false;
    scan->read = on_page;
    scan->then = then;
    read_page(scan);
}

static etcd_scan *scan_new(etcd_store *store, simba_request *request)
{
    etcd_scan *scan = simba__etcd_op_new(store, sizeof *scan, request);
    if (scan)
        simba__etcd_names(store->options.prefix, request->mutex, &scan->names);
    return scan;
}

/* Has it been repeated too often? Then the request has failed. */
static bool is_worn_out(etcd_scan *scan)
{
    if (scan->rounds++ < ROUNDS_MOST)
        return false;
    simba__etcd_fail(&scan->op, SIMBA_ESTORE, "the keys of the mutex change each time");
    simba__etcd_op_end(&scan->op);
    return true;
}

/* --- READ and FORCE_RELEASE --------------------------------------------------------------------------------- */

static void has_read(etcd_scan *scan);

static void on_forced(etcd_op *op, const etcd_answer *answer)
{
    etcd_scan *scan = (etcd_scan *)op;
    if (!simba__etcd_good(op, answer))
        return;
    /* If an answer was lost and the key is gone now, this request has removed it, or it went meanwhile: it is gone either way. */
    if (simba__json_bool(simba__json_get(answer->json, "succeeded")) || answer->unsure)
        simba__etcd_finish(op, SIMBA_MINE, NULL);
    else if (!is_worn_out(scan))
        begin_scan(scan, has_read); /* it went by itself; who leads now? */
}

/* The key of a contender of this library ends with its nonce. Go's Mutex and Election do not watch their own key. */
static void warn_of_foreigner(const etcd_scan *scan)
{
    simba_host *host = scan->op.store->host;
    const char *name = strrchr(scan->first.key, '/');
    if (!simba__etcd_is_lock(&scan->first) || !strchr(name, '-'))
        host->log(
            host, SIMBA_LOG_WARN,
            "etcd: the owner of %s is not one of this library; Go's package concurrency, which etcdctl uses, does not "
            "notice that its key was removed and goes on leading until its lease ends",
            scan->op.request->mutex);
}

static void has_read(etcd_scan *scan)
{
    etcd_op *op = &scan->op;
    const simba_owner owner = scan->found ? simba__etcd_owner(&scan->first) : (simba_owner){0};
    if (!scan->found || op->request->op != SIMBA_OP_FORCE_RELEASE) {
        simba__etcd_finish(op, SIMBA_NOT_MINE, scan->found ? &owner : NULL);
        return;
    }
    warn_of_foreigner(scan);
    op->body.length = 0;
    simba__etcd_put_delete(&op->body, scan->first.key, "EQUAL", scan->first.create_revision);
    simba__etcd_call(op, "/v3/kv/txn", on_forced);
}

void simba__etcd_look(etcd_store *store, simba_request *request)
{
    etcd_scan *scan = scan_new(store, request);
    if (scan)
        begin_scan(scan, has_read);
}

/* --- FORGET ------------------------------------------------------------------------------------------------- */

/* Nothing of a mutex stays but its note. One transaction removes it, if neither the note nor any key below the mutex is younger than the
 * look that found no contender. Tokens are revisions, which only grow, whatever is removed. */

static void has_found(etcd_scan *scan);

static void on_forgotten(etcd_op *op, const etcd_answer *answer)
{
    etcd_scan *scan = (etcd_scan *)op;
    simba__json response = {0};
    int64_t deleted = 0;
    if (!simba__etcd_good(op, answer))
        return;
    if (simba__json_bool(simba__json_get(answer->json, "succeeded"))) {
        simba__json_next(simba__json_get(answer->json, "responses"), &response);
        simba__json_int(simba__json_get(simba__json_get(response, "response_delete_range"), "deleted"), &deleted);
        simba__etcd_finish(op, deleted > 0 || answer->unsure ? SIMBA_MINE : SIMBA_NOT_MINE, NULL);
    } else if (!is_worn_out(scan)) {
        begin_scan(scan, has_found);
    }
}

static void has_found(etcd_scan *scan)
{
    etcd_op *op = &scan->op;
    simba__buffer *out = &op->body;
    if (scan->found) {
        const simba_owner owner = simba__etcd_owner(&scan->first);
        simba__etcd_finish(op, SIMBA_NOT_MINE, &owner);
        return;
    }
    out->length = 0;
    simba__json_put(out, "{'compare':[{");
    simba__etcd_put_key(out, scan->names.note);
    simba__json_put(out, ",'target':'MOD','result':'LESS','mod_revision':'%lld'},{", (long long)scan->revision + 1);
    simba__etcd_put_folder(out, scan->names.folder);
    simba__json_put(out, ",'target':'CREATE','result':'LESS','create_revision':'%lld'}],'success':[",
                    (long long)scan->revision + 1);
    simba__json_put(out, "{'request_delete_range':{");
    simba__etcd_put_key(out, scan->names.note);
    simba__json_put(out, "}}]}");
    simba__etcd_call(op, "/v3/kv/txn", on_forgotten);
}

void simba__etcd_forget(etcd_store *store, simba_request *request)
{
    etcd_scan *scan = scan_new(store, request);
    if (scan)
        begin_scan(scan, has_found);
}

/* --- observers ---------------------------------------------------------------------------------------------- */

/* The watch of the folder reports every change, also of those who wait; the observers hear only of another leader. */
typedef struct etcd_observer {
    etcd_scan scan; /* first */
    simba_watch *shown;
    etcd_watch folder, of_note;
    uint64_t leader; /* its token, as the observers were told last; 0: nobody */
    bool known;      /* the observers were told something */
    bool looks, again;
} etcd_observer;

static void observe(etcd_op *op);

/* There may be memory, or a server, in a while. */
static void observe_later(etcd_observer *o)
{
    o->looks = false;
    simba__etcd_op_later(&o->scan.op, RETRY_MS);
}

static void observed(etcd_observer *o)
{
    etcd_store *store = o->scan.op.store;
    simba_host *host = store->host;
    const simba_owner owner = o->scan.found ? simba__etcd_owner(&o->scan.first) : (simba_owner){0};
    const bool is_news = !o->known || owner.token != o->leader;
    simba_push push = {.kind = SIMBA_PUSH_CHANGED, .owner = owner, .now_ms = simba__etcd_now_ms(store)};
    if (o->known)
        push.kind = o->scan.found ? SIMBA_PUSH_ACQUIRED : SIMBA_PUSH_FREED;
    if (push.kind == SIMBA_PUSH_FREED)
        push.owner.token = o->leader;
    if ((!o->folder.item.list &&
         !simba__etcd_watch_set(store, &o->folder, o->scan.names.folder, o->scan.revision + 1)) ||
        (!o->of_note.item.list &&
         !simba__etcd_watch_set(store, &o->of_note, o->scan.names.note, o->scan.revision + 1))) {
        observe_later(o);
        return;
    }
    o->known = true;
    o->leader = owner.token;
    o->looks = false;
    if (is_news)
        host->push(host, o->shown, &push);
    if (o->again)
        observe(&o->scan.op);
}

static void on_observed(etcd_op *op, const etcd_answer *answer)
{
    etcd_observer *o = (etcd_observer *)op;
    if (answer->code || !take_page(&o->scan, answer))
        observe_later(o);
    else if (!is_whole(&o->scan, answer))
        read_page(&o->scan);
    else
        observed(o);
}

static void observe(etcd_op *op)
{
    etcd_observer *o = (etcd_observer *)op;
    o->again = o->looks;
    if (o->looks)
        return;
    o->looks = true;
    o->scan.beyond = 0;
    o->scan.found = false;
    read_page(&o->scan);
}

static void folder_fired(etcd_watch *watch, bool missed)
{
    etcd_observer *o = SIMBA__OF_ITEM(watch, etcd_observer, folder);
    o->known &= !missed;
    observe(&o->scan.op);
}

static void note_fired(etcd_watch *watch, bool missed)
{
    etcd_observer *o = SIMBA__OF_ITEM(watch, etcd_observer, of_note);
    simba_host *host = o->scan.op.store->host;
    (void)missed;
    host->push(host, o->shown, &(simba_push){.kind = SIMBA_PUSH_NOTED});
}

static void observer_fini(etcd_op *op)
{
    etcd_observer *o = (etcd_observer *)op;
    simba__etcd_watch_clear(op->store, &o->folder);
    simba__etcd_watch_clear(op->store, &o->of_note);
    if (o->shown)
        o->shown->backend_data = NULL;
}

int simba__etcd_observe(void *instance, simba_watch *shown)
{
    etcd_store *store = instance;
    etcd_observer *o = simba__etcd_op_new(store, sizeof *o, NULL);
    if (!o)
        return SIMBA_ENOMEM;
    o->scan.op.stays = true;
    o->scan.op.fini = observer_fini;
    o->scan.op.woken = observe;
    o->shown = shown;
    o->folder.fired = folder_fired;
    o->of_note.fired = note_fired;
    o->folder.folder = o->folder.puts = o->of_note.puts = true;
    o->scan.read = on_observed;
    shown->backend_data = o;
    simba__etcd_names(store->options.prefix, shown->mutex, &o->scan.names);
    simba__etcd_session_want(store); /* who observes may want to know how long sessions are, before it contends */
    observe(&o->scan.op);
    return 0;
}

void simba__etcd_unobserve(void *instance, simba_watch *shown)
{
    (void)instance;
    etcd_observer *o = shown->backend_data;
    if (o)
        simba__etcd_op_end(&o->scan.op);
}
