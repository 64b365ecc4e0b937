/* LIST, EXAMINE and PREPARE: one request after the other, on whichever connection has the time.
 *
 * A list is for people. It judges leases by the times that they show, since it sees each of them only once; who takes a mutex
 * does not. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "stores/kubernetes/kubernetes.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/saturate.h"

static void walk_over(kube_call *call, int status, simba__json body, const simba_error *error);

/* What a store of leases does with Leases, and what cannot be done without the right. */
static const struct {
    const char *verb, *what;
    simba_verdict without;
} rights[] = {
    {"get", "nothing works", SIMBA_VERDICT_BROKEN},
    {"create", "a mutex cannot be acquired for the first time", SIMBA_VERDICT_BROKEN},
    {"patch", "no mutex can be acquired", SIMBA_VERDICT_BROKEN},
    {"list", "waiters do not hear of a release, and `simba list` does not work", SIMBA_VERDICT_WARNING},
    {"watch", "waiters do not hear of a release", SIMBA_VERDICT_WARNING},
    {"delete", "`simba forget` does not work", SIMBA_VERDICT_WARNING},
};

enum { RIGHTS = sizeof rights / sizeof *rights };

void simba__kube_walk_end(kube_walk *walk, int code, const char *why)
{
    simba_host *host = walk->store->host;
    simba_request *request = walk->request;
    simba__list_remove(&walk->item);
    simba__http_cancel(&walk->call.http);
    simba__free(walk);
    request->backend_data = NULL;
    if (code < 0)
        host->fail(host, request, code, "%s", why);
    else
        host->complete(host, request);
}

/* 1: there are more; 0; or a code. */
static int list_page(kube_walk *walk, simba__json body)
{
    simba_host *host = walk->store->host;
    const simba__json items = simba__json_get(body, "items");
    const char *pattern = walk->request->mutex;
    kube_lease lease;
    const versioned_record *record = &lease.record;
    int rc = 0;
    for (simba__json item = {0}; rc >= 0 && simba__json_next(items, &item);) {
        simba_owner owner = {0};
        if (!simba__kube_parse_lease(item, &lease) || (pattern && fnmatch(pattern, lease.mutex, 0) != 0))
            continue;
        if (record->held) {
            strcpy(owner.id, record->id);
            owner.token = record->token;
            owner.acquired_at_ms = record->acquired_us / 1000;
            owner.ttl_at_ms = simba__sat_add(record->renewed_us / 1000, record->lease_ms);
            owner.transition_at_ms = owner.ttl_at_ms;
        }
        rc = host->listed(host, walk->request,
                          &(simba_listing){.size = sizeof(simba_listing),
                                           .mutex = lease.mutex,
                                           .owner = &owner,
                                           .now_ms = host->epoch_us(host) / 1000,
                                           .waiters = -1,
                                           .note = lease.note_size > 0 ? lease.note : NULL,
                                           .note_length = lease.note_size,
                                           .note_token = record->note_token,
                                           .note_written_at_ms = record->note_written_at_ms});
    }
    const simba__json more = simba__json_get(simba__json_get(body, "metadata"), "continue");
    return rc < 0 ? rc : simba__json_text(more, walk->more, sizeof walk->more) && walk->more[0] != '\0';
}

/* One answer of EXAMINE: likewise. */
static int tell_finding(kube_walk *walk, simba__json body)
{
    simba_host *host = walk->store->host;
    const size_t i = walk->step++;
    char version[64] = "", text[200];
    simba_finding finding = {.size = sizeof finding, .verdict = SIMBA_VERDICT_OK, .what = "server", .text = text};
    if (i < RIGHTS) {
        if (simba__json_bool(simba__json_get(simba__json_get(body, "status"), "allowed")))
            return 1;
        snprintf(text, sizeof text, "may not %s Leases in namespace %s: %s", rights[i].verb, walk->store->options.space,
                 rights[i].what);
        finding.verdict = rights[i].without;
        finding.what = "rights";
        finding.remedy =
            "let its Role allow get, list, watch, create, update, patch, delete on leases in coordination.k8s.io";
    } else {
        simba__json_text(simba__json_get(body, "gitVersion"), version, sizeof version);
        snprintf(text, sizeof text, "Kubernetes %s, Leases in namespace %s", version, walk->store->options.space);
    }
    const int rc = host->found(host, walk->request, &finding);
    return rc < 0 ? rc : i < RIGHTS;
}

static int ask(kube_walk *walk)
{
    kube_store *store = walk->store;
    simba__http *http = simba__kube_connection(store, false);
    char more[sizeof walk->more + 40], path[KUBE_TARGET_SIZE];
    walk->call.http.body_most = KUBE_LIST_MOST;
    if (walk->request->op == SIMBA_OP_LIST) {
        snprintf(more, sizeof more, "?limit=%d%s%s", KUBE_PAGE, walk->more[0] ? "&continue=" : "", walk->more);
        return simba__kube_send(store, http, &walk->call, "GET", simba__kube_path(store, NULL, more, path), NULL);
    }
    if (walk->step == RIGHTS)
        return simba__kube_send(store, http, &walk->call, "GET", "/version", NULL);
    simba__buffer body = {0};
    simba__json_put(
        &body,
        "{'apiVersion':'authorization.k8s.io/v1','kind':'SelfSubjectAccessReview','spec':{'resourceAttributes':"
        "{'namespace':%s,'group':'coordination.k8s.io','resource':'leases','verb':%s}}}",
        store->options.space, rights[walk->step].verb);
    const int rc = simba__kube_send(store, http, &walk->call, "POST",
                                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &body);
    simba__buffer_free(&body);
    return rc;
}

static void walk_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_walk *walk = SIMBA__OF_ITEM(call, kube_walk, call);
    const bool lists = walk->request->op == SIMBA_OP_LIST;
    if (error || (status != 200 && status != 201)) {
        const simba_error refusal = simba__kube_refusal(
            walk->store, lists ? "the list of Leases" : "the question what is allowed", status, body, error);
        simba__kube_walk_end(walk, refusal.code, refusal.text);
        return;
    }
    int rc = lists ? list_page(walk, body) : tell_finding(walk, body);
    if (rc > 0 && (rc = ask(walk)) == 0)
        return;
    simba__kube_walk_end(walk, rc, "kubernetes: out of memory");
}

void simba__kube_walk(kube_store *store, simba_request *request)
{
    kube_walk *walk = simba__calloc(1, sizeof *walk);
    request->backend_data = walk;
    if (!walk) {
        store->host->fail(store->host, request, SIMBA_ENOMEM, "kubernetes: out of memory");
        return;
    }
    walk->store = store;
    walk->request = request;
    walk->call.over = walk_over;
    simba__list_append(&store->walks, &walk->item);
    if (ask(walk) < 0)
        simba__kube_walk_end(walk, SIMBA_ENOMEM, "kubernetes: out of memory");
}
