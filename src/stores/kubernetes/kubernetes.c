/* kubernetes:// — a store of leases in the API server of Kubernetes, shared with Go's leaderelection package (client-go).
 *
 * What is stored for a mutex M: a Lease of the namespace, whose name is M if an object can have that name, and else "simba-" and 32 hex
 * digits of its SHA-256. `kubectl get leases` shows it.
 *
 *   spec.holderIdentity        shared: ID_NONCE of the owner, "" after a release. The nonce makes it another one for each incarnation:
 *                              client-go leads at once under an identity that holds already
 *   spec.leaseDurationSeconds  shared: ttl and transition, rounded up; 1 after a release
 *   spec.acquireTime           shared: of the grant, by the owner's wall clock
 *   spec.renewTime             shared: of the latest write. It grows by a second at least, because client-go sees whole seconds
 *   spec.leaseTransitions      shared: counts grants
 *   annotation simba/grant     "NONCE TOKEN MS": the latest grant and its lease; it is the holder's if holderIdentity ends in NONCE
 *   annotation simba/note      "TOKEN NUMBER MS BASE64": the note, and under which grant it was written, as which, and when
 *   annotation simba/mutex     M, if the Lease has another name
 *   annotation simba/revoked   NONCE of the latest grant that was forced away
 *
 * Kubernetes has no clock that judges leases, and no queue. versioned.h has the rules that make a mutex of this. The version is
 * metadata.resourceVersion; the token of a grant is the version that its write replaced, or one more than the latest token.
 *
 *   reading        GET of the Lease: consistent, because it names no version
 *   ACQUIRE        a PATCH of a Lease that is free or has expired, if its resourceVersion is as seen (otherwise 409: GET again);
 *                  POST of a Lease without a holder if there is none
 *   RENEW          one PATCH, from what the latest answer said: no read
 *   RELEASE        PATCH: no holder
 *   FORCE_RELEASE  the same, with the nonce of the owner in simba/revoked, which its next renewal finds
 *   WRITE_NOTE     PATCH of the annotation
 *   FORGET         DELETE, if uid and resourceVersion are as seen. Tokens go on: versions grow in the whole cluster
 *   LIST           GET of all Leases, in pages; EXAMINE asks what it may do (SelfSubjectAccessReview)
 *
 * Who wakes whom: a waiter or observer watches its Lease, and hears of every write as it happens. A watch begins with a list, whose
 * version it goes on from; two mutexes or more share a watch of the namespace (watch.c). Under a watch a waiter that asks in vain asks
 * nobody: what is known is fresh. All waiters hear of a release, and one PATCH wins. A holder watches nothing; it learns of its
 * revocation when it renews.
 *
 * A write without an answer, or with 5xx, is settled by reading. A request whose time is over closes its connection, because the API
 * server ends what nobody waits for. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/kubernetes/kubernetes.h"
#include "stores/schemes.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"

static simba__row_now now_of(const kube_store *store)
{
    return (simba__row_now){store->host->now(store->host).ns, store->host->epoch_us(store->host)};
}

/* --- mutexes ----------------------------------------------------------------------------------------- */

static bool is_named(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const kube_mutex, node)->mutex, mutex) == 0;
}

static void drop(kube_mutex *mutex)
{
    if (mutex->leads && !mutex->store->closing)
        simba__kube_label(mutex->store, false); /* it let its lease end */
    simba__list_remove(&mutex->idle);
    simba__table_remove(&mutex->store->mutexes, &mutex->node);
    simba__free(mutex);
}

/* Nobody asks for it or watches it. What is known of a holder is worth keeping for a while: who asks again after its lease can take
 * the mutex over. */
static void rest(kube_mutex *mutex)
{
    const simba_local now = mutex->store->host->now(mutex->store->host);
    const bool unsure = mutex->leads && mutex->state.stale;
    if (mutex->first || mutex->watch)
        return;
    if (!unsure && simba__versioned_keep_until(&mutex->state).ns <= now.ns)
        drop(mutex);
    else
        simba__list_append(&mutex->store->idle, &mutex->idle);
}

static void call_over(kube_call *call, int status, simba__json body, const simba_error *error);

