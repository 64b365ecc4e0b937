/* See zk_machine_latch.h. One queue is the truth. Each client has a server of its own, which has not heard of the latest changes if
 * it lags behind. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_machine_latch.h"

/* --- the queue ------------------------------------------------------------------------------------------ */

unsigned latch_find(const queue *q, child which)
{
    unsigned i = 0;
    while (i < q->count && (q->children[i].client != which.client || q->children[i].session != which.session ||
                            q->children[i].number != which.number))
        i++;
    return i;
}

bool latch_has(const queue *q, child which)
{
    return which.client < CLIENTS && latch_find(q, which) < q->count;
}

static void change(queue *q, news what)
{
    switch ((news_kind)what.kind) {
    case NO_NEWS:
        break;
    case CHILD_MADE:
        if (q->count == CHILDREN)
            abort();
        q->children[q->count++] = what.child;
        q->next++;
        break;
    case CHILD_REMOVED: {
        const unsigned at = latch_find(q, what.child);
        memmove(&q->children[at], &q->children[at + 1], (q->count - at - 1U) * sizeof *q->children);
        memset(&q->children[--q->count], 0, sizeof *q->children);
        break;
    }
    case MUTEX_MADE:
    case MUTEX_REMOVED:
        q->is_there = what.kind == MUTEX_MADE;
        q->next = 0;
        break;
    }
}

/* What this client's server knows. All that is not known yet is taken back from the truth, the latest first. */
queue latch_view_of(const world *w, const client *c)
{
    queue q = w->truth;
    for (unsigned i = 0; i < c->behind; i++) {
        const news last = w->news[w->news_count - 1U - i];
        switch ((news_kind)last.kind) {
        case NO_NEWS:
            break;
        case CHILD_MADE:
            change(&q, (news){.kind = CHILD_REMOVED, .child = last.child});
            q.next--;
            break;
        case CHILD_REMOVED: { /* it was at its place by number */
            unsigned at = 0;
            while (at < q.count && q.children[at].number < last.child.number)
                at++;
            memmove(&q.children[at + 1], &q.children[at], (q.count - at) * sizeof *q.children);
            q.children[at] = last.child;
            q.count++;
            break;
        }
        case MUTEX_MADE:
            q.is_there = false;
            break;
        case MUTEX_REMOVED:
            q.is_there = true;
            break;
        }
    }
    q.next = 0;
    return q;
}

/* Behind what is answered, and before what is not. */
void latch_tell_event(client *c, call_kind kind, child about)
{
    if (!c->is_connected)
        return;
    if (c->calls == CALLS)
        abort();
    memmove(&c->call[c->answered + 1], &c->call[c->answered], (c->calls - c->answered) * sizeof *c->call);
    call *told = &c->call[c->answered++];
    memset(told, 0, sizeof *told);
    told->kind = (uint8_t)kind;
    told->child = about;
    c->calls++;
}

/* --- what is agreed on ---------------------------------------------------------------------------------- */

/* A server hears the next. */
void latch_apply(world *w, client *c)
{
    const news what = w->news[w->news_count - c->behind];
    c->behind--;
    if (what.kind == CHILD_REMOVED && latch_is_same(c->watch_before, what.child)) {
        latch_tell_event(c, TOLD_BEFORE, what.child);
        c->watch_before = latch_nobody;
    }
    if (what.kind == CHILD_REMOVED && latch_is_same(c->watch_guard, what.child)) {
        latch_tell_event(c, TOLD_GUARD, what.child);
        c->watch_guard = latch_nobody;
    }
}

void latch_forget_news(world *w)
{
    unsigned most = 0;
    for (unsigned i = 0; i < latch_clients(w); i++)
        most = w->client[i].behind > most ? w->client[i].behind : most;
    const unsigned drop = w->news_count - most;
    memmove(w->news, w->news + drop, most * sizeof *w->news);
    memset(w->news + most, 0, drop * sizeof *w->news);
    w->news_count = (uint8_t)most;
}

void latch_agree(world *w, news_kind kind, child which)
{
    latch_forget_news(w);
    if (w->news_count == NEWS)
        for (unsigned i = 0; i < latch_clients(w); i++)
            if (w->client[i].behind == NEWS)
                latch_apply(w, &w->client[i]);
    latch_forget_news(w);
    news *what = &w->news[w->news_count++];
    memset(what, 0, sizeof *what);
    what->kind = (uint8_t)kind;
    what->child = which;
    w->zxid++;
    change(&w->truth, *what);
    for (unsigned i = 0; i < latch_clients(w); i++) {
        client *c = &w->client[i];
        c->behind++;
        while (c->behind > w->head.bounds[LAG])
            latch_apply(w, c);
    }
}

static void catch_up(world *w, client *c)
{
    while (c->behind > 0)
        latch_apply(w, c);
}

/* The leader carries a write out. False: there is no such node. */
bool latch_carry_out(world *w, client *c, call *what)
{
    child about = what->child;
    switch ((call_kind)what->kind) {
    case CALL_CONTAINERS:
        if (!w->truth.is_there)
            latch_agree(w, MUTEX_MADE, latch_nobody);
        return true;
    case CALL_CREATE:
        if (!w->truth.is_there)
            return false;
        about = (child){(uint8_t)latch_index_of(w, c), c->session, w->truth.next, (int16_t)(w->zxid + 1)};
        what->child = about;
        latch_agree(w, CHILD_MADE, about);
        return true;
    case CALL_DELETE: {
        const unsigned at = latch_find(&w->truth, about);
        if (at == w->truth.count)
            return false;
        latch_agree(w, CHILD_REMOVED, w->truth.children[at]);
        return true;
    }
    default:
        return true;
    }
}

bool latch_is_write(const call *what)
{
    return what->kind == CALL_CONTAINERS || what->kind == CALL_CREATE || what->kind == CALL_DELETE;
}

static void answer_read(call *what, client *c, const queue *view)
{
    const unsigned at = latch_find(view, what->child);
    const bool found = what->child.client < CLIENTS && at < view->count;
    if (found)
        what->child = view->children[at];
    switch ((call_kind)what->kind) {
    case CALL_LIST:
        what->is_missing = !view->is_there;
        what->is_listed = view->is_there;
        what->list = *view;
        break;
    case CALL_GUARD:
        c->watch_guard = found ? what->child : latch_nobody;
        what->is_missing = !found;
        break;
    case CALL_BEFORE:
        c->watch_before = found ? what->child : latch_nobody;
        what->is_missing = !found;
        break;
    case CALL_OWN:
    case CALL_FIRST:
        what->is_missing = !found;
        break;
    default:
        break;
    }
}

/* The first question is answered. The answer comes behind all that watches tell about what was agreed on before. */
void latch_serve(world *w, client *c)
{
    call what = c->call[c->answered];
    if (latch_is_write(&what)) {
        what.is_missing = !latch_carry_out(w, c, &what);
        catch_up(w, c);
    } else if (what.kind == CALL_SYNC) {
        catch_up(w, c);
    } else {
        const queue view = latch_view_of(w, c);
        answer_read(&what, c, &view);
    }
    c->call[c->answered++] = what;
}
