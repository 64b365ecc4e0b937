/* zk_latch, as it ships, of two or three clients, and the queue of one mutex. Each client has a session, a connection to a server
 * that may lag behind, and its questions and answers in order on it. Watches tell late, connections break before or after what
 * was asked for is done, sessions end, somebody else removes children, and the server removes the empty node of the mutex, whose
 * children are then numbered from 0 again.
 *
 * S1: who leads by its latch has the first child of all. S3: tokens grow from leader to leader. S5: who has left has no child. L1, L2:
 * when all is well again, somebody who wants it leads, and when that one leaves, the next. */
#include <stdlib.h>
#include <string.h>

#include "backends/zookeeper/latch.h"
#include "sim/machine.h"
#include "util/mem.h"

enum { CLIENTS = 3, CHILDREN = 6, NEWS = 4, CALLS = 12, EVENTS = 4, SETTLED = 1000, SESSIONS = 4 };

/* In the order of the table at the end. */
enum { MEMBERS, BREAKS, REMOVALS, ENDS, LEAVES, TIDIES, LAG, TRIES };

typedef struct child {
    uint8_t client, session; /* whose, and the how manieth session of that client; client CLIENTS: none */
    int16_t number, zxid;
} child;

typedef struct queue {
    bool is_there; /* the node of the mutex */
    uint8_t count;
    int16_t next; /* number */
    child children[CHILDREN];
} queue;

/* What was agreed on: a child was made or removed, or the node of the mutex. */
typedef enum news_kind { NO_NEWS, CHILD_MADE, CHILD_REMOVED, MUTEX_MADE, MUTEX_REMOVED } news_kind;

typedef struct news {
    uint8_t kind;
    child child;
} news;

/* The procedures of a latch: the latest of those of which only the latest counts, one before it that has calls in flight, and
 * the one that sets the guard. An orphan is what is left of one whose latch is no more. */
enum { LATEST, OLDER, GUARDING, PROCEDURES, ARMING = PROCEDURES, ORPHAN };

/* Calls, in the order in which they were made. Those that are answered are at the beginning, with what was answered; among them is
 * what watches have to tell. */
typedef enum call_kind {
    NO_CALL,
    CALL_SYNC,
    CALL_PARENTS,
    CALL_CREATE,
    CALL_LIST,
    CALL_OWN,
    CALL_GUARD,
    CALL_LEADER,
    CALL_BEFORE,
    CALL_DELETE,
    CALL_ARM,
    TOLD_BEFORE, /* by a watch */
    TOLD_GUARD,
    TOLD_MUTEX,
} call_kind;

typedef struct call {
    uint8_t kind, procedure;
    bool is_missing; /* answered: there is no such node */
    bool is_listed;  /* LIST: as it was then */
    child child;     /* what it is about */
    queue list;
} call;

typedef struct client {
    bool is_connected, wants, has_later;
    bool runs[PROCEDURES];
    int16_t forced; /* the zxid of a child by which it led, and which somebody has removed; 0: none */
    uint8_t session;
    uint8_t behind;   /* news that its server has not heard of */
    uint8_t answered; /* calls */
    uint8_t calls;
    call call[CALLS];
    child watch_before, watch_guard; /* at the server */
    child slot_before, slot_guard;   /* what the client wants to hear of */
    bool has_before, has_guard;      /* the server has said that it watches that */
    bool watch_mutex, is_arming, has_won;
    child name, leader[PROCEDURES], before[PROCEDURES]; /* in place of pointers */
    zk_numbers numbers;
    zk_latch latch;
    zk_attempt attempt[PROCEDURES];
} client;

typedef struct world {
    machine_head head;
    uint8_t left[TRIES + 1]; /* of what the bounds allow */
    queue truth;
    uint8_t news_count;
    news news[NEWS]; /* that not all servers have heard of; the latest last */
    int16_t zxid, token;
    client client[CLIENTS];
} world;

typedef enum choice_kind {
    CHOICE_DELIVER, /* the first answer */
    CHOICE_SERVE,   /* the first question */
    CHOICE_APPLY,   /* what was agreed on */
    CHOICE_CHORE,
    CHOICE_ARM,
    CHOICE_CONNECT,
    CHOICE_ACQUIRE,
    CHOICE_LEAVE,
    CHOICE_BREAK,
    CHOICE_END, /* the session */
    CHOICE_REMOVE,
    CHOICE_TIDY,
} choice_kind;

static const child nobody = {.client = CLIENTS};

/* By name. */
static bool is_same(child a, child b)
{
    return a.client < CLIENTS && a.client == b.client && a.session == b.session && a.number == b.number;
}

static unsigned clients(const world *w)
{
    return w->head.bounds[MEMBERS];
}

static unsigned index_of(const world *w, const client *c)
{
    return (unsigned)(c - w->client);
}

/* --- names in place of pointers ------------------------------------------------------------------------- */

/* It takes a while to make them, so all of them are made once. */
static const char *prefix_of(child which)
{
    static _Thread_local char prefixes[CLIENTS][SESSIONS][ZK_PREFIX_MAX];
    char *prefix = prefixes[which.client][which.session];
    if (!prefix[0])
        simba__zk_prefix(simba__zk_salted(which.client + 1U, which.session), "id", prefix);
    return prefix;
}

