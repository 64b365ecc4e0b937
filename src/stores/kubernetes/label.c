/* ?label=KEY=VALUE: our own pod has this label while the client holds any mutex, so that a Service can select the leader. It comes with
 * the first grant and goes with the last release, one PATCH each, on a connection of its own: it delays no lease, and guards nothing.
 * What an earlier process of this pod may have left behind goes first. A PATCH that failed is repeated until it is done. */
#include <stdio.h>
#include <string.h>

#include "stores/kubernetes/kubernetes.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"

enum { PAUSE_MS = 1000 };

static kube_store *of(kube_label *label)
{
    return SIMBA__OF_ITEM(label, kube_store, label);
}

static void bring(kube_label *label)
{
    kube_store *store = of(label);
    const kube_options *options = &store->options;
    const bool wanted = label->grants > 0;
    char path[KUBE_TARGET_SIZE];
    simba__buffer body = {0};
    if (!options->label_key || label->busy || (label->known && label->is_set == wanted))
        return;
    simba__json_put(&body, wanted ? "{'metadata':{'labels':{%s:%s}}}" : "{'metadata':{'labels':{%s:null}}}",
                    options->label_key, options->label_value);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s", options->space, options->pod);
    label->busy = simba__kube_send(store, &label->http, &label->call, "PATCH", path, &body) == 0;
    label->known = false;
    label->is_set = wanted;
    if (!label->busy && !store->closing)
        store->host->timer_set(store->host, &label->pause,
                               (simba_local){store->host->now(store->host).ns + PAUSE_MS * SIMBA__NS_PER_MS});
    simba__buffer_free(&body);
}

static void label_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_label *label = SIMBA__OF_ITEM(call, kube_label, call);
    kube_store *store = of(label);
    simba_error refusal = error ? *error : (simba_error){0};
    label->busy = false;
    label->known = !error && status == 200;
    if (!label->known) {
        if (!error)
            simba__kube_refusal(store, "PATCH of our own pod's label", status, body, &refusal);
        if (status == 401)
            simba__kube_renew_token(store);
        if (!label->failed)
            store->host->log(store->host, SIMBA_LOG_WARN, "%s; trying again", refusal.text);
    }
    label->failed = !label->known;
    if (store->closing) {
        if (label->known)
            bring(label); /* it was set just now */
        if (!label->busy)
            simba__http_close(&label->http);
        simba__kube_closes(store);
    } else if (label->known) {
        bring(label);
    } else {
        simba__http_close(&label->http);
        store->host->timer_set(store->host, &label->pause,
                               (simba_local){store->host->now(store->host).ns + PAUSE_MS * SIMBA__NS_PER_MS});
    }
}

static void pause_over(simba_timer *timer, simba_local now)
{
    (void)now;
    bring(SIMBA__OF_ITEM(timer, kube_label, pause));
}

void simba__kube_label(kube_store *store, bool leads)
{
    SIMBA__ASSERT(leads || store->label.grants > 0);
    store->label.grants = leads ? store->label.grants + 1 : store->label.grants - 1;
    if (store->label.pause.index == 0)
        bring(&store->label);
}

int simba__kube_label_init(kube_store *store)
{
    static const simba__http_events events = {0};
    kube_label *label = &store->label;
    label->call.over = label_over;
    label->pause.fire = pause_over;
    int rc = simba__http_init(&label->http, &store->links, &events, store, store->options.connect_timeout_ns);
    label->http.link.at = store->options.at;
    label->http.link.tls_name = store->options.tls_name;
    if (rc == 0)
        rc = store->host->timer_add(store->host, &label->pause);
    if (rc == 0 && store->options.label_key) /* `init` has no critical section: soon */
        store->host->timer_set(store->host, &label->pause, store->host->now(store->host));
    return rc;
}

void simba__kube_label_close(kube_store *store)
{
    kube_label *label = &store->label;
    store->host->timer_clear(store->host, &label->pause);
    label->grants = 0;
    if (!label->failed)
        bring(label);
    if (!label->busy)
        simba__http_close(&label->http);
}

void simba__kube_label_fini(kube_store *store)
{
    if (store->label.http.link.host)
        simba__http_fini(&store->label.http);
}
