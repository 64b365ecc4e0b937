/* See requests.h.
 *
 * The requests that the store has form a pairing heap by their deadlines, with the links in the requests: it allocates
 * nothing, adding takes one comparison, and removing an answered request takes O(log n) on average. A sorted list
 * would do if all deadlines were equally far ahead. They are not: in an outage a hundred thousand holders and waiters ask
 * again, each holder with a deadline that depends on the end of its own lease, and each would walk past all others. */
#include "runtime/requests.h"

#include "core/timing.h"
#include "util/assert.h"

/* Where a request is. */
enum { IDLE, IN_OUTBOX, IN_STORE, COMPLETED };

/* --- the heap ----------------------------------------------------------------------------------------- */

/* Join two heaps: the one that is due later becomes the first child of the other. Neither has siblings. */
static simba_request *meld(simba_request *one, simba_request *other)
{
    if (!one || !other)
        return one ? one : other;
    simba_request *parent = other->deadline.ns < one->deadline.ns ? other : one;
    simba_request *child = parent == one ? other : one;
    child->queue_prev = parent;
    child->queue_next = parent->queue_child;
    if (child->queue_next)
        child->queue_next->queue_prev = child;
    parent->queue_child = child;
    return parent;
}

/* Remove the first of a chain of siblings. */
static simba_request *take_sibling(simba_request **first)
{
    simba_request *taken = *first;
    if (!taken)
        return NULL;
    *first = taken->queue_next;
    taken->queue_next = taken->queue_prev = NULL;
    return taken;
}

/* Join siblings into one heap: first in pairs, then all the pairs. This makes removal cheap in the long run. */
static simba_request *meld_siblings(simba_request *first)
{
    simba_request *pairs = NULL;
    simba_request *heap = NULL;
    while (first) {
        simba_request *one = take_sibling(&first);
        simba_request *pair = meld(one, take_sibling(&first));
        pair->queue_next = pairs;
        pairs = pair;
    }
    while (pairs)
        heap = meld(heap, take_sibling(&pairs));
    return heap;
}

static void remove_outstanding(simba__requests *requests, simba_request *request)
{
    simba_request *children = meld_siblings(request->queue_child);
    request->queue_child = NULL;
    if (request == requests->outstanding) {
        requests->outstanding = children;
        return;
    }
    /* `queue_prev` of a first child is its parent. */
    simba_request *before = request->queue_prev;
    *(before->queue_child == request ? &before->queue_child : &before->queue_next) = request->queue_next;
    if (request->queue_next)
        request->queue_next->queue_prev = before;
    requests->outstanding = meld(requests->outstanding, children);
}

/* --- deadlines ---------------------------------------------------------------------------------------- */

static bool is_over(const simba_request *request, simba_local now)
{
    return request->deadline.ns <= now.ns;
}

/* The time for the answer counts from the moment at which the server was asked. Before that, and at the server, a request may
 * stand in line. */
static simba_local put_off_to(const simba__requests *requests, simba_request *request, simba_local now)
{
    const simba_backend *backend = requests->backend;
    simba_local to = {0};
    if (request->give_up.ns <= now.ns)
        return to;
    if (request->asked_at.ns > 0 && request->asked_at.ns <= now.ns)
        to = simba__local_add(request->asked_at, request->patience_ns);
    if (to.ns <= now.ns && backend->in_line && backend->in_line(requests->store, request))
        to = simba__local_add(now, request->patience_ns);
    return simba__local_min(to, request->give_up);
}

/* The request is due first. False: its time is over. */
static bool put_off(simba__requests *requests, simba_request *request, simba_local now)
{
    const simba_local to = put_off_to(requests, request, now);
    if (to.ns <= now.ns)
        return false;
    remove_outstanding(requests, request);
    request->deadline = to;
    requests->outstanding = meld(requests->outstanding, request);
    return true;
}

/* How many requests to look at in one turn. If hundreds of thousands stand in line, looking at all of them takes seconds, in
 * which no answer would be taken in and nothing renewed. */
