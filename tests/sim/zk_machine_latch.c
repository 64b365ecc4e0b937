/* zk_latch, as it ships, of two or three clients, and the queue of one mutex. Each client has a session, a connection to a server
 * that may lag behind, and its questions and answers in order on it. Watches tell late, connections break before or after what
 * was asked for is done, sessions end, somebody else removes children, and the server removes the empty node of the mutex, whose
 * children are then numbered from 0 again.
 *
 * S1: who leads by its latch has the first child of all. S3: tokens grow from leader to leader. S5: who has left has no child. L1, L2:
 * when all is well again, somebody who wants it leads, and when that one leaves, the next. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_machine_latch.h"

enum { SETTLED = 1000 };

typedef enum choice_kind {
    CHOICE_DELIVER, /* the first answer */
    CHOICE_SERVE,   /* the first question */
    CHOICE_APPLY,   /* what was agreed on */
    CHOICE_CHORE,
    CHOICE_CONNECT,
    CHOICE_ACQUIRE,
    CHOICE_LEAVE,
    CHOICE_BREAK,
    CHOICE_END, /* the session */
    CHOICE_REMOVE,
    CHOICE_TIDY,
} choice_kind;

/* --- a latch -------------------------------------------------------------------------------------------- */

/* A latch that has no child. What was asked for the last one is of no use. */
static void begin_latch(world *w, client *c)
{
    simba__zk_latch_init(&c->latch, latch_index_of(w, c) + 1U, "id", c->session);
    c->latch.connected = c->is_connected;
    for (unsigned i = 0; i < c->calls; i++)
        if (c->call[i].kind < TOLD_BEFORE) {
            c->call[i].procedure = ORPHAN;
            c->call[i].is_listed = false;
            memset(&c->call[i].list, 0, sizeof c->call[i].list);
        }
    c->slot_before = c->slot_guard = latch_nobody;
    c->first = c->before = latch_nobody;
    c->has_later = false;
    c->forced = 0;
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

static void drop_first(client *c)
{
    memmove(&c->call[0], &c->call[1], (--c->calls) * sizeof *c->call);
    memset(&c->call[c->calls], 0, sizeof *c->call);
    c->answered -= c->answered > 0;
}

static unsigned asked(const client *c, call_kind kind)
{
    unsigned count = 0;
    for (unsigned i = 0; i < c->calls; i++)
        count += c->call[i].kind == kind && c->call[i].procedure != ORPHAN;
    return count;
}

/* A list is no call of the latch's own. */
static unsigned awaited(const client *c)
{
    unsigned count = 0;
    for (unsigned i = 0; i < c->calls; i++)
        count += c->call[i].kind < TOLD_BEFORE && c->call[i].kind != CALL_LIST && c->call[i].procedure == LATEST;
    return count;
}

/* --- the client ----------------------------------------------------------------------------------------- */

static void make_calls(client *c, unsigned calls)
{
    static const struct {
        unsigned bit;
        call_kind kind;
    } all[] = {{ZK_CALL_SYNC, CALL_SYNC},     {ZK_CALL_CONTAINERS, CALL_CONTAINERS},
               {ZK_CALL_CREATE, CALL_CREATE}, {ZK_CALL_LIST, CALL_LIST},
               {ZK_CALL_OWN, CALL_OWN},       {ZK_CALL_BEFORE, CALL_BEFORE},
               {ZK_CALL_FIRST, CALL_FIRST},   {ZK_CALL_DELETE, CALL_DELETE}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        const call_kind kind = all[i].kind;
        if (!(calls & all[i].bit))
            continue;
        ask(c, kind, LATEST,
            kind == CALL_BEFORE                       ? c->before
            : kind == CALL_FIRST                      ? c->first
            : kind == CALL_DELETE || kind == CALL_OWN ? latch_child_of(c->latch.name)
                                                      : latch_nobody);
    }
}

static void won(world *w, client *c)
{
    const int16_t token = (int16_t)c->latch.czxid;
    machine_tell(&w->head, "client %u leads by child %d", latch_index_of(w, c) + 1,
                 latch_child_of(c->latch.name).number);
    if (token <= w->token && token != c->forced)
        machine_broken(&w->head, "S3", "client %u leads under token %d after %d", latch_index_of(w, c) + 1, token,
                       w->token);
    w->token = token > w->token ? token : w->token;
    c->has_later = true;
}

static void left(world *w, client *c)
{
    for (unsigned i = 0; i < w->truth.count; i++)
        if (w->truth.children[i].client == latch_index_of(w, c))
            machine_broken(&w->head, "S5", "client %u has left, and its child %d is there", latch_index_of(w, c) + 1,
                           w->truth.children[i].number);
    for (unsigned i = c->answered; i < c->calls; i++)
        if (c->call[i].kind == CALL_CREATE)
            machine_broken(&w->head, "S5", "client %u has left, and is about to make a child",
                           latch_index_of(w, c) + 1);
    c->wants = false;
    begin_latch(w, c);
}

/* As contend.c does. */
static void take(world *w, client *c, zk_move move)
{
    make_calls(c, move.calls);
    switch (move.tell) {
    case ZK_TELL_NOTHING:
    case ZK_TELL_WAITS:
        break;
    case ZK_TELL_LEADS:
        won(w, c);
        break;
    case ZK_TELL_LOST:
    case ZK_TELL_REVOKED: /* it asks, and is told */
    case ZK_TELL_REFUSED: /* until it asks again */
        c->wants = false;
        begin_latch(w, c);
        break;
    case ZK_TELL_FREED:
    case ZK_TELL_GONE:
        left(w, c);
        break;
    case ZK_TELL_NO_NUMBERS:
    case ZK_TELL_FAILED:
        machine_broken(&w->head, "L1", "no numbers are left, or a call has failed");
        break;
    }
}

static void take_list(world *w, client *c, const call *what)
{
    char names[CHILDREN][ZK_NAME_MAX];
    const char *all[CHILDREN];
    const queue *list = &what->list;
    const unsigned count = what->is_missing ? 0 : list->count;
    for (unsigned i = 0; i < count; i++) {
        latch_text_of(list->children[i], names[i]);
        all[i] = names[i];
    }
    const size_t mine = simba__zk_latch_find(&c->latch, all, count);
    c->first = count > 0 ? list->children[0] : latch_nobody;
    c->before = mine > 0 && mine < count ? list->children[mine - 1] : latch_nobody;
    take(w, c,
         simba__zk_latch_listed(&c->latch, mine < count ? all[mine] : NULL, mine == 0,
                                what->is_missing ? ZK_NO_NODE : ZK_OK));
}

static void take_guard(world *w, client *c, const call *what)
{
    if (!latch_is_same(what->child, latch_child_of(c->latch.name)))
        return;
    if (what->is_missing) {
        take(w, c, simba__zk_latch_taken(&c->latch));
    } else if (c->latch.place == ZK_LEADS) {
        c->slot_guard = what->child;
        c->latch.guarded = true;
    }
}

static void take_answer(world *w, client *c, const call *what)
{
    const int error = what->is_missing ? ZK_NO_NODE : ZK_OK;
    char name[ZK_NAME_MAX];
    latch_text_of(what->child, name);
    switch ((call_kind)what->kind) {
    case CALL_CREATE:
        simba__zk_latch_made(&c->latch, error ? NULL : name, what->child.zxid, 1, error);
        break;
    case CALL_LIST:
        take_list(w, c, what);
        return;
    case CALL_GUARD:
        take_guard(w, c, what);
        return;
    case CALL_OWN:
        simba__zk_latch_own(&c->latch, what->child.zxid, 1, error);
        break;
    case CALL_BEFORE:
        if (!error)
            c->slot_before = what->child;
        simba__zk_latch_read(&c->latch, ZK_CALL_BEFORE, error);
        break;
    case CALL_FIRST:
        simba__zk_latch_read(&c->latch, ZK_CALL_FIRST, error);
        break;
    case CALL_DELETE:
        simba__zk_latch_read(&c->latch, ZK_CALL_DELETE, error);
        break;
    default:
        break;
    }
    if (awaited(c) == 0 && c->latch.stage > ZK_LISTS)
        take(w, c, simba__zk_latch_go(&c->latch));
}

static void deliver(world *w, client *c)
{
    const call what = c->call[0];
    drop_first(c);
    switch ((call_kind)what.kind) {
    case TOLD_BEFORE:
        if (!latch_is_same(c->slot_before, what.child))
            break;
        c->slot_before = latch_nobody;
        take(w, c, simba__zk_latch_before(&c->latch));
        break;
    case TOLD_GUARD:
        if (!latch_is_same(c->slot_guard, what.child))
            break;
        c->slot_guard = latch_nobody;
        take(w, c, simba__zk_latch_taken(&c->latch));
        break;
    default:
        if (what.procedure != ORPHAN)
            take_answer(w, c, &what);
        break;
    }
}

static void disconnect(client *c)
{
    memset(c->call, 0, sizeof c->call);
    c->calls = c->answered = 0;
    c->slot_before = c->slot_guard = c->watch_before = c->watch_guard = latch_nobody;
    c->is_connected = false;
    simba__zk_latch_lose(&c->latch);
}

/* The first of its questions are carried out all the same, or have been, and the answers are lost. */
static void break_off(world *w, client *c, unsigned carried_out)
{
    machine_tell(&w->head, "client %u: the connection breaks, %u of its questions are carried out",
                 latch_index_of(w, c) + 1, carried_out);
    w->left[BREAKS]--;
    for (unsigned i = 0; i < carried_out; i++) {
        call what = c->call[c->answered + i];
        (void)latch_carry_out(w, c, &what);
    }
    disconnect(c);
}

static void connect_again(world *w, client *c)
{
    c->is_connected = true;
    machine_tell(&w->head, "client %u is connected", latch_index_of(w, c) + 1);
    c->has_later |= c->latch.place == ZK_LEADS;
    take(w, c, simba__zk_latch_connect(&c->latch));
}

/* The client has stopped to believe in it before: that is for zk-liveness to show. */
static void end_session(world *w, client *c)
{
    machine_tell(&w->head, "the session of client %u ends", latch_index_of(w, c) + 1);
    w->left[ENDS]--;
    for (unsigned i = 0; i < w->truth.count;)
        if (w->truth.children[i].client == latch_index_of(w, c))
            latch_agree(w, CHILD_REMOVED, w->truth.children[i]);
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
    machine_tell(&w->head, "client %u leaves", latch_index_of(w, c) + 1);
    c->wants = false;
    take(w, c, simba__zk_latch_release(&c->latch));
}

/* --- choices -------------------------------------------------------------------------------------------- */

static void add_of_client(const world *w, machine_list *l, unsigned i)
{
    const client *c = &w->client[i];
    machine_add(l, c->is_connected && c->answered > 0, CHOICE_DELIVER, i, 0);
    machine_add(l, c->is_connected && c->answered < c->calls && is_room(c, 0), CHOICE_SERVE, i, 0);
    machine_add(l, c->behind > 0 && is_room(c, 0), CHOICE_APPLY, i, 0);
    machine_add(l, !c->is_connected, CHOICE_CONNECT, i, 0);
    machine_add(l,
                c->is_connected && is_room(c, 3) && c->has_later && !asked(c, CALL_GUARD) && c->latch.place == ZK_LEADS,
                CHOICE_CHORE, i, 0);
}

static void add_wishes(const world *w, machine_list *l, unsigned i)
{
    const client *c = &w->client[i];
    const bool is_out = !c->wants && !c->latch.leaving && c->is_connected && is_room(c, 3);
    machine_add(l, is_out, CHOICE_ACQUIRE, i, 0);
    machine_add(l, is_out && w->left[TRIES] > 0, CHOICE_ACQUIRE, i, 1);
    machine_add(l, c->wants && is_room(c, 3) && (c->latch.place == ZK_LEADS || w->left[LEAVES] > 0), CHOICE_LEAVE, i,
                0);
}

static void add_faults(const world *w, machine_list *l, unsigned i)
{
    const client *c = &w->client[i];
    for (unsigned n = 0; w->left[BREAKS] > 0 && c->is_connected && n <= (unsigned)(c->calls - c->answered); n++)
        if (n == 0 || latch_is_write(&c->call[c->answered + n - 1]))
            machine_add(l, true, CHOICE_BREAK, i, n);
    machine_add(l, w->left[ENDS] > 0 && !c->is_connected, CHOICE_END, i, 0);
}

static unsigned choices(const void *of, choice *ret_choices)
{
    const world *w = of;
    machine_list l = {ret_choices, 0};
    for (unsigned i = 0; i < latch_clients(w); i++)
        add_of_client(w, &l, i);
    for (unsigned i = 0; i < latch_clients(w); i++)
        add_wishes(w, &l, i);
    for (unsigned i = 0; i < latch_clients(w); i++)
        add_faults(w, &l, i);
    for (unsigned i = 0; w->left[REMOVALS] > 0 && i < w->truth.count; i++)
        machine_add(&l, true, CHOICE_REMOVE, 0, i);
    machine_add(&l, w->left[TIDIES] > 0 && w->truth.is_there && w->truth.count == 0, CHOICE_TIDY, 0, 0);
    return l.count;
}

static void check(world *w)
{
    for (unsigned i = 0; i < latch_clients(w); i++) {
        const client *c = &w->client[i];
        if (c->latch.place != ZK_LEADS || c->latch.leaving || c->forced == c->latch.czxid)
            continue;
        const child own = latch_child_of(c->latch.name);
        if (!latch_has(&w->truth, own))
            machine_broken(&w->head, "S1", "client %u leads by child %d, which is not there", i + 1, own.number);
        else if (latch_find(&w->truth, own) > 0)
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
                                        "(the one before it is gone)",
                                        "(its child is gone)"};
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
    for (unsigned i = 0; i < latch_clients(w); i++)
        latch_wake(&w->client[i], (child){.client = (uint8_t)i, .session = w->client[i].session});
    switch ((choice_kind)what.kind) {
    case CHOICE_DELIVER:
        deliver(w, c);
        break;
    case CHOICE_SERVE:
        latch_serve(w, c);
        break;
    case CHOICE_APPLY:
        latch_apply(w, c);
        break;
    case CHOICE_CHORE:
        c->has_later = false;
        ask(c, CALL_GUARD, GUARDING, latch_child_of(c->latch.name));
        break;
    case CHOICE_CONNECT:
        connect_again(w, c);
        break;
    case CHOICE_ACQUIRE:
        c->wants = true;
        w->left[TRIES] -= what.slot;
        take(w, c, simba__zk_latch_acquire(&c->latch, what.slot == 0));
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
        latch_agree(w, CHILD_REMOVED, w->truth.children[what.slot]);
        break;
    case CHOICE_TIDY:
        w->left[TIDIES]--;
        latch_agree(w, MUTEX_REMOVED, latch_nobody);
        break;
    }
    check(w);
    for (unsigned i = 0; i < latch_clients(w); i++)
        latch_sleep(&w->client[i]);
}

/* --- when all is well ----------------------------------------------------------------------------------- */

/* All that can happen by itself happens. */
static void settle(world *w)
{
    for (unsigned n = 0; !w->head.promise; n++) {
        choice all[SEARCH_CHOICES];
        machine_list l = {all, 0};
        for (unsigned i = 0; i < latch_clients(w); i++)
            add_of_client(w, &l, i);
        if (l.count == 0)
            return;
        if (n == SETTLED)
            machine_broken(&w->head, "L1", "the clients do not come to rest");
        else
            choose(w, all[0]);
    }
}

static void future(const void *of, void *ret_future)
{
    world *w = ret_future;
    memcpy(w, of, sizeof *w);
    memset(w->left, 0, sizeof w->left);
    settle(w);
    for (unsigned turn = 0; turn <= CLIENTS && !w->head.promise; turn++) {
        unsigned waiting = 0, leader = CLIENTS;
        for (unsigned i = 0; i < latch_clients(w); i++) {
            waiting += w->client[i].wants;
            if (w->client[i].latch.place == ZK_LEADS && w->client[i].wants)
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
        c->watch_before = c->watch_guard = latch_nobody;
        c->name = latch_nobody;
        begin_latch(w, c);
        latch_sleep(c);
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
    .normalise = latch_normalise,
    .future = future,
};