static char *text_of(child which)
{
    if (which.client == CLIENTS)
        return NULL;
    char *text = simba__malloc(ZK_PREFIX_MAX + 16);
    if (!text)
        abort();
    snprintf(text, ZK_PREFIX_MAX + 16, "%s%010d", prefix_of(which), which.number);
    return text;
}

/* The zxid is no part of a name. */
static child child_of(const char *text)
{
    if (!text)
        return nobody;
    for (unsigned i = 0; i < CLIENTS; i++)
        for (unsigned session = 0; session < SESSIONS; session++) {
            child which = {.client = (uint8_t)i, .session = (uint8_t)session};
            const char *prefix = prefix_of(which);
            if (strncmp(text, prefix, strlen(prefix)) != 0)
                continue;
            which.number = (int16_t)atoi(text + strlen(prefix));
            return which;
        }
    abort();
}

static void wake(client *c, child self)
{
    strcpy(c->latch.prefix, prefix_of(self));
    c->latch.numbers = &c->numbers;
    c->latch.name = text_of(c->name);
    for (unsigned i = 0; i < PROCEDURES; i++) {
        c->attempt[i].leader = text_of(c->leader[i]);
        c->attempt[i].before = text_of(c->before[i]);
    }
}

static void sleep_again(client *c)
{
    c->name = child_of(c->latch.name);
    simba__zk_latch_fini(&c->latch);
    c->latch.numbers = NULL;
    memset(c->latch.prefix, 0, sizeof c->latch.prefix);
    for (unsigned i = 0; i < PROCEDURES; i++) {
        c->leader[i] = child_of(c->attempt[i].leader);
        c->before[i] = child_of(c->attempt[i].before);
        simba__free(c->attempt[i].leader);
        simba__free(c->attempt[i].before);
        c->attempt[i].leader = c->attempt[i].before = NULL;
    }
}

static void finish(client *c, unsigned procedure)
{
    c->runs[procedure] = false;
    simba__zk_attempt_forget(&c->attempt[procedure]);
    memset(&c->attempt[procedure], 0, sizeof c->attempt[procedure]);
}

/* A latch that has no child. What was asked for the last one is of no use. */
static void begin_latch(world *w, client *c)
{
    simba__zk_latch_fini(&c->latch);
    simba__zk_latch_init(&c->latch, &c->numbers, index_of(w, c) + 1U, "id", c->session);
    for (unsigned i = 0; i < PROCEDURES; i++)
        finish(c, i);
    for (unsigned i = 0; i < c->calls; i++)
        if (c->call[i].procedure < PROCEDURES) {
            c->call[i].procedure = ORPHAN;
            c->call[i].is_listed = false;
            memset(&c->call[i].list, 0, sizeof c->call[i].list);
        }
    c->slot_before = c->slot_guard = nobody;
    c->has_before = c->has_guard = c->has_later = false;
    c->forced = 0;
}

/* --- the queue ------------------------------------------------------------------------------------------ */

static unsigned find(const queue *q, child which)
{
    unsigned i = 0;
    while (i < q->count && (q->children[i].client != which.client || q->children[i].session != which.session ||
                            q->children[i].number != which.number))
        i++;
    return i;
}