kube_mutex *simba__kube_mutex(kube_store *store, const char *name, bool make)
{
    simba__node *found = simba__table_find(&store->mutexes, simba__hash(name), is_named, name);
    if (found || !make)
        return found ? SIMBA__OF_NODE(found, kube_mutex, node) : NULL;
    for (int i = 0; i < 2 && store->idle.first; i++) /* for each that comes, some may go */
        rest(SIMBA__OF_ITEM(store->idle.first, kube_mutex, idle));
    kube_mutex *mutex =
        simba__table_reserve(&store->mutexes) ? simba__calloc(1, sizeof *mutex + strlen(name) + 1) : NULL;
    if (!mutex)
        return NULL;
    mutex->store = store;
    mutex->call.over = call_over;
    strcpy(mutex->mutex, name);
    simba__kube_name(name, mutex->name);
    simba__versioned_init(&mutex->state);
    simba__table_add(&store->mutexes, &mutex->node, simba__hash(name));
    return mutex;
}

/* --- the end of a request ---------------------------------------------------------------------------- */

/* Take it out of the queue. The next one begins. */
static void take_out(kube_mutex *mutex, simba_request *request)
{
    simba_request **link = &mutex->first, *before = NULL;
    for (; *link != request; link = &(*link)->next)
        before = *link;
    *link = request->next;
    if (mutex->last == request)
        mutex->last = before;
    request->backend_data = NULL;
    if (before)
        return;
    simba__versioned_begin(&mutex->state);
    mutex->broke = false;
    mutex->trouble.code = 0;
}

static void fail(kube_mutex *mutex, int code, const char *text)
{
    simba_request *request = mutex->first;
    take_out(mutex, request);
    mutex->store->host->fail(mutex->store->host, request, code, "%s", text);
}

/* Does this client lead by the grant of this nonce? Our pod's label follows. */
static void set_leads(kube_mutex *mutex, uint64_t nonce, bool leads)
{
    if (!mutex->store->options.label_key || leads == (mutex->leads == nonce))
        return;
    if (mutex->leads == 0 || !leads)
        simba__kube_label(mutex->store, leads);
    mutex->leads = leads ? nonce : 0;
}

/* `lease`: the answer that has just been read. */
static void complete(kube_mutex *mutex, const kube_lease *lease)
{
    kube_store *store = mutex->store;
    simba_request *request = mutex->first;
    int rc = 0;
    if (request->op == SIMBA_OP_READ_NOTE && lease && lease->note_damaged)
        rc = SIMBA_ECORRUPT;
    else if (request->op == SIMBA_OP_READ_NOTE && lease && lease->note_size > 0)
        rc = store->host->noted(store->host, request,
                                &(simba_stored_note){lease->note, lease->note_size, lease->record.note_token,
                                                     lease->record.note_written_at_ms});
    const bool mine = request->reply.outcome == SIMBA_MINE;
    if (request->op == SIMBA_OP_ACQUIRE && !mine && mutex->leads != 0 && mutex->leads != mutex->state.known.nonce)
        set_leads(mutex, mutex->leads, false); /* an earlier grant, which ended without a release */
    if (request->op == SIMBA_OP_ACQUIRE || (request->op == SIMBA_OP_RENEW && !mine))
        set_leads(mutex, request->nonce, mine);
    take_out(mutex, request);
    if (rc < 0)
        store->host->fail(store->host, request, rc, "kubernetes: the note of Lease %s is none of ours", mutex->name);
    else
        store->host->complete(store->host, request);
}

/* Tell what has changed. */
static void tell(kube_mutex *mutex)
{
    simba_host *host = mutex->store->host;
    const unsigned news = mutex->news;
    simba_push push = {.kind = SIMBA_PUSH_RELEASED};
    mutex->news = 0;
    if (!mutex->watch)
        return;
    if (news & VERSIONED_OWNER_CHANGED) {
        simba__versioned_show(&mutex->state, now_of(mutex->store), &push.owner, &push.now_ms);
        if (push.owner.id[0] != '\0')
            push.kind = SIMBA_PUSH_ACQUIRED;
        host->push(host, mutex->watch, &push);
    }
    if ((news & VERSIONED_NOTE_CHANGED) && mutex->watch)
        host->push(host, mutex->watch, &(simba_push){.kind = SIMBA_PUSH_NOTED});
}

/* --- a request, step by step ------------------------------------------------------------------------- */

static const char *const methods[] = {
    [VERSIONED_READ] = "GET", [VERSIONED_CREATE] = "POST", [VERSIONED_WRITE] = "PATCH", [VERSIONED_REMOVE] = "DELETE"};

