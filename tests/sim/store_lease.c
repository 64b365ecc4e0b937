/* The models of the lease stores. core/row.h decides who may have a mutex, as in the real ones. They differ in how
 * waiters learn of a release: the store pushes to all of them (memory, SQLite), invites the first in a queue
 * (Redis), or tells nobody and the client asks now and then (MySQL), which needs nothing here. */
#include <string.h>

#include "sim/world.h"

#define KEPT_NS (100 * SIM_MS) /* how long a mutex is kept for the one that was invited */

/* --- the queue -------------------------------------------------------------------------------------- */

static bool same_id(const sim *s, unsigned a, unsigned b)
{
    return strcmp(s->handle[a].id, s->handle[b].id) == 0;
}

static bool leave_queue(sim *s, unsigned mutex, unsigned handle)
{
    sim_waiting *waiting = &s->store.waiting[mutex];
    for (unsigned i = 0; i < waiting->count; i++)
        if (same_id(s, waiting->handle[i], handle)) {
            memmove(&waiting->handle[i], &waiting->handle[i + 1], waiting->count - i - 1);
            waiting->count--;
            return true;
        }
    return false;
}

static void join_queue(sim *s, unsigned mutex, unsigned handle)
{
    sim_waiting *waiting = &s->store.waiting[mutex];
    for (unsigned i = 0; i < waiting->count; i++)
        if (same_id(s, waiting->handle[i], handle))
            return;
    waiting->handle[waiting->count++] = (uint8_t)handle;
}

/* Invite the process that listens under this id. False: none does. */
static bool publish(sim *s, unsigned mutex, unsigned handle, int64_t after_ns)
{
    const simba_push push = {.kind = SIMBA_PUSH_RELEASED};
    bool heard = false;
    for (unsigned i = 0; i < SIM_CONTENDERS && i < s->plan->contenders; i++) {
        const unsigned p = s->handle[i].process;
        if (s->handle[i].mutex != mutex || !same_id(s, i, handle) || !s->store.subscribed[p][mutex])
            continue;
        store_push(s, p, mutex, &push, after_ns);
        heard = true;
    }
    return heard;
}

static void invite_next(sim *s, unsigned mutex)
{
    sim_waiting *waiting = &s->store.waiting[mutex];
    bool heard = false;
    while (waiting->count > 0 && !heard) {
        const unsigned next = waiting->handle[0];
        leave_queue(s, mutex, next);
        heard = publish(s, mutex, next, 0);
        s->store.invited[mutex] = (uint8_t)next;
    }
    s->store.invited_until[mutex] = heard ? store_clock(s) + KEPT_NS : 0;
    /* They ask when the time of the invited one is over on the store's clock, which may be slow. */
    const int64_t kept_ns = sim_clock_when(&s->store.clock, s->store.invited_until[mutex]) - s->now;
    unsigned standing_by = 0;
    for (unsigned i = 0; heard && i < waiting->count && standing_by < 2; i++)
        standing_by += publish(s, mutex, waiting->handle[i], kept_ns);
}

/* A contender may take the mutex on an invitation to another contender of the same process. */
static bool is_invited(const sim *s, unsigned mutex, unsigned process)
{
    for (unsigned i = 0; i < s->plan->contenders; i++)
        if (s->handle[i].mutex == mutex && s->handle[i].process == process && same_id(s, i, s->store.invited[mutex]))
            return true;
    return false;
}

static bool is_kept(const sim *s, unsigned mutex)
{
    return store_clock(s) < s->store.invited_until[mutex];
}

/* --- news ------------------------------------------------------------------------------------------- */

static void tell_all(sim *s, unsigned mutex, const simba_push *push)
{
    for (unsigned p = 0; p < s->plan->processes; p++)
        if (s->store.subscribed[p][mutex])
            store_push(s, p, mutex, push, 0);
}

static void spread_news(sim *s, unsigned mutex)
{
    const simba__row *row = &s->store.row[mutex];
    const simba__row_now now = store_now(s);
    const bool is_free = row->owner.id[0] == '\0';
    simba_push push = {.kind = is_free ? SIMBA_PUSH_RELEASED : SIMBA_PUSH_ACQUIRED};
    if (s->plan->store != SIM_STORE_PUSH)
        return;
    if (s->plan->queue && is_free) {
        push.kind = SIMBA_PUSH_FREED;
        push.owner.token = row->token;
    } else if (!is_free) {
        simba__row_show(row, now, &push.owner, &push.now_ms);
    }
    tell_all(s, mutex, &push);
    if (s->plan->queue && is_free)
        invite_next(s, mutex);
}

/* --- requests --------------------------------------------------------------------------------------- */

