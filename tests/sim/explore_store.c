/* The store of an exploration. One with rows does what core/row.h says. One with sessions keeps a child per contender; the
 * oldest child leads, and children go with their session. */
#include <string.h>

#include "sim/explore_world.h"

#define ID "x"

simba__row_now store_of(const world *w)
{
    return (simba__row_now){w->store_ns, w->store_ns / 1000};
}

int64_t explore_session_ms(const world *w)
{
    return (w->bounds->ttl + w->bounds->transition) * (int64_t)w->bounds->tick_ms;
}

bool explore_store_is_free(const world *w)
{
    return w->bounds->store == EXPLORE_SESSION ? w->children == 0 : simba__row_is_free(&w->row, store_of(w));
}

/* Later news overtakes news that nobody has taken: what remains is that something has changed. */
static void push(contender *m, simba_push_kind kind, uint64_t token, int64_t left_ms)
{
    const bool is_other = m->push != 0 && m->push != kind + 1;
    for (unsigned i = 0; i < WORLD_MESSAGES; i++)
        m->message[i].is_behind_push = false;
    m->push = (uint8_t)((is_other ? SIMBA_PUSH_CHANGED : kind) + 1);
    m->push_token = is_other ? 0 : token;
    m->push_left_ms = is_other ? 0 : left_ms;
}

/* --- rows ------------------------------------------------------------------------------------------- */

static void spread_news(world *w)
{
    simba_owner owner;
    int64_t now_ms;
    simba__row_show(&w->row, store_of(w), &owner, &now_ms);
    for (unsigned i = 0; i < w->bounds->contenders && w->bounds->store == EXPLORE_PUSH; i++) {
        if (!w->contender[i].is_watching)
            continue;
        if (simba_owner_is_none(&owner))
            push(&w->contender[i], SIMBA_PUSH_RELEASED, 0, 0);
        else
            push(&w->contender[i], SIMBA_PUSH_ACQUIRED, owner.token, owner.transition_at_ms - now_ms);
    }
}

static void apply(world *w, simba_request *request)
{
    const simba__row before = w->row;
    simba__row_apply(&w->row, store_of(w), request);
    if (w->row.owner.token != before.owner.token) {
        if (w->row.owner.token)
            check_world_granted(w, w->row.nonce, w->row.owner.token);
        spread_news(w);
    }
}

static void carry_out_on_row(world *w, message *what)
{
    simba_request request = {.op = (simba_op)what->op,
                             .queue = what->queue,
                             .id = ID,
                             .nonce = what->nonce,
                             .token = what->token,
                             .ttl_ms = w->timing->ms.ttl_ms,
                             .transition_ms = w->timing->ms.transition_ms};
    apply(w, &request);
    what->status = request.reply.status;
    what->outcome = (uint8_t)request.reply.outcome;
    what->owner_token = request.reply.owner.token;
    what->left_ms = request.reply.owner.token ? request.reply.owner.transition_at_ms - request.reply.now_ms : 0;
}

/* --- sessions ---------------------------------------------------------------------------------------- */

static session *find_session(world *w, uint32_t id)
{
    for (unsigned i = 0; id && i < WORLD_SESSIONS; i++)
        if (w->session[i].id == id)
            return &w->session[i];
    return NULL;
}

static void touch(const world *w, session *which)
{
    which->expires_at = w->store_ns + explore_session_ms(w) * 1000000;
}

/* The first one leads, and is told so. */
static void first_has_changed(world *w)
{
    if (w->children == 0)
        return;
    check_world_granted(w, w->child[0].nonce, w->child[0].token);
    contender *m = &w->contender[w->child[0].contender];
    if (m->is_alive && m->machine.nonce == w->child[0].nonce)
        push(m, SIMBA_PUSH_RELEASED, 0, 0);
}

static void remove_child(world *w, unsigned index)
{
    memmove(&w->child[index], &w->child[index + 1], (w->children - index - 1) * sizeof w->child[0]);
    w->children--;
    memset(&w->child[w->children], 0, sizeof w->child[0]);
    if (index == 0)
        first_has_changed(w);
}

static unsigned find_child(const world *w, uint64_t nonce)
{
    unsigned i = 0;
    while (i < w->children && w->child[i].nonce != nonce)
        i++;
    return i;
}

static bool is_first(const world *w, const message *what)
{
    return w->children > 0 && w->child[0].nonce == what->nonce && w->child[0].session == what->session;
}