static bool is_holders(simba_op op)
{
    return op == SIMBA_OP_RENEW || op == SIMBA_OP_RELEASE || op == SIMBA_OP_WRITE_NOTE;
}

/* Ask the server. SIMBA_ENOMEM. */
static int ask(kube_mutex *mutex, versioned_ask what)
{
    kube_store *store = mutex->store;
    const simba_request *request = mutex->first;
    const versioned_mutex *state = &mutex->state;
    if (what == VERSIONED_WRITE && request->op == SIMBA_OP_FORCE_RELEASE && state->known.token == 0)
        store->host->log(
            store->host, SIMBA_LOG_WARN,
            "kubernetes: the owner of %s is not one of this library; a Go program takes the Lease back, or goes on "
            "leading until its RenewDeadline: stop that process",
            mutex->mutex);
    if (what == VERSIONED_WRITE && state->wanted.last_token > state->known.last_token &&
        state->wanted.token != state->replaced)
        store->host->log(store->host, SIMBA_LOG_WARN,
                         "kubernetes: the resourceVersion of Lease %s is %" PRIu64 ", and its latest token was %" PRIu64
                         ": was the cluster restored from a backup? Tokens go on from the latest",
                         mutex->name, state->replaced, state->known.last_token);
    char path[KUBE_TARGET_SIZE];
    simba__buffer body = {0};
    if (what == VERSIONED_CREATE)
        simba__kube_put_new(&body, mutex->name, mutex->mutex);
    else if (what == VERSIONED_WRITE)
        simba__kube_put_patch(&body, &state->wanted, state->replaced,
                              request->op == SIMBA_OP_WRITE_NOTE ? request : NULL);
    else if (what == VERSIONED_REMOVE)
        simba__kube_put_removal(&body, &state->known);
    simba__kube_path(store, what == VERSIONED_CREATE ? NULL : mutex->name, "", path);
    const int rc = simba__kube_send(store, simba__kube_connection(store, is_holders(request->op)), &mutex->call,
                                    methods[what], path, what == VERSIONED_READ ? NULL : &body);
    simba__buffer_free(&body);
    mutex->asked = what;
    mutex->busy = rc == 0;
    return rc;
}

/* Go on with the requests of a mutex until the server is asked, or there are none. `lease`: the answer that has just been read; NULL: none. */
static void advance(kube_mutex *mutex, const kube_lease *lease)
{
    kube_store *store = mutex->store;
    while (mutex->first && !mutex->busy) {
        simba_request *request = mutex->first;
        const versioned_ask what = simba__versioned_next(&mutex->state, request, now_of(store));
        const bool waits = store->host->now(store->host).ns < store->wait_until.ns && !is_holders(request->op);
        if (what == VERSIONED_ANSWER) {
            complete(mutex, lease);
        } else if (what == VERSIONED_GIVE_UP) {
            fail(mutex, SIMBA_EUNAVAILABLE,
                 "kubernetes: the server refuses again and again, or a webhook changes the Lease");
        } else if (what == VERSIONED_BEHIND) {
            char text[256];
            snprintf(text, sizeof text,
                     "kubernetes: the resourceVersion of Lease %.100s is behind its latest token, %" PRIu64
                     ": was the cluster restored from a backup? A later token could be smaller",
                     mutex->name, mutex->state.known.last_token);
            fail(mutex, SIMBA_ESTORE, text);
        } else if (mutex->trouble.code < 0 && what != VERSIONED_READ) {
            simba__versioned_lost(&mutex->state); /* it was not sent: the client tries again after a pause */
            fail(mutex, mutex->trouble.code, mutex->trouble.text);
        } else if (waits) {
            simba__versioned_lost(&mutex->state);
            fail(mutex, SIMBA_EUNAVAILABLE, "kubernetes: the server is overloaded and has asked to wait (429)");
        } else if (ask(mutex, what) < 0) {
            simba__versioned_lost(&mutex->state); /* it was not sent; an earlier one may be under way */
            fail(mutex, SIMBA_ENOMEM, "kubernetes: out of memory");
        }
    }
    tell(mutex);
    rest(mutex);
}

