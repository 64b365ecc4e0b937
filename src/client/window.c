/* See window.h. */
#include "client/window.h"

#include <string.h>

#include "core/timing.h"
#include "util/assert.h"
#include "util/mem.h"

enum { RENEWALS, ENDINGS, OTHERS };

static simba__request *of_item(simba__list_item *item)
{
    return SIMBA__OF_ITEM(item, simba__request, item);
}

static int queue_of(simba_op op)
{
    return op == SIMBA_OP_RENEW ? RENEWALS : op == SIMBA_OP_RELEASE || op == SIMBA_OP_WRITE_NOTE ? ENDINGS : OTHERS;
}

/* --- requests -------------------------------------------------------------------------------------- */

simba__request *simba__request_new(const simba_request *shown, int64_t timeout_ns)
{
    const size_t mutex_size = shown->mutex ? strlen(shown->mutex) + 1 : 0;
    simba__request *request = simba__malloc(sizeof *request + mutex_size + shown->note_size);
    if (!request)
        return NULL;
    memset(request, 0, sizeof *request);
    request->shown = *shown;
    request->timeout_ns = timeout_ns;
    char *behind = (char *)(request + 1);
    if (shown->note_size > 0)
        request->shown.note = memcpy(behind, shown->note, shown->note_size);
    if (shown->mutex)
        request->shown.mutex = memcpy(behind + shown->note_size, shown->mutex, mutex_size);
    if (shown->id)
        memcpy(request->id, shown->id, strnlen(shown->id, SIMBA_ID_MAX));
    request->shown.id = request->id;
    return request;
}

/* --- silence and deadlines -------------------------------------------------------------------------- */

/* When what is queued fails unless the store answers before. SIMBA__NEVER: nothing of it can fail. */
static simba_local end_of_silence(const simba__window *window)
{
    size_t count = 0;
    for (int q = window->first_to_fail; q <= OTHERS; q++)
        count += window->queued[q].count;
    return count > 0 && window->outstanding.count > 0 ? simba__local_add(window->answered_at, window->silence_ns)
                                                      : SIMBA__NEVER;
}

static void fail_queued(simba__window *window, int first, int code, const char *why)
{
    for (int q = first; q <= OTHERS; q++) {
        const size_t count = window->queued[q].count; /* those that are made because of this come later */
        for (size_t i = 0; i < count && window->queued[q].first; i++)
            window->host->fail(window->host, &of_item(window->queued[q].first)->shown, code, "%s", why);
    }
}

/* Expiring one request may complete others: so look for the next one anew. */
static simba__request *first_due(const simba__window *window, simba_local now)
{
    for (simba__list_item *item = window->outstanding.first; item; item = item->next) {
        simba__request *request = of_item(item);
        if (request->of && simba__local_reached(now, request->shown.deadline))
            return request;
    }
    return NULL;
}

/* The timer is only ever moved forward: most requests are answered, and setting it for each would cost more than letting it fire
 * in vain now and then. */
static void arm_by(simba__window *window, simba_local at)
{
    if (at.ns != INT64_MAX && (window->timer.index == 0 || at.ns < window->timer.at.ns))
        window->host->timer_set(window->host, &window->timer, at);
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__window *window = SIMBA__OF_ITEM(timer, simba__window, timer);
    for (simba__request *request = first_due(window, now); request; request = first_due(window, now)) {
        window->expiring = request;
        window->backend->expire(window->store, &request->shown);
        if (!window->expiring)
            continue;
        /* The store did not complete it now: it fails for whoever made it, and keeps its place. */
        window->expiring = NULL;
        window->staying = request;
        window->host->fail(window->host, &request->shown, SIMBA_ETIMEDOUT, "%s: no answer in time",
                           window->backend->schemes[0]);
        SIMBA__ASSERT(!request->of);
        window->staying = NULL;
    }
    const simba_local silent_at = simba__local_add(window->answered_at, window->silence_ns);
    if (window->outstanding.count > 0 && simba__local_reached(now, silent_at))
        fail_queued(window, window->first_to_fail, SIMBA_EUNAVAILABLE, "not asked: the store does not answer");

    simba_local at = end_of_silence(window);
    for (simba__list_item *item = window->outstanding.first; item; item = item->next)
        if (of_item(item)->of)
            at = simba__local_min(at, of_item(item)->shown.deadline);
    arm_by(window, at);
}

/* --- the way ---------------------------------------------------------------------------------------- */

int simba__window_init(simba__window *window, simba_host *host, const simba_backend *backend, void *store,
                       int64_t silence_ns)
{
    *window = (simba__window){.host = host,
                              .backend = backend,
                              .store = store,
                              .room = backend->window ? backend->window : 256,
                              .silence_ns = silence_ns,
                              .first_to_fail = backend->caps & SIMBA_CAP_SESSION ? OTHERS : RENEWALS,
                              .timer.fire = on_timer};
    return host->timer_add(host, &window->timer);
}

void simba__window_add(simba__window *window, simba__request *request)
{
    simba__list_append(&window->queued[queue_of(request->shown.op)], &request->item);
}

void simba__window_withdraw(simba__window *window, simba__request *request)
{
    if (request->item.list != &window->outstanding)
        window->host->fail(window->host, &request->shown, SIMBA_ECANCELED, "not asked: nobody needs it any more");
}

/* The next one that may be handed over. */
static simba__request *next(const simba__window *window)
{
    for (int q = RENEWALS; q <= OTHERS; q++)
        if (window->queued[q].first && window->handed_over[q] < window->room)
            return of_item(window->queued[q].first);
    return NULL;
}

bool simba__window_hand_over(simba__window *window, simba_local now)
{
    const uint64_t before = window->total;
    for (simba__request *request = next(window); request; request = next(window)) {
        if (window->outstanding.count == 0)
            window->answered_at = now; /* nothing was asked before: the silence begins here */
        window->handed_over[queue_of(request->shown.op)]++;
        simba__list_append(&window->outstanding, &request->item);
        request->sent_at = now;
        window->total++;
        simba_local deadline = simba__local_add(now, request->timeout_ns);
        if (!simba__local_reached(now, request->latest))
            deadline = simba__local_min(deadline, request->latest);
        request->shown.deadline = deadline;
        window->backend->submit(window->store, &request->shown); /* it may be gone afterwards */
        if (window->outstanding.count > 0)
            arm_by(window, deadline);
    }
    if (window->total > before)
        arm_by(window, end_of_silence(window));
    return window->total > before;
}

void simba__window_complete(simba__window *window, simba_request *shown, const simba_error *error, simba_local now)
{
    simba__request *request = (simba__request *)(void *)shown;
    SIMBA__ASSERT(request->item.list); /* a request is completed once */
    if (window->staying == request) {
        request->done(request, error);
        request->of = NULL;
        return;
    }
    if (window->expiring == request)
        window->expiring = NULL;
    if (!error)
        window->answered_at = now;
    if (request->item.list == &window->outstanding)
        window->handed_over[queue_of(shown->op)]--;
    simba__list_remove(&request->item);
    if (request->of)
        request->done(request, error);
    simba__free(request);
}

void simba__window_close(simba__window *window)
{
    SIMBA__ASSERT(window->outstanding.count == 0);
    while (window->queued[RENEWALS].first || window->queued[ENDINGS].first || window->queued[OTHERS].first)
        fail_queued(window, RENEWALS, SIMBA_ECANCELED, "the client closes");
    window->host->timer_clear(window->host, &window->timer);
}