enum { LOOKED_AT_IN_A_TURN = 1000 };

/* Cancelling one request may complete others: so look for the next one anew. */
static void on_deadline(simba_timer *timer, simba_local now)
{
    simba__requests *requests = (simba__requests *)(void *)((char *)timer - offsetof(simba__requests, deadline));
    for (int looked = 0; requests->outstanding && is_over(requests->outstanding, now); looked++) {
        if (looked == LOOKED_AT_IN_A_TURN) { /* go on in the next turn */
            requests->host->timer_set(requests->host, timer, simba__local_add(now, 1));
            return;
        }
        simba_request *request = requests->outstanding;
        if (put_off(requests, request, now))
            continue;
        requests->backend->cancel(requests->store, request);
        SIMBA__ASSERT(request->stage != IN_STORE && request->reply.status < 0);
    }
    simba__requests_arm(requests);
}

/* Only ever move the timer forward: most requests are answered, and setting it for each of them would cost more than
 * letting it fire in vain now and then. */
void simba__requests_arm(simba__requests *requests)
{
    const simba_request *first = requests->outstanding;
    if (first && (requests->deadline.index == 0 || first->deadline.ns < requests->deadline.at.ns))
        requests->host->timer_set(requests->host, &requests->deadline, first->deadline);
}

/* --- the way of a request ------------------------------------------------------------------------------- */

int simba__requests_init(simba__requests *requests, simba_host *host, const simba_backend *backend, void *store)
{
    *requests = (simba__requests){.host = host, .backend = backend, .store = store, .deadline.fire = on_deadline};
    requests->outbox_last = &requests->outbox_first;
    requests->completed_last = &requests->completed_first;
    return host->timer_add(host, &requests->deadline);
}

void simba__requests_submit(simba__requests *requests, simba_request *request)
{
    SIMBA__ASSERT(request->stage == IDLE);
    request->stage = IN_OUTBOX;
    request->queue_next = NULL;
    *requests->outbox_last = request;
    requests->outbox_last = &request->queue_next;
}

/* From the beginning of a chain. */
static simba_request *take_first(simba_request **first, simba_request ***last)
{
    simba_request *request = *first;
    *first = request->queue_next;
    if (!*first)
        *last = first;
    request->queue_next = NULL;
    return request;
}

size_t simba__requests_hand_over(simba__requests *requests, simba_local now)
{
    simba_host *host = requests->host;
    size_t count = 0;
    while (requests->outbox_first) {
        simba_request *request = take_first(&requests->outbox_first, &requests->outbox_last);
        request->stage = IN_STORE;
        request->queue_prev = request->queue_child = NULL;
        request->patience_ns = request->deadline.ns - now.ns;
        request->asked_at.ns = 0;
        requests->outstanding = meld(requests->outstanding, request);
        if (is_over(request, now)) {
            host->fail(host, request, SIMBA_ETIMEDOUT, "not asked: this process was held up until the time was over");
            continue;
        }
        requests->backend->submit(requests->store, request);
        count++;
    }
    return count;
}

bool simba__requests_has(const simba_request *request)
{
    return request->stage == IN_OUTBOX || request->stage == IN_STORE;
}

bool simba__requests_answered(const simba_request *request)
{
    return request->stage == COMPLETED;
}

void simba__requests_complete(simba__requests *requests, simba_request *request)
{
    SIMBA__ASSERT(request->stage == IN_STORE);
    remove_outstanding(requests, request);
    request->stage = COMPLETED;
    request->queue_next = NULL;
    *requests->completed_last = request;
    requests->completed_last = &request->queue_next;
}

simba_request *simba__requests_take(simba__requests *requests)
{
    if (!requests->completed_first)
        return NULL;
    simba_request *request = take_first(&requests->completed_first, &requests->completed_last);
    request->stage = IDLE;
    return request;
}

void simba__requests_close(simba__requests *requests)
{
    SIMBA__ASSERT(!requests->outstanding);
    requests->host->timer_clear(requests->host, &requests->deadline);
}