/* It said no, or nothing. */
static void take_refusal(kube_mutex *mutex, int status, simba__json body, const simba_error *error)
{
    const bool reads = mutex->asked == VERSIONED_READ;
    const bool unknown = error ? mutex->call.http.sent : status >= 500 || status == 404; /* not the API server's own */
    char what[300];
    if (status == 409 && !reads) {
        simba__versioned_conflict(&mutex->state);
        return;
    }
    if (!reads)
        simba__versioned_lost(&mutex->state); /* if this one was refused, an earlier one may be under way */
    snprintf(what, sizeof what, "%s of Lease %s", methods[mutex->asked], mutex->name);
    const simba_error refusal = simba__kube_refusal(mutex->store, what, status, body, error);
    if (reads || !unknown)
        fail(mutex, refusal.code, refusal.text);
    else if (error && !mutex->broke)
        mutex->broke = true; /* an idle connection may have ended: a read settles the write, which may be sent again */
    else
        mutex->trouble = refusal; /* a read settles it, and no more */
}

static void call_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_mutex *mutex = SIMBA__OF_ITEM(call, kube_mutex, call);
    kube_store *store = mutex->store;
    const simba_local now = store->host->now(store->host);
    char reason[16] = "";
    simba__json_text(simba__json_get(body, "reason"), reason, sizeof reason);
    const bool gone = (status == 404 && mutex->asked != VERSIONED_CREATE && strcmp(reason, "NotFound") == 0) ||
                      (status == 200 && mutex->asked == VERSIONED_REMOVE);
    static const versioned_record none;
    const kube_lease *read = NULL;
    kube_lease lease;
    mutex->busy = false;
    if (gone) {
        mutex->news |= simba__versioned_saw(&mutex->state, &none, true, now);
    } else if (status != 200 && status != 201) {
        take_refusal(mutex, status, body, error);
    } else if (!simba__kube_parse_lease(body, &lease) || strcmp(lease.name, mutex->name) != 0) {
        simba__versioned_lost(&mutex->state);
        fail(mutex, SIMBA_ESTORE, "kubernetes: the server answers with something that is not the Lease asked for");
    } else if (lease.flaw) {
        char text[256];
        snprintf(text, sizeof text, "kubernetes: Lease %.120s: %s", lease.name, lease.flaw);
        simba__versioned_lost(&mutex->state);
        fail(mutex, SIMBA_ECORRUPT, text);
    } else {
        mutex->news |= simba__versioned_saw(&mutex->state, &lease.record, true, now);
        if (mutex->watch) /* a stream that waits for versions that were lost shows nothing */
            simba__kube_answered(store, mutex->news & VERSIONED_STEPPED_BACK ? UINT64_MAX : lease.record.version);
        read = &lease;
    }
    advance(mutex, read);
}

void simba__kube_saw(kube_mutex *mutex, const kube_lease *lease)
{
    kube_store *store = mutex->store;
    if (lease->flaw)
        return;
    mutex->news |= simba__versioned_saw(&mutex->state, &lease->record, false, store->host->now(store->host));
    tell(mutex);
}

/* --- the table --------------------------------------------------------------------------------------- */

static bool is_walk(simba_op op)
{
    return op == SIMBA_OP_LIST || op == SIMBA_OP_EXAMINE || op == SIMBA_OP_PREPARE;
}

static void kube_submit(void *instance, simba_request *request)
{
    kube_store *store = instance;
    if (is_walk(request->op)) {
        simba__kube_walk(store, request);
        return;
    }
    kube_mutex *mutex = simba__kube_mutex(store, request->mutex, true);
    if (!mutex) {
        store->host->fail(store->host, request, SIMBA_ENOMEM, "kubernetes: out of memory");
        return;
    }
    simba__list_remove(&mutex->idle);
    if (request->op == SIMBA_OP_RELEASE)
        set_leads(mutex, request->nonce, false);
    request->backend_data = mutex;
    request->next = NULL;
    if (mutex->last)
        mutex->last->next = request;
    else
        mutex->first = request;
    mutex->last = request;
    if (mutex->first != request)
        return;
    simba__versioned_begin(&mutex->state);
    advance(mutex, NULL);
}

/* Nobody waits for the answer to the first request any more. */
static void abandon(kube_mutex *mutex)
{
    if (mutex->busy)
        simba__http_cancel(&mutex->call.http);
    if (mutex->busy && mutex->asked != VERSIONED_READ)
        simba__versioned_lost(&mutex->state);
    mutex->busy = false;
}