static void changed(sim *s, unsigned mutex, const simba__row *before, unsigned handle, bool straggler)
{
    const simba__row *after = &s->store.row[mutex];
    const bool had = before->owner.id[0] != '\0';
    const bool has = after->owner.id[0] != '\0';
    if (has && (!had || before->owner.token != after->owner.token || before->nonce != after->nonce))
        check_granted(s, mutex, handle, after->owner.token, straggler);
    else if (has && straggler)
        s->checks.straggled[mutex] = true;
    else if (!has && had)
        check_freed(s, mutex);
    if (had != has || before->owner.token != after->owner.token)
        spread_news(s, mutex);
}

static void queue_up(sim *s, const sim_message *message, bool won)
{
    const simba_request *request = &message->request;
    const unsigned m = message->mutex;
    if (!s->plan->queue)
        return;
    if (won && request->op == SIMBA_OP_ACQUIRE) {
        leave_queue(s, m, message->handle);
        /* Another contender of the same process was quicker than the one that was invited, which still waits. */
        if (is_kept(s, m) && s->store.invited[m] != message->handle)
            join_queue(s, m, s->store.invited[m]);
        s->store.invited_until[m] = 0;
    } else if (request->op == SIMBA_OP_ACQUIRE && request->queue) {
        join_queue(s, m, message->handle);
    } else if (request->op == SIMBA_OP_RELEASE && !won) {
        /* A contender that leaves and is not in the queue has just been invited: the invitation goes on to the next. */
        const bool kept = is_kept(s, m);
        const bool was_queued = leave_queue(s, m, message->handle);
        const bool invited = kept && is_invited(s, m, message->process);
        if (simba__row_is_free(&s->store.row[m], store_now(s)) && (invited || !(was_queued || kept)))
            invite_next(s, m);
    }
}

/* How many come before it, plus one. */
static int64_t place_of(const sim *s, const sim_message *message)
{
    const sim_waiting *waiting = &s->store.waiting[message->mutex];
    for (unsigned i = 0; i < waiting->count; i++)
        if (same_id(s, waiting->handle[i], message->handle))
            return i + 1;
    return 0;
}

static void refuse_for_the_invited(sim *s, sim_message *message)
{
    simba_reply *reply = &message->request.reply;
    const simba__row_now now = store_now(s);
    memset(reply, 0, sizeof *reply);
    strcpy(reply->owner.id, "(invited)");
    reply->now_ms = now.epoch_us / 1000;
    const int64_t left_ns = s->store.invited_until[message->mutex] - store_clock(s);
    reply->owner.ttl_at_ms = reply->owner.transition_at_ms = reply->now_ms + left_ns / SIM_MS + 1;
}

static void answer(sim *s, const sim_message *message)
{
    uint32_t index;
    const sim_message copy = *message;
    sim_message *reply = net_message(s, MSG_REPLY, copy.process, &index);
    *reply = copy;
    reply->kind = MSG_REPLY;
    net_to_process(s, index, false, 0);
}

static void note_request(sim *s, sim_message *message)
{
    simba__row *row = &s->store.row[message->mutex];
    store_remember(s, message->mutex);
    sim_message copy = *message;
    const bool written = simba__row_apply(row, store_now(s), &copy.request);
    copy.note = (sim_note){row->note_token, row->note_number};
    if (written && s->plan->store == SIM_STORE_PUSH)
        tell_all(s, copy.mutex, &(simba_push){.kind = SIMBA_PUSH_NOTED});
    answer(s, &copy);
}

void lease_request(sim *s, sim_message *message)
{
    if (notes_is_about(message->request.op)) {
        note_request(s, message);
        return;
    }
    const unsigned m = message->mutex;
    simba__row *row = &s->store.row[m];
    const simba__row before = *row;
    const bool straggler = !net_store_is_awaited(s, message);
    if (message->request.op == SIMBA_OP_ACQUIRE && s->plan->queue && simba__row_is_free(row, store_now(s)) &&
        is_kept(s, m) && !is_invited(s, m, message->process)) {
        queue_up(s, message, false);
        refuse_for_the_invited(s, message);
        answer(s, message);
        return;
    }
    store_remember(s, m);
    sim_message copy = *message; /* pushes may move the messages */
    const bool did = simba__row_apply(row, store_now(s), &copy.request);
    queue_up(s, &copy, did);
    copy.request.reply.place = copy.request.op == SIMBA_OP_ACQUIRE && !did ? place_of(s, &copy) : 0;
    if (did)
        changed(s, m, &before, copy.handle, straggler);
    answer(s, &copy);
}

void lease_force_release(sim *s, unsigned mutex)
{
    simba_request request = {.op = SIMBA_OP_FORCE_RELEASE, .id = ""};
    const simba__row before = s->store.row[mutex];
    store_remember(s, mutex);
    if (!simba__row_apply(&s->store.row[mutex], store_now(s), &request))
        return;
    check_revoked(s, mutex, before.owner.token);
    changed(s, mutex, &before, SIM_NOBODY, false);
}