static simba_outcome acquire(world *w, const contender *m, const message *what)
{
    unsigned index = find_child(w, what->nonce);
    if (index < w->children && w->child[index].session != what->session) {
        remove_child(w, index);
        index = w->children;
    }
    if (index == w->children && w->children < WORLD_CHILDREN) {
        w->child[w->children++] = (child){.nonce = what->nonce,
                                          .token = ++w->zxid,
                                          .session = what->session,
                                          .contender = (uint8_t)(m - w->contender)};
        if (w->children == 1)
            first_has_changed(w);
    }
    return is_first(w, what) ? SIMBA_MINE : SIMBA_NOT_MINE;
}

static simba_outcome renew(const world *w, const message *what)
{
    if (is_first(w, what) && w->child[0].token == what->token)
        return SIMBA_MINE;
    return what->token && w->row.revoked_token == what->token ? SIMBA_REVOKED : SIMBA_NOT_MINE;
}

static simba_outcome release(world *w, const message *what)
{
    const unsigned index = find_child(w, what->nonce);
    if (index < w->children)
        remove_child(w, index);
    return index == 0 && w->children > 0 ? SIMBA_MINE : SIMBA_NOT_MINE;
}

/* Of a session that is over nothing is carried out. Its client finds out by the next beat. */
static void carry_out_in_session(world *w, contender *m, message *what)
{
    session *its = find_session(w, what->session);
    if (!its) {
        *what = (message){0};
        return;
    }
    touch(w, its);
    what->outcome = (uint8_t)(what->op == SIMBA_OP_ACQUIRE ? acquire(w, m, what)
                              : what->op == SIMBA_OP_RENEW ? renew(w, what)
                                                           : release(w, what));
    what->owner_token = w->children > 0 ? w->child[0].token : 0;
    what->left_ms = INT64_MAX;
}

/* Does anybody go by this session, or is something of it under way? */
static bool is_known(const world *w, uint32_t id)
{
    for (unsigned i = 0; i < WORLD_SESSIONS; i++)
        if (w->session[i].id == id)
            return true;
    for (unsigned i = 0; i < w->bounds->contenders; i++) {
        const contender *m = &w->contender[i];
        if (m->session == id || m->beat_session == id)
            return true;
        for (unsigned k = 0; k < WORLD_MESSAGES; k++)
            if (m->message[k].session == id)
                return true;
    }
    return false;
}

/* The smallest that is not known, so that there are few. */
static uint32_t new_session(const world *w)
{
    uint32_t id = 1;
    while (is_known(w, id))
        id++;
    return id;
}

void explore_store_hear(world *w, contender *m)
{
    session *its = find_session(w, m->beat_session);
    if (!its && m->beat_session) {
        m->beat = BEAT_EXPIRED;
        return;
    }
    for (unsigned i = 0; !its && i < WORLD_SESSIONS; i++)
        if (w->session[i].id == 0) {
            its = &w->session[i];
            its->id = new_session(w);
        }
    if (!its) {
        m->beat = NO_BEAT; /* no room for one more: it tries again */
        return;
    }
    m->beat = BEAT_HEARD;
    m->beat_session = its->id;
    touch(w, its);
}

void explore_store_expire(world *w, session *which)
{
    const uint32_t id = which->id;
    *which = (session){0};
    for (unsigned i = w->children; i-- > 0;)
        if (w->child[i].session == id)
            remove_child(w, i);
}

/* --- both ------------------------------------------------------------------------------------------- */

void explore_store_carry_out(world *w, contender *m, message *what)
{
    if (w->bounds->store == EXPLORE_SESSION)
        carry_out_in_session(w, m, what);
    else
        carry_out_on_row(w, what);
    if (what->kind == REQUEST)
        what->kind = REPLY;
    what->is_behind_push = w->bounds->store == EXPLORE_SESSION && m->push != 0;
    if (!m->is_alive)
        *what = (message){0};
}

static void mark_revoked(world *w, uint64_t nonce, uint64_t token)
{
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        if (w->contender[i].machine.nonce == nonce && w->contender[i].is_alive) {
            w->contender[i].revoked_token = token;
            if (w->bounds->store == EXPLORE_SESSION)
                push(&w->contender[i], SIMBA_PUSH_CHANGED, 0, 0);
        }
}

void explore_store_force(world *w)
{
    simba_request request = {.op = SIMBA_OP_FORCE_RELEASE, .id = ""};
    world_say(w, NULL, "fault forced %lld", (long long)w->log_ns + world_tick_ns(w) / 10);
    if (w->bounds->store == EXPLORE_SESSION) {
        mark_revoked(w, w->child[0].nonce, w->child[0].token);
        w->row.revoked_token = w->child[0].token;
        remove_child(w, 0);
        return;
    }
    mark_revoked(w, w->row.nonce, w->row.owner.token);
    apply(w, &request);
}