static void kube_expire(void *instance, simba_request *request)
{
    kube_store *store = instance;
    if (is_walk(request->op)) {
        simba__kube_walk_end(request->backend_data, SIMBA_ETIMEDOUT, "kubernetes: no answer in time");
        return;
    }
    kube_mutex *mutex = request->backend_data;
    const bool began = mutex->first == request;
    char text[200];
    snprintf(text, sizeof text, "kubernetes %s: %s", store->options.at.where,
             !began                  ? "an earlier request for the same mutex has no answer yet"
             : mutex->call.http.sent ? "no answer in time"
                                     : "not sent in time");
    if (began)
        abandon(mutex);
    take_out(mutex, request);
    store->host->fail(store->host, request, SIMBA_ETIMEDOUT, "%s", text);
    advance(mutex, NULL);
}

static void kube_flush(void *instance)
{
    (void)instance; /* requests are sent as they are submitted */
}

static int kube_watch(void *instance, simba_watch *watch)
{
    return simba__kube_watch(instance, watch);
}

static void kube_unwatch(void *instance, simba_watch *watch)
{
    kube_mutex *mutex = watch->backend_data;
    simba__kube_unwatch(instance, watch);
    rest(mutex);
}

static void looked_up(simba__links *links)
{
    simba__kube_closes(SIMBA__OF_ITEM(links, kube_store, links));
}

static void kube_woken(void *instance)
{
    (void)instance;
}

static void kube_close(void *instance)
{
    kube_store *store = instance;
    store->closing = true;
    while (store->walks.first)
        simba__kube_walk_end(SIMBA__OF_ITEM(store->walks.first, kube_walk, item), SIMBA_ECANCELED,
                             "kubernetes: the client closes");
    for (simba__node *node = simba__table_first(&store->mutexes); node;
         node = simba__table_next(&store->mutexes, node)) {
        kube_mutex *mutex = SIMBA__OF_NODE(node, kube_mutex, node);
        abandon(mutex);
        while (mutex->first)
            fail(mutex, SIMBA_ECANCELED, "kubernetes: the client closes");
    }
    simba__kube_stream_close(store);
    simba__kube_label_close(store);
    simba__kube_closes(store);
}

static int kube_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    kube_store *store = instance;
    store->host = host;
    store->links =
        (simba__links){.host = host, .kind = "kubernetes", .hello = SIMBA__HTTP_HELLO, .looked_up = looked_up};
    int rc = simba__kube_options_parse(url, &store->options, err);
    if (rc == 0 && store->options.tls)
        rc = simba__tls_context_new(&store->options.files, err, &store->links.tls);
    if (rc == 0 && store->options.token_file)
        rc = simba__kube_read_token(store->options.token_file, &store->bearer, err);
    if (rc < 0)
        return rc;
    rc = simba__kube_calls_init(store);
    if (rc == 0)
        rc = simba__kube_stream_init(store);
    if (rc == 0)
        rc = simba__kube_label_init(store);
    return rc < 0 ? simba__fail(err, rc, "out of memory") : 0;
}

static void kube_fini(void *instance)
{
    kube_store *store = instance;
    for (simba__node *node = simba__table_first(&store->mutexes), *next; node; node = next) {
        next = simba__table_next(&store->mutexes, node);
        drop(SIMBA__OF_NODE(node, kube_mutex, node));
    }
    simba__table_fini(&store->mutexes);
    if (store->stream.http.link.host)
        simba__http_fini(&store->stream.http);
    simba__kube_calls_fini(store);
    simba__tls_context_free(store->links.tls);
    simba__kube_options_free(&store->options);
}

static const char *const schemes[] = {SIMBA__SCHEMES_kubernetes, NULL};
static const char *const keys[] = {"token-file",      "ca",      "cert", "key", "verify", "tls", "label",
                                   "connect-timeout", "timeout", NULL};

extern const simba_backend simba__backend_kubernetes;
const simba_backend simba__backend_kubernetes = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(kube_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE | SIMBA_CAP_NOTE,
    /* Eight for each connection: a renewal that comes behind them waits for some 20 ms. */
    .window = 64,
    .workers = 2, /* names, and the token */
    .init = kube_init,
    .submit = kube_submit,
    .expire = kube_expire,
    .flush = kube_flush,
    .watch = kube_watch,
    .unwatch = kube_unwatch,
    .woken = kube_woken,
    .close = kube_close,
    .fini = kube_fini,
};
