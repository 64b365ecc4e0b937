/* ?label=KEY=VALUE: the pod of this process has this label while the client holds any mutex, so that a Service can select the leader. It comes with
 * the first grant and goes with the last release, one PATCH each: it guards nothing. What an earlier process of this pod may have left
 * behind goes first. A PATCH that failed is repeated, after pauses that grow, until it is done. */
#include <stdio.h>
#include <string.h>

#include "stores/kubernetes/kubernetes.h"
#include "util/assert.h"

enum { PAUSE_MS = 1000, LONGEST_MS = 60000 };

/* Set the label, or remove it, if it is not so already. */
static void bring(kube_store *store)
{
    const kube_options *options = &store->options;
    kube_label *label = &store->label;
    const bool wanted = label->grants > 0;
    char path[KUBE_TARGET_SIZE];
    simba__buffer body = {0};
    if (!options->label_key || label->busy || (label->known && label->is_set == wanted))
        return;
    simba__json_put(&body, wanted ? "{'metadata':{'labels':{%s:%s}}}" : "{'metadata':{'labels':{%s:null}}}",
                    options->label_key, options->label_value);
    snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s", options->space, options->pod);
    label->busy =
        simba__kube_send(store, simba__kube_connection(store, false), &label->call, "PATCH", path, &body) == 0;
    label->known = false;
    label->is_set = wanted;
    simba__buffer_free(&body);
    if (!label->busy && !store->closing)
        store->host->timer_set(store->host, &label->pause,
                               simba__kube_again_at(store, label->failures++, PAUSE_MS, LONGEST_MS));
}

static void label_over(kube_call *call, int status, simba__json body, const simba_error *error)
{
    kube_label *label = SIMBA__OF_ITEM(call, kube_label, call);
    kube_store *store = call->store;
    label->busy = false;
    label->known = !error && status == 200;
    if (label->known) {
        label->failures = 0;
        bring(store); /* it may have changed meanwhile */
    } else if (!store->closing) {
        const simba_error refusal = simba__kube_refusal(store, "PATCH of this pod's label", status, body, error);
        if (label->failures == 0)
            store->host->log(store->host, SIMBA_LOG_WARN, "%s; trying again", refusal.text);
        store->host->timer_set(store->host, &label->pause,
                               simba__kube_again_at(store, label->failures++, PAUSE_MS, LONGEST_MS));
    }
    simba__kube_closes(store);
}

static void pause_over(simba_timer *timer, simba_local now)
{
    (void)now;
    bring(SIMBA__OF_ITEM(timer, kube_store, label.pause));
}

void simba__kube_label(kube_store *store, bool leads)
{
    SIMBA__ASSERT(leads || store->label.grants > 0);
    store->label.grants = leads ? store->label.grants + 1 : store->label.grants - 1;
    if (store->label.pause.index == 0)
        bring(store);
}

int simba__kube_label_init(kube_store *store)
{
    store->label.call.over = label_over;
    store->label.pause.fire = pause_over;
    const int rc = store->host->timer_add(store->host, &store->label.pause);
    if (rc == 0 && store->options.label_key) /* `init` has no critical section: soon */
        store->host->timer_set(store->host, &store->label.pause, store->host->now(store->host));
    return rc;
}

void simba__kube_label_close(kube_store *store)
{
    store->host->timer_clear(store->host, &store->label.pause);
    store->label.grants = 0;
    if (store->label.failures == 0)
        bring(store);
}