static bool has(const queue *q, child which)
{
    return which.client < CLIENTS && find(q, which) < q->count;
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
        const unsigned at = find(q, what.child);
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
static queue view_of(const world *w, const client *c)
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

/* --- questions and answers ------------------------------------------------------------------------------ */

static bool is_room(const client *c, unsigned calls)
{
    return c->calls + calls <= CALLS - EVENTS; /* watches need room as well */
}

static call *ask(client *c, call_kind kind, unsigned procedure, child about)
{
    if (c->calls == CALLS)
        abort();
    call *asked = &c->call[c->calls++];
    memset(asked, 0, sizeof *asked);
    asked->kind = (uint8_t)kind;
    asked->procedure = (uint8_t)procedure;
    asked->child = about;
    return asked;
}

/* Behind what is answered, and before what is not. */
static void tell_event(client *c, call_kind kind, child about)
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

static void drop_first(client *c)
{
    memmove(&c->call[0], &c->call[1], (--c->calls) * sizeof *c->call);
    memset(&c->call[c->calls], 0, sizeof *c->call);
    c->answered -= c->answered > 0;
}

static unsigned awaited(const client *c, unsigned procedure)
{
    unsigned count = 0;
    for (unsigned i = 0; i < c->calls; i++)
        count += c->call[i].kind < TOLD_BEFORE && c->call[i].procedure == procedure;
    return count;
}

/* --- what is agreed on ---------------------------------------------------------------------------------- */

/* A server hears the next. */
static void apply(world *w, client *c)
{
    const news what = w->news[w->news_count - c->behind];
    c->behind--;
    if (what.kind == CHILD_REMOVED && is_same(c->watch_before, what.child)) {
        tell_event(c, TOLD_BEFORE, what.child);
        c->watch_before = nobody;
    }
    if (what.kind == CHILD_REMOVED && is_same(c->watch_guard, what.child)) {
        tell_event(c, TOLD_GUARD, what.child);
        c->watch_guard = nobody;
    }
    if (what.kind == MUTEX_REMOVED && c->watch_mutex) {
        tell_event(c, TOLD_MUTEX, nobody);
        c->watch_mutex = false;
    }
}

static void forget_news(world *w)
{
    unsigned most = 0;
    for (unsigned i = 0; i < clients(w); i++)
        most = w->client[i].behind > most ? w->client[i].behind : most;
    const unsigned drop = w->news_count - most;
    memmove(w->news, w->news + drop, most * sizeof *w->news);
    memset(w->news + most, 0, drop * sizeof *w->news);
    w->news_count = (uint8_t)most;
}

static void agree(world *w, news_kind kind, child which)
{
    forget_news(w);
    if (w->news_count == NEWS)
        for (unsigned i = 0; i < clients(w); i++)
            if (w->client[i].behind == NEWS)
                apply(w, &w->client[i]);
    forget_news(w);
    news *what = &w->news[w->news_count++];
    memset(what, 0, sizeof *what);
    what->kind = (uint8_t)kind;
    what->child = which;
    w->zxid++;
    change(&w->truth, *what);
    for (unsigned i = 0; i < clients(w); i++) {
        client *c = &w->client[i];
        c->behind++;
        while (c->behind > w->head.bounds[LAG])
            apply(w, c);
    }
}

static void catch_up(world *w, client *c)
{
    while (c->behind > 0)
        apply(w, c);
}

/* The leader carries a write out. False: there is no such node. */
static bool carry_out(world *w, client *c, call *what)
{
    child about = what->child;
    switch ((call_kind)what->kind) {
    case CALL_PARENTS:
        if (!w->truth.is_there)
            agree(w, MUTEX_MADE, nobody);
        return true;
    case CALL_CREATE:
        if (!w->truth.is_there)
            return false;
        about = (child){(uint8_t)index_of(w, c), c->session, w->truth.next, (int16_t)(w->zxid + 1)};
        what->child = about;
        agree(w, CHILD_MADE, about);
        return true;
    case CALL_DELETE: {
        const unsigned at = find(&w->truth, about);
        if (at == w->truth.count)
            return false;
        agree(w, CHILD_REMOVED, w->truth.children[at]);
        return true;
    }
    default:
        return true;
    }
}

static bool is_write(const call *what)
{
    return what->kind == CALL_PARENTS || what->kind == CALL_CREATE || what->kind == CALL_DELETE;
}

static void answer_read(call *what, client *c, const queue *view)
{
    const unsigned at = find(view, what->child);
    const bool found = what->child.client < CLIENTS && at < view->count;
    if (found)
        what->child = view->children[at];
    switch ((call_kind)what->kind) {
    case CALL_LIST:
        what->is_missing = !view->is_there;
        what->is_listed = view->is_there;
        what->list = *view;
        break;
    case CALL_ARM:
        what->is_missing = !view->is_there;
        c->watch_mutex = view->is_there;
        break;
    case CALL_GUARD:
        c->watch_guard = found ? what->child : nobody;
        what->is_missing = !found;
        break;
    case CALL_BEFORE:
        c->watch_before = found ? what->child : nobody;
        what->is_missing = !found;
        break;
    case CALL_OWN:
    case CALL_LEADER:
        what->is_missing = !found;
        break;
    default:
        break;
    }
}

/* The first question is answered. The answer comes behind all that watches tell about what was agreed on before. */
static void serve(world *w, client *c)
{
    call what = c->call[c->answered];
    if (is_write(&what)) {
        what.is_missing = !carry_out(w, c, &what);
        catch_up(w, c);
    } else if (what.kind == CALL_SYNC) {
        catch_up(w, c);
    } else {
        const queue view = view_of(w, c);
        answer_read(&what, c, &view);
    }
    c->call[c->answered++] = what;
}

/* --- the client ----------------------------------------------------------------------------------------- */

static void take(world *w, client *c, unsigned procedure, zk_move move);

static void start(world *w, client *c, unsigned procedure, zk_wish wish)
{
    simba__zk_attempt_forget(&c->attempt[procedure]);
    memset(&c->attempt[procedure], 0, sizeof c->attempt[procedure]);
    c->attempt[procedure].wish = wish;
    c->runs[procedure] = true;
    if (c->is_connected)
        take(w, c, procedure, simba__zk_latch_begin(&c->latch, &c->attempt[procedure]));
}

static void raise_alert(world *w, client *c, zk_alert alert)
{
    switch (alert) {
    case ZK_ALERT_NONE:
        break;
    case ZK_ALERT_LOOK:
        if (!c->runs[LATEST])
            start(w, c, LATEST, ZK_WISH_LOOK);
        break;
    case ZK_ALERT_GUARD:
        c->has_later = true;
        break;
    case ZK_ALERT_REVOKED: /* it asks, and is told */
        c->wants = false;
        begin_latch(w, c);
        break;
    }
}

static void make_calls(client *c, unsigned procedure, unsigned calls)
{
    static const struct {
        unsigned bit;
        call_kind kind;
    } all[] = {{ZK_CALL_SYNC, CALL_SYNC},     {ZK_CALL_PARENTS, CALL_PARENTS}, {ZK_CALL_CREATE, CALL_CREATE},
               {ZK_CALL_LIST, CALL_LIST},     {ZK_CALL_OWN, CALL_OWN},         {ZK_CALL_GUARD, CALL_GUARD},
               {ZK_CALL_LEADER, CALL_LEADER}, {ZK_CALL_BEFORE, CALL_BEFORE},   {ZK_CALL_DELETE, CALL_DELETE}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        const zk_attempt *attempt = &c->attempt[procedure];
        if (!(calls & all[i].bit))
            continue;
        const char *name = all[i].kind == CALL_LEADER   ? attempt->leader
                           : all[i].kind == CALL_BEFORE ? attempt->before
                                                        : c->latch.name;
        const child about = all[i].kind == CALL_CREATE ? nobody : child_of(name);
        ask(c, all[i].kind, procedure, about);
        if (all[i].kind == CALL_BEFORE) {
            c->slot_before = about;
            c->has_before = false;
        } else if (all[i].kind == CALL_GUARD) {
            c->slot_guard = about;
            c->has_guard = false;
        }
    }
}

static void won(world *w, client *c)
{
    const int16_t token = (int16_t)c->latch.czxid;
    machine_tell(&w->head, "client %u leads by child %d", index_of(w, c) + 1, child_of(c->latch.name).number);
    if (token <= w->token && token != c->forced)
        machine_broken(&w->head, "S3", "client %u leads under token %d after %d", index_of(w, c) + 1, token, w->token);
    w->token = token > w->token ? token : w->token;
    c->has_later = c->has_won = true;
}

static void left(world *w, client *c)
{
    for (unsigned i = 0; i < w->truth.count; i++)
        if (w->truth.children[i].client == index_of(w, c))
            machine_broken(&w->head, "S5", "client %u has left, and its child %d is there", index_of(w, c) + 1,
                           w->truth.children[i].number);
    for (unsigned i = c->answered; i < c->calls; i++)
        if (c->call[i].kind == CALL_CREATE)
            machine_broken(&w->head, "S5", "client %u has left, and is about to make a child", index_of(w, c) + 1);
    c->wants = false;
    begin_latch(w, c);
}

static void take(world *w, client *c, unsigned procedure, zk_move move)
{
    const zk_wish wish = c->attempt[procedure].wish;
    if (move.outcome == ZK_GO) {
        make_calls(c, procedure, move.calls);
        return;
    }
    finish(c, procedure);
    switch (move.outcome) {
    case ZK_WON:
        won(w, c);
        break;
    case ZK_LOST:
        c->wants = false;
        begin_latch(w, c);
        break;
    case ZK_FREED:
    case ZK_NOTHING:
        if (wish == ZK_WISH_LEAVE)
            left(w, c);
        break;
    case ZK_TAKEN:
        raise_alert(w, c, simba__zk_latch_taken(&c->latch));
        break;
    case ZK_REFUSED:
        c->wants = false; /* until it asks again */
        break;
    case ZK_NO_NUMBERS:
        machine_broken(&w->head, "L1", "no numbers are left");
        break;
    default:
        break;
    }
}

static void answer_list(client *c, unsigned procedure, const queue *list)
{
    char *names[CHILDREN];
    for (unsigned i = 0; i < list->count; i++)
        names[i] = text_of(list->children[i]);
    simba__zk_latch_listed(&c->latch, &c->attempt[procedure], names, list->count);
    for (unsigned i = 0; i < list->count; i++)
        simba__free(names[i]);
}

static void vanished(client *c, unsigned procedure, unsigned which)
{
    simba__zk_latch_vanished(&c->attempt[procedure], which);
}

/* The watch is set, or there is nothing to watch. */
static void answer_watch(child *slot, bool *is_set, const call *what)
{
    if (!is_same(*slot, what->child))
        return; /* another one is wanted by now */
    *is_set = !what->is_missing;
    if (what->is_missing)
        *slot = nobody;
}

/* As contend.c does. */
static void take_answer(client *c, const call *what)
{
    const unsigned procedure = what->procedure;
    switch ((call_kind)what->kind) {
    case CALL_CREATE:
        if (what->is_missing) {
            simba__zk_latch_not_made(&c->latch, true);
            simba__zk_latch_mutex_missing(&c->attempt[procedure]);
        } else {
            char *name = text_of(what->child);
            simba__zk_latch_made(&c->latch, name, what->child.zxid, 1);
            simba__free(name);
        }
        break;
    case CALL_LIST:
        if (what->is_missing)
            simba__zk_latch_mutex_missing(&c->attempt[procedure]);
        else
            answer_list(c, procedure, &what->list);
        break;
    case CALL_OWN:
    case CALL_GUARD:
        if (what->kind == CALL_GUARD)
            answer_watch(&c->slot_guard, &c->has_guard, what);
        if (what->is_missing)
            vanished(c, procedure, ZK_CALL_OWN);
        else
            simba__zk_latch_own(&c->latch, what->child.zxid, 1, what->kind == CALL_GUARD && c->has_guard);
        break;
    case CALL_LEADER:
    case CALL_BEFORE:
        if (what->kind == CALL_BEFORE)
            answer_watch(&c->slot_before, &c->has_before, what);
        if (what->is_missing)
            vanished(c, procedure, what->kind == CALL_LEADER ? ZK_CALL_LEADER : ZK_CALL_BEFORE);
        break;
    case CALL_DELETE:
        if (what->is_missing)
            vanished(c, procedure, ZK_CALL_DELETE);
        break;
    case CALL_ARM:
        c->is_arming = false;
        c->numbers.watched = !what->is_missing;
        break;
    default:
        break;
    }
}

static void go_on(world *w, client *c, unsigned procedure)
{
    if (procedure >= PROCEDURES || !c->runs[procedure] || awaited(c, procedure) > 0)
        return;
    if (procedure == OLDER)
        finish(c, OLDER);
    else
        take(w, c, procedure, simba__zk_latch_step(&c->latch, &c->attempt[procedure]));
}

static void deliver(world *w, client *c)
{
    const call what = c->call[0];
    drop_first(c);
    switch ((call_kind)what.kind) {
    case TOLD_BEFORE:
        if (!is_same(c->slot_before, what.child))
            break;
        c->slot_before = nobody;
        c->has_before = false;
        raise_alert(w, c, simba__zk_latch_before_fired(&c->latch, true));
        break;
    case TOLD_GUARD:
        if (!is_same(c->slot_guard, what.child))
            break;
        c->slot_guard = nobody;
        c->has_guard = false;
        raise_alert(w, c, simba__zk_latch_guard_fired(&c->latch, true));
        break;
    case TOLD_MUTEX:
        simba__zk_numbers_forget(&c->numbers);
        break;
    default:
        if (what.procedure == ORPHAN)
            break;
        take_answer(c, &what);
        go_on(w, c, what.procedure);
        break;
    }
}

static void drop_calls(client *c)
{
    memset(c->call, 0, sizeof c->call);
    c->calls = c->answered = 0;
}

static void disconnect(client *c)
{
    for (unsigned i = 0; i < c->calls; i++)
        if (c->call[i].kind == CALL_CREATE && c->call[i].procedure != ORPHAN)
            simba__zk_latch_not_made(&c->latch, false);
    drop_calls(c);
    if (!c->has_before)
        c->slot_before = nobody;
    if (!c->has_guard)
        c->slot_guard = nobody;
    c->watch_before = c->watch_guard = nobody;
    c->is_connected = c->is_arming = c->watch_mutex = false;
    simba__zk_latch_disconnected(&c->latch);
    simba__zk_numbers_forget(&c->numbers);
    if (c->runs[OLDER])
        finish(c, OLDER);
}

/* The first of its questions are carried out all the same, or have been, and the answers are lost. */
static void break_off(world *w, client *c, unsigned carried_out)
{
    machine_tell(&w->head, "client %u: the connection breaks, %u of its questions are carried out", index_of(w, c) + 1,
                 carried_out);
    w->left[BREAKS]--;
    for (unsigned i = 0; i < carried_out; i++) {
        call what = c->call[c->answered + i];
        (void)carry_out(w, c, &what);
    }
    disconnect(c);
}

/* The server tells at once what has happened to what was watched, in any order. */
static void connect_again(world *w, client *c, bool guard_first)
{
    const queue view = view_of(w, c);
    c->is_connected = true;
    machine_tell(&w->head, "client %u is connected", index_of(w, c) + 1);
    for (unsigned turn = 0; turn < 2; turn++) {
        const bool is_guard = (turn == 0) == guard_first;
        const child slot = is_guard ? c->slot_guard : c->slot_before;
        if (slot.client < CLIENTS && !has(&view, slot))
            tell_event(c, is_guard ? TOLD_GUARD : TOLD_BEFORE, slot);
        else if (is_guard)
            c->watch_guard = slot;
        else
            c->watch_before = slot;
    }
    for (unsigned i = 0; i < PROCEDURES; i++)
        if (c->runs[i])
            take(w, c, i, simba__zk_latch_begin(&c->latch, &c->attempt[i]));
}

/* The client has stopped to believe in it before: that is for zk-liveness to show. */
static void end_session(world *w, client *c)
{
    machine_tell(&w->head, "the session of client %u ends", index_of(w, c) + 1);
    w->left[ENDS]--;
    for (unsigned i = 0; i < w->truth.count;)
        if (w->truth.children[i].client == index_of(w, c))
            agree(w, CHILD_REMOVED, w->truth.children[i]);
        else
            i++;
    c->session++;
    c->wants = false;
    begin_latch(w, c);
}

static void leave(world *w, client *c)
{
    if (c->latch.place != ZK_LEADS)
        w->left[LEAVES]--;
    machine_tell(&w->head, "client %u leaves", index_of(w, c) + 1);
    c->wants = false;
    if (c->runs[LATEST] && awaited(c, LATEST) > 0) {
        c->attempt[OLDER] = c->attempt[LATEST];
        c->attempt[LATEST] = (zk_attempt){0};
        c->runs[OLDER] = true;
        for (unsigned i = 0; i < c->calls; i++)
            if (c->call[i].procedure == LATEST && c->call[i].kind < TOLD_BEFORE)
                c->call[i].procedure = OLDER;
    }
    c->latch.unwanted = true;
    start(w, c, LATEST, ZK_WISH_LEAVE);
    /* Also without a connection. */
    if (!c->is_connected && (c->latch.place == ZK_ABSENT || c->latch.place == ZK_REVOKED))
        take(w, c, LATEST, simba__zk_latch_begin(&c->latch, &c->attempt[LATEST]));
}

/* --- choices -------------------------------------------------------------------------------------------- */

static bool is_leaving(const client *c)
{
    return c->runs[LATEST] && c->attempt[LATEST].wish == ZK_WISH_LEAVE;
}

static void add_of_client(const world *w, machine_list *l, unsigned i)
{
    const client *c = &w->client[i];
    machine_add(l, c->is_connected && c->answered > 0, CHOICE_DELIVER, i, 0);
    machine_add(l, c->is_connected && c->answered < c->calls && is_room(c, 0), CHOICE_SERVE, i, 0);
    machine_add(l, c->behind > 0 && is_room(c, 0), CHOICE_APPLY, i, 0);
    const bool watches = c->slot_guard.client < CLIENTS && c->slot_before.client < CLIENTS;
    machine_add(l, !c->is_connected, CHOICE_CONNECT, i, 0);
    machine_add(l, !c->is_connected && watches, CHOICE_CONNECT, i, 1);
    const bool is_idle = c->is_connected && is_room(c, 3);
    machine_add(l, is_idle && c->has_later && !c->runs[GUARDING] && c->latch.place == ZK_LEADS, CHOICE_CHORE, i, 0);
    machine_add(l, is_idle && c->has_won && w->head.bounds[TIDIES] > 0 && !c->numbers.watched && !c->is_arming,
                CHOICE_ARM, i, 0);
}

static void add_wishes(const world *w, machine_list *l, unsigned i)
{
    const client *c = &w->client[i];
    const bool is_out = !c->wants && !c->runs[LATEST] && c->is_connected && is_room(c, 3);
    machine_add(l, is_out, CHOICE_ACQUIRE, i, 0);
    machine_add(l, is_out && w->left[TRIES] > 0, CHOICE_ACQUIRE, i, 1);
    machine_add(l,
                c->wants && !is_leaving(c) && !c->runs[OLDER] && is_room(c, 3) &&
                    (c->latch.place == ZK_LEADS || w->left[LEAVES] > 0),
                CHOICE_LEAVE, i, 0);
}

static void add_faults(const world *w, machine_list *l, unsigned i)
{
    const client *c = &w->client[i];
    for (unsigned n = 0; w->left[BREAKS] > 0 && c->is_connected && n <= (unsigned)(c->calls - c->answered); n++)
        if (n == 0 || is_write(&c->call[c->answered + n - 1]))
            machine_add(l, true, CHOICE_BREAK, i, n);
    machine_add(l, w->left[ENDS] > 0 && !c->is_connected, CHOICE_END, i, 0);
}

static unsigned choices(const void *of, choice *ret_choices)
{
    const world *w = of;
    machine_list l = {ret_choices, 0};
    for (unsigned i = 0; i < clients(w); i++)
        add_of_client(w, &l, i);
    for (unsigned i = 0; i < clients(w); i++)
        add_wishes(w, &l, i);
    for (unsigned i = 0; i < clients(w); i++)
        add_faults(w, &l, i);
    for (unsigned i = 0; w->left[REMOVALS] > 0 && i < w->truth.count; i++)
        machine_add(&l, true, CHOICE_REMOVE, 0, i);
    machine_add(&l, w->left[TIDIES] > 0 && w->truth.is_there && w->truth.count == 0, CHOICE_TIDY, 0, 0);
    return l.count;
}

static void check(world *w)
{
    for (unsigned i = 0; i < clients(w); i++) {
        const client *c = &w->client[i];
        if (c->latch.place != ZK_LEADS || c->latch.unwanted || c->forced == c->latch.czxid || is_leaving(c))
            continue;
        const child own = child_of(c->latch.name);
        if (!has(&w->truth, own))
            machine_broken(&w->head, "S1", "client %u leads by child %d, which is not there", i + 1, own.number);
        else if (find(&w->truth, own) > 0)
            machine_broken(&w->head, "S1", "client %u leads by child %d, and child %d is before it", i + 1, own.number,
                           w->truth.children[0].number);
    }
}

static void say(world *w, choice what)
{
    static const char *const kinds[] = {"",
                                        "a sync",
                                        "a making of the node",
                                        "a making",
                                        "a list",
                                        "a read of its own",
                                        "a guard",
                                        "a read of the leader",
                                        "a watch",
                                        "a removal",
                                        "a watch of the node",
                                        "(the one before it is gone)",
                                        "(its child is gone)",
                                        "(the node is gone)"};
    const client *c = &w->client[what.member];
    if (!w->head.log)
        return;
    if (what.kind == CHOICE_DELIVER)
        machine_tell(&w->head, "client %u hears the answer to %s", what.member + 1U, kinds[c->call[0].kind]);
    else if (what.kind == CHOICE_SERVE)
        machine_tell(&w->head, "client %u: %s is carried out", what.member + 1U, kinds[c->call[c->answered].kind]);
    else if (what.kind == CHOICE_APPLY)
        machine_tell(&w->head, "client %u: its server learns of what was agreed on", what.member + 1U);
    else if (what.kind == CHOICE_ACQUIRE)
        machine_tell(&w->head, "client %u %s", what.member + 1U, what.slot ? "tries" : "enters");
    else if (what.kind == CHOICE_REMOVE)
        machine_tell(&w->head, "somebody removes child %d", w->truth.children[what.slot].number);
    else if (what.kind == CHOICE_TIDY)
        machine_tell(&w->head, "the server removes the empty node");
}

static void choose(void *of, choice what)
{
    world *w = of;
    client *c = &w->client[what.member];
    say(w, what);
    for (unsigned i = 0; i < clients(w); i++)
        wake(&w->client[i], (child){.client = (uint8_t)i, .session = w->client[i].session});
    switch ((choice_kind)what.kind) {
    case CHOICE_DELIVER:
        deliver(w, c);
        break;
    case CHOICE_SERVE:
        serve(w, c);
        break;
    case CHOICE_APPLY:
        apply(w, c);
        break;
    case CHOICE_CHORE:
        c->has_later = false;
        start(w, c, GUARDING, ZK_WISH_GUARD);
        break;
    case CHOICE_ARM:
        c->is_arming = true;
        c->has_won = false;
        ask(c, CALL_ARM, ARMING, nobody);
        break;
    case CHOICE_CONNECT:
        connect_again(w, c, what.slot == 1);
        break;
    case CHOICE_ACQUIRE:
        c->wants = true;
        w->left[TRIES] -= what.slot;
        start(w, c, LATEST, what.slot ? ZK_WISH_TRY : ZK_WISH_WAIT);
        break;
    case CHOICE_LEAVE:
        leave(w, c);
        break;
    case CHOICE_BREAK:
        break_off(w, c, what.slot);
        break;
    case CHOICE_END:
        end_session(w, c);
        break;
    case CHOICE_REMOVE:
        w->left[REMOVALS]--;
        if (what.slot == 0) /* who leads is told later: that is what force means */
            w->client[w->truth.children[0].client].forced = w->truth.children[0].zxid;
        agree(w, CHILD_REMOVED, w->truth.children[what.slot]);
        break;
    case CHOICE_TIDY:
        w->left[TIDIES]--;
        agree(w, MUTEX_REMOVED, nobody);
        break;
    }
    check(w);
    for (unsigned i = 0; i < clients(w); i++)
        sleep_again(&w->client[i]);
}

/* --- one form for all that are alike -------------------------------------------------------------------- */

typedef struct numbers {
    int16_t *at[CLIENTS * (CALLS * (CHILDREN + 1) + 16) + CHILDREN + NEWS + 8];
    unsigned count;
} numbers;

static void add_number(numbers *n, int16_t *number)
{
    n->at[n->count++] = number;
}

static void add_child(numbers *all, numbers *zxids, child *which)
{
    if (which->client == CLIENTS)
        return;
    add_number(all, &which->number);
    if (which->zxid)
        add_number(zxids, &which->zxid);
}

static void add_queue(numbers *all, numbers *zxids, queue *q)
{
    for (unsigned i = 0; i < q->count; i++)
        add_child(all, zxids, &q->children[i]);
}

static void add_client(numbers *all, numbers *zxids, client *c)
{
    child *const children[] = {&c->watch_before, &c->watch_guard, &c->slot_before, &c->slot_guard,
                               &c->name,         &c->leader[0],   &c->leader[1],   &c->leader[2],
                               &c->before[0],    &c->before[1],   &c->before[2]};
    for (unsigned i = 0; i < sizeof children / sizeof *children; i++)
        add_child(all, zxids, children[i]);
    for (unsigned i = 0; i < c->calls; i++) {
        add_child(all, zxids, &c->call[i].child);
        if (c->call[i].is_listed)
            add_queue(all, zxids, &c->call[i].list);
    }
}

static int compare(const void *a, const void *b)
{
    return **(int16_t *const *)a - **(int16_t *const *)b;
}

/* What counts is which is greater, and which comes right after another; so gaps between them are at most `gap` afterwards. The least is
 * at most 1: 0 alone is something else, because -1 is not known. */
static void close_gaps(numbers *n, int gap)
{
    int old = -1, new = -1;
    qsort(n->at, n->count, sizeof *n->at, compare);
    for (unsigned i = 0; i < n->count; i++) {
        const int distance = *n->at[i] - old, most = new < 0 ? 2 : gap;
        old = *n->at[i];
        new += distance < most ? distance : most;
        *n->at[i] = (int16_t) new;
    }
}

/* In new memory, so that what is between its members is zero. */
static void normalise_latch(client *c)
{
    const zk_latch old = c->latch;
    const zk_numbers known = c->numbers;
    const bool is_here = old.place == ZK_HERE || old.place == ZK_LEADS;
    memset(&c->latch, 0, sizeof c->latch);
    c->latch.place = old.place;
    c->latch.ahead = old.ahead;
    c->latch.guarded = old.guarded;
    c->latch.unwanted = old.unwanted;
    c->latch.czxid = is_here ? old.czxid : 0;
    if (!is_here)
        c->name = nobody;
    memset(&c->numbers, 0, sizeof c->numbers);
    c->numbers.watched = known.watched;
    c->numbers.gone = known.gone;
}

static void normalise(void *of)
{
    world *w = of;
    static _Thread_local numbers all, zxids;
    int16_t gone[CLIENTS] = {0}, czxid[CLIENTS] = {0};
    all.count = zxids.count = 0;
    forget_news(w);
    add_queue(&all, &zxids, &w->truth);
    add_number(&all, &w->truth.next);
    for (unsigned i = 0; i < w->news_count; i++)
        add_child(&all, &zxids, &w->news[i].child);
    for (unsigned i = 0; i < clients(w); i++) {
        client *c = &w->client[i];
        normalise_latch(c);
        add_client(&all, &zxids, c);
        gone[i] = (int16_t)c->numbers.gone;
        czxid[i] = (int16_t)c->latch.czxid;
        if (gone[i] >= 0)
            add_number(&all, &gone[i]);
        if (czxid[i])
            add_number(&zxids, &czxid[i]);
        if (c->forced)
            add_number(&zxids, &c->forced);
    }
    close_gaps(&all, w->head.bounds[TIDIES] > 0 ? 2 : 1);
    if (w->token)
        add_number(&zxids, &w->token);
    close_gaps(&zxids, 1);
    w->zxid = w->token;
    for (unsigned i = 0; i < zxids.count; i++)
        w->zxid = *zxids.at[i] > w->zxid ? *zxids.at[i] : w->zxid;
    for (unsigned i = 0; i < clients(w); i++) {
        w->client[i].numbers.gone = gone[i];
        w->client[i].latch.czxid = czxid[i];
    }
}

/* --- when all is well ----------------------------------------------------------------------------------- */

/* All that can happen by itself happens. */
static void settle(world *w)
{
    for (unsigned n = 0; !w->head.promise; n++) {
        choice all[SEARCH_CHOICES];
        machine_list l = {all, 0};
        for (unsigned i = 0; i < clients(w); i++)
            add_of_client(w, &l, i);
        if (l.count == 0)
            return;
        if (n == SETTLED)
            machine_broken(&w->head, "L1", "the clients do not come to rest");
        else
            choose(w, all[0]);
    }
}

static bool is_waiting(const client *c)
{
    return c->wants && !is_leaving(c);
}

static void future(const void *of, void *ret_future)
{
    world *w = ret_future;
    memcpy(w, of, sizeof *w);
    memset(w->left, 0, sizeof w->left);
    settle(w);
    for (unsigned turn = 0; turn <= CLIENTS && !w->head.promise; turn++) {
        unsigned waiting = 0, leader = CLIENTS;
        for (unsigned i = 0; i < clients(w); i++) {
            waiting += is_waiting(&w->client[i]);
            if (w->client[i].latch.place == ZK_LEADS && is_waiting(&w->client[i]))
                leader = i;
        }
        if (waiting == 0)
            break;
        if (leader == CLIENTS) {
            machine_broken(&w->head, turn ? "L2" : "L1", "%u wait, and nobody leads", waiting);
            return;
        }
        choose(w, (choice){CHOICE_LEAVE, (uint8_t)leader, 0});
        settle(w);
    }
    if (!w->head.promise && w->truth.count > 0)
        machine_broken(&w->head, "S5", "all have left, and child %d is there", w->truth.children[0].number);
}

/* --- the beginning -------------------------------------------------------------------------------------- */

static void begin(void *of)
{
    world *w = of;
    for (unsigned i = 0; i <= TRIES; i++)
        w->left[i] = (uint8_t)w->head.bounds[i];
    for (unsigned i = 0; i < CLIENTS; i++) {
        client *c = &w->client[i];
        c->is_connected = true;
        c->watch_before = c->watch_guard = nobody;
        c->name = nobody;
        for (unsigned k = 0; k < PROCEDURES; k++)
            c->leader[k] = c->before[k] = nobody;
        simba__zk_numbers_forget(&c->numbers);
        begin_latch(w, c);
        sleep_again(c);
    }
}

const machine machine_zk_latch = {
    .name = "zk-latch",
    .bounds = {[MEMBERS] = {"clients", 2, CLIENTS},
               [BREAKS] = {"breaks", 1, 9},
               [REMOVALS] = {"removals", 0, 9},
               [ENDS] = {"ends", 0, SESSIONS - 1},
               [LEAVES] = {"leaves", 1, 9},
               [TIDIES] = {"tidies", 0, 9},
               [LAG] = {"lag", 0, NEWS - 1},
               [TRIES] = {"tries", 0, 9}},
    .size = sizeof(world),
    .begin = begin,
    .choices = choices,
    .choose = choose,
    .normalise = normalise,
    .future = future,
};
