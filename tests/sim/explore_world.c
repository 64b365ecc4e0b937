/* Contenders, what carries out their actions, and what may happen next. See explore.h. */
#include <stdarg.h>
#include <string.h>

#include "core/trace.h"
#include "sim/explore_world.h"

/* All contenders have the same: nothing may rest on names. */
#define ID "x"

size_t world_size(const world *w)
{
    return offsetof(world, contender) + w->bounds->contenders * sizeof w->contender[0];
}

int64_t world_tick_ns(const world *w)
{
    return (int64_t)w->bounds->tick_ms * 1000000;
}

static unsigned caps_of(const world *w)
{
    static const unsigned caps[] = {[EXPLORE_PUSH] = SIMBA_CAP_PUSH,
                                    [EXPLORE_POLL] = 0,
                                    [EXPLORE_SESSION] = SIMBA_CAP_PUSH | SIMBA_CAP_SESSION | SIMBA_CAP_QUEUE};
    return caps[w->bounds->store];
}

static unsigned index_of(const world *w, const contender *m)
{
    return (unsigned)(m - w->contender);
}

void world_say(world *w, const contender *m, const char *format, ...)
{
    va_list args;
    if (!w->log)
        return;
    if (m)
        fprintf(w->log, "%lld contender-%u ", (long long)w->log_ns, index_of(w, m) + 1);
    else
        fprintf(w->log, "%lld store ", (long long)w->log_ns);
    va_start(args, format);
    vfprintf(w->log, format, args);
    va_end(args);
    fputc('\n', w->log);
}

/* --- messages --------------------------------------------------------------------------------------- */

/* Two of a contender can be under way at a time. One more, and the older one is as good as lost. */
static message *room_for_message(contender *m)
{
    for (unsigned i = 0; i < WORLD_MESSAGES; i++)
        if (m->message[i].kind == NO_MESSAGE)
            return &m->message[i];
    memmove(&m->message[0], &m->message[1], (WORLD_MESSAGES - 1) * sizeof m->message[0]);
    return &m->message[WORLD_MESSAGES - 1];
}

static void send_request(contender *m, const simba__actions *actions)
{
    *room_for_message(m) = (message){.kind = REQUEST,
                                     .op = (uint8_t)actions->op,
                                     .queue = actions->queue,
                                     .generation = actions->generation,
                                     .session = m->session,
                                     .nonce = actions->nonce,
                                     .token = actions->token};
    m->is_outstanding = true;
    m->deadline = simba__local_add(m->now, actions->timeout_ns);
}

/* --- what the machines want -------------------------------------------------------------------------- */

static void watch(world *w, contender *m)
{
    const bool wants = m->is_running && simba__contention_wants_news(&m->machine, caps_of(w), false);
    if (wants && !m->is_watching && w->bounds->store == EXPLORE_PUSH)
        m->push = SIMBA_PUSH_CHANGED + 1; /* something may have changed before it took effect */
    m->is_watching = wants;
}

static void look_if_stopped(contender *m)
{
    if (m->wants_stop && !m->is_running && m->callback == NO_CALLBACK && !m->pending.acquired && !m->pending.released) {
        m->wants_stop = false;
        m->has_stopped = true;
    }
}

struct moment {
    world *w;
    const contender *m;
};

static void say_words(void *user, const char *words)
{
    const struct moment *moment = user;
    world_say(moment->w, moment->m, "%s", words);
}

void world_step(world *w, contender *m, simba__event *event)
{
    simba__actions actions;
    struct moment moment = {w, m};
    event->now = m->now;
    event->session_until = m->session_until;
    /* Chance is the same for all incarnations; their nonces get other names as soon as the step is over. */
    m->machine.seed = index_of(w, m) + 1;
    const simba__step step = {&m->machine, event, &actions};
    simba__contention_step(&m->machine, event, &actions);
    if (w->log)
        simba__trace_step(&step, w->log_ns - m->now.ns, say_words, &moment);
    m->timer = actions.timer;
    if (actions.acquired)
        check_world_acquired(w, m);
    if (actions.submit) {
        check_world_submit(w, m, &actions);
        send_request(m, &actions);
    }
    simba__pending_note(&m->pending, &actions, false);
    if (actions.done)
        m->is_running = false;
    watch(w, m);
    look_if_stopped(m);
}

static void ack(world *w, contender *m)
{
    simba__event event = {.kind = SIMBA__EV_ACK};
    world_step(w, m, &event);
}

/* --- callbacks --------------------------------------------------------------------------------------- */

static bool has_to_tell(const contender *m)
{
    return m->is_alive && m->callback == NO_CALLBACK && (m->pending.acquired || m->pending.released);
}

static void begin_callback(world *w, contender *m)
{
    simba__event look = {.kind = SIMBA__EV_TIMER};
    simba__tell tell;
    if (m->pending.acquired && m->is_running)
        world_step(w, m, &look);
    if (!simba__pending_take(&m->pending, &m->machine.owner, &tell))
        return;
    if (tell.acquired || tell.released) {
        world_say(w, m, "callback %s", tell.acquired ? "acquired" : "released");
        check_world_callback(w, m, &tell);
        m->callback = tell.acquired ? IN_ACQUIRED : IN_RELEASED;
    } else if (tell.ack) {
        ack(w, m);
    }
    look_if_stopped(m);
}

static void end_callback(world *w, contender *m)
{
    const bool was_released = m->callback == IN_RELEASED;
    world_say(w, m, "returned");
    m->callback = NO_CALLBACK;
    if (was_released) {
        m->app_leads = false;
        ack(w, m);
    }
    look_if_stopped(m);
}

/* --- what comes in ----------------------------------------------------------------------------------- */

static void take_reply(world *w, contender *m, const message *reply)
{
    simba_request request = {.op = (simba_op)reply->op, .id = ID, .token = reply->token};
    simba_reply *answer = &request.reply;
    *answer = (simba_reply){.status = reply->status, .outcome = (simba_outcome)reply->outcome, .now_ms = 1};
    if (reply->owner_token) {
        strcpy(answer->owner.id, ID);
        answer->owner.token = reply->owner_token;
        answer->owner.ttl_at_ms = answer->owner.transition_at_ms =
            reply->left_ms == INT64_MAX ? INT64_MAX : 1 + reply->left_ms;
    }
    simba__event event = {
        .kind = SIMBA__EV_REPLY, .generation = reply->generation, .reply = answer, .sent_at = m->machine.sent_at};
    if (!m->is_outstanding || reply->generation != m->machine.generation)
        return;
    m->is_outstanding = false;
    world_step(w, m, &event);
}

static void fail_request(world *w, contender *m, int status)
{
    take_reply(w, m, &(message){.op = m->machine.op, .status = status, .generation = m->machine.generation});
}

static void take_push(world *w, contender *m)
{
    simba_push push = {.kind = (simba_push_kind)(m->push - 1), .now_ms = 1};
    simba__event event = {.kind = SIMBA__EV_PUSH, .push = &push};
    if (push.kind == SIMBA_PUSH_ACQUIRED) {
        strcpy(push.owner.id, ID);
        push.owner.token = m->push_token;
        push.owner.ttl_at_ms = push.owner.transition_at_ms = 1 + m->push_left_ms;
    }
    m->push = 0;
    m->push_token = 0;
    m->push_left_ms = 0;
    for (unsigned i = 0; i < WORLD_MESSAGES; i++)
        m->message[i].is_behind_push = false;
    if (m->is_running)
        world_step(w, m, &event);
}

static void deliver(world *w, contender *m, message *what)
{
    if (what->kind == REQUEST) {
        explore_store_carry_out(w, m, what);
        return;
    }
    const message reply = *what;
    *what = (message){0};
    take_reply(w, m, &reply);
}

void world_lose_session(world *w, contender *m)
{
    simba_push push = {.kind = SIMBA_PUSH_SESSION_LOST};
    simba__event event = {.kind = SIMBA__EV_PUSH, .push = &push};
    m->session = 0;
    m->session_until = (simba_local){0};
    if (m->is_outstanding)
        fail_request(w, m, SIMBA_EUNAVAILABLE);
    if (m->is_running)
        world_step(w, m, &event);
}

/* --- life and death ----------------------------------------------------------------------------------- */

static void start(world *w, contender *m)
{
    simba__event event = {.kind = SIMBA__EV_START, .seed = index_of(w, m) + 1};
    if (!m->is_alive) {
        const simba_local now = m->now;
        message late[WORLD_MESSAGES];
        memcpy(late, m->message, sizeof late);
        memset(m, 0, sizeof *m);
        memcpy(m->message, late, sizeof late);
        simba__contention_init(&m->machine, w->timing, w->bounds->store == EXPLORE_SESSION);
        m->machine.generation = 1; /* messages that are still under way belong to nobody here */
        m->now = now;
        m->timer = SIMBA__NEVER;
        m->deadline = SIMBA__NEVER;
        m->is_alive = true;
    }
    m->is_running = true;
    m->has_stopped = false;
    world_step(w, m, &event);
}

static void stop(world *w, contender *m)
{
    simba__event event = {.kind = SIMBA__EV_STOP};
    m->wants_stop = true;
    world_step(w, m, &event);
}

/* Requests that it has sent go on their way. Requests that wait for a session were not sent. */
static void kill_contender(contender *m)
{
    m->is_alive = m->is_running = m->is_outstanding = m->is_watching = false;
    m->app_leads = m->told_acquired = m->wants_stop = m->has_stopped = false;
    m->callback = NO_CALLBACK;
    m->beat = NO_BEAT;
    m->push = 0;
    m->session = 0;
    m->session_until = (simba_local){0};
    m->timer = m->deadline = SIMBA__NEVER;
    memset(&m->pending, 0, sizeof m->pending);
    simba__contention_init(&m->machine, m->machine.timing, m->machine.leaves_queue);
    for (unsigned i = 0; i < WORLD_MESSAGES; i++)
        if (m->message[i].kind == REPLY || (m->machine.timing->session && m->message[i].session == 0))
            m->message[i] = (message){0};
        else
            m->message[i].generation = 0;
}

void world_begin(world *w, const explore_bounds *bounds, const simba__timing *timing)
{
    memset(w, 0, sizeof *w);
    w->bounds = bounds;
    w->timing = timing;
    w->losses = (uint8_t)bounds->losses;
    w->kills = (uint8_t)bounds->kills;
    w->starts = (uint8_t)(bounds->starts + bounds->contenders);
    w->stops = (uint8_t)bounds->stops;
    w->forces = (uint8_t)bounds->forces;
    w->pauses = (uint8_t)bounds->pauses;
    w->delays = (uint8_t)bounds->delays;
    w->store_ns = WORLD_EPOCH_NS;
    w->row.counts_tokens = true;
    for (unsigned i = 0; i < bounds->contenders; i++) {
        w->contender[i].now = (simba_local){WORLD_EPOCH_NS};
        w->contender[i].machine.timing = timing;
        kill_contender(&w->contender[i]);
    }
}

/* --- choices ----------------------------------------------------------------------------------------- */

static bool is_due(const contender *m, simba_local at)
{
    return m->is_alive && simba__local_reached(m->now, at);
}

static bool beats(const world *w, const contender *m)
{
    return w->bounds->store == EXPLORE_SESSION && m->is_alive && m->beat == NO_BEAT && is_due(m, m->beat_at);
}

/* Is there something that only a paused contender leaves undone when time goes on? */
static bool is_busy(const world *w, const contender *m)
{
    return (m->is_running && is_due(m, m->timer)) || (m->is_outstanding && is_due(m, m->deadline)) || has_to_tell(m) ||
           beats(w, m);
}

static bool is_waited_for(const contender *m)
{
    return m->message[0].kind != NO_MESSAGE || m->message[1].kind != NO_MESSAGE || m->push != 0 || m->beat != NO_BEAT;
}

/* The cost of a tick. */
static void count_late(const world *w, uint8_t *ret_pauses, uint8_t *ret_delays)
{
    *ret_pauses = *ret_delays = 0;
    for (unsigned i = 0; i < w->bounds->contenders; i++) {
        *ret_pauses |= is_busy(w, &w->contender[i]);
        *ret_delays |= is_waited_for(&w->contender[i]);
    }
    for (unsigned i = 0; i < WORLD_SESSIONS; i++)
        *ret_delays |= w->session[i].id && w->store_ns >= w->session[i].expires_at;
}

static bool may_tick(const world *w)
{
    uint8_t pauses, delays;
    count_late(w, &pauses, &delays);
    return pauses <= w->pauses && delays <= w->delays;
}

static int64_t tick_of(const world *w, const contender *m)
{
    const int64_t tick_ns = world_tick_ns(w);
    const int64_t drift = tick_ns / 1000000 * w->timing->drift_ppm / 2 * w->bounds->drifts;
    return index_of(w, m) == 0                           ? tick_ns - drift
           : index_of(w, m) + 1 == w->bounds->contenders ? tick_ns + drift
                                                         : tick_ns;
}

static void tick(world *w)
{
    uint8_t pauses, delays;
    count_late(w, &pauses, &delays);
    w->pauses = (uint8_t)(w->pauses - pauses);
    w->delays = (uint8_t)(w->delays - delays);
    for (unsigned i = 0; i < w->bounds->contenders; i++)
        w->contender[i].now.ns += tick_of(w, &w->contender[i]);
    w->store_ns += world_tick_ns(w);
    w->log_ns += world_tick_ns(w);
}

typedef struct list {
    choice *at;
    unsigned count;
} list;

static void offer(list *l, bool is_open, choice_kind kind, unsigned who, unsigned slot)
{
    if (is_open && l->count < WORLD_CHOICES)
        l->at[l->count++] = (choice){(uint8_t)kind, (uint8_t)who, (uint8_t)slot};
}

static bool has_request_before(const contender *m, unsigned slot)
{
    return slot > 0 && m->message[slot - 1].kind == REQUEST;
}

static bool has_reply_before_push(const contender *m)
{
    for (unsigned i = 0; i < WORLD_MESSAGES; i++)
        if (m->message[i].kind == REPLY && !m->message[i].is_behind_push)
            return true;
    return false;
}

static void offer_messages(const world *w, unsigned who, list *l)
{
    const bool is_session = w->bounds->store == EXPLORE_SESSION;
    const contender *m = &w->contender[who];
    for (unsigned i = 0; i < WORLD_MESSAGES; i++) {
        const bool is_request = m->message[i].kind == REQUEST;
        /* The requests of a session arrive in order and once, and not before there is one. */
        const bool waits = is_session && (is_request ? m->message[i].session == 0 || has_request_before(m, i)
                                                     : m->message[i].is_behind_push);
        const bool is_there = m->message[i].kind != NO_MESSAGE && !waits;
        const bool has_room = m->message[0].kind == NO_MESSAGE || m->message[1].kind == NO_MESSAGE;
        offer(l, is_there, CHOICE_DELIVER, who, i);
        offer(l, is_there && w->losses, CHOICE_LOSE, who, i);
        offer(l, is_request && !is_session && w->losses && has_room, CHOICE_REPEAT, who, i);
        offer(l,
              is_request && is_there && w->losses && m->is_outstanding &&
                  m->message[i].generation == m->machine.generation,
              CHOICE_REFUSE, who, i);
    }
    offer(l, m->push != 0 && !(is_session && has_reply_before_push(m)), CHOICE_PUSH, who, 0);
    offer(l, m->push != 0 && w->losses && !is_session, CHOICE_LOSE_PUSH, who, 0);
}

static void offer_session(const world *w, unsigned who, list *l)
{
    const contender *m = &w->contender[who];
    offer(l, beats(w, m), CHOICE_BEAT, who, 0);
    offer(l, m->beat != NO_BEAT, CHOICE_HEAR, who, 0);
    offer(l, m->beat != NO_BEAT && w->losses, CHOICE_LOSE_BEAT, who, 0);
}

/* Nobody starts while an equal one before it has not: they would be each other under another name. */
static bool may_start(const world *w, unsigned who)
{
    const contender *m = &w->contender[who];
    return w->starts && !m->is_running && !m->wants_stop && m->callback == NO_CALLBACK && !m->pending.released;
}

unsigned world_choices(const world *w, choice *ret_choices)
{
    list l = {ret_choices, 0};
    offer(&l, may_tick(w), CHOICE_TICK, 0, 0);
    for (unsigned i = 0; i < w->bounds->contenders; i++) {
        const contender *m = &w->contender[i];
        /* First: when all is well (world_settle), a session is kept up whatever else there is to do. */
        if (w->bounds->store == EXPLORE_SESSION)
            offer_session(w, i, &l);
        offer(&l, m->is_running && is_due(m, m->timer), CHOICE_TIMER, i, 0);
        offer(&l, m->is_outstanding && is_due(m, m->deadline), CHOICE_DEADLINE, i, 0);
        offer_messages(w, i, &l);
        offer(&l, has_to_tell(m), CHOICE_BEGIN, i, 0);
        offer(&l, m->callback != NO_CALLBACK, CHOICE_RETURN, i, 0);
        offer(&l, may_start(w, i), CHOICE_START, i, 0);
        offer(&l, w->stops && m->is_running && !m->wants_stop, CHOICE_STOP, i, 0);
        offer(&l, w->kills && m->is_alive, CHOICE_KILL, i, 0);
    }
    for (unsigned i = 0; i < WORLD_SESSIONS; i++)
        offer(&l, w->session[i].id && w->store_ns >= w->session[i].expires_at, CHOICE_EXPIRE, 0, i);
    offer(&l, w->forces && !explore_store_is_free(w), CHOICE_FORCE, 0, 0);
    return l.count;
}

static void beat(contender *m)
{
    m->beat = BEAT;
    m->beat_session = m->session;
    m->beat_at = m->now;
}

/* Its answer is heard by the one that asked. */
static void hear(world *w, contender *m)
{
    simba_push back = {.kind = SIMBA_PUSH_SESSION_BACK};
    simba__event event = {.kind = SIMBA__EV_PUSH, .push = &back};
    const uint8_t kind = m->beat;
    if (kind == BEAT) {
        explore_store_hear(w, m);
        return;
    }
    const bool is_new = kind == BEAT_HEARD && m->session == 0;
    m->beat = NO_BEAT;
    if (kind == BEAT_EXPIRED) {
        if (m->session == m->beat_session && m->session)
            world_lose_session(w, m);
        m->beat_at = m->now;
        return;
    }
    m->session = m->beat_session;
    for (unsigned i = 0; i < WORLD_MESSAGES; i++)
        if (m->message[i].kind == REQUEST && m->message[i].session == 0)
            m->message[i].session = m->session;
    m->session_until = simba__local_add(m->beat_at, simba__session_ns(w->timing, explore_session_ms(w)));
    m->beat_at = simba__local_add(m->beat_at, world_tick_ns(w) / 10 * 9);
    if (is_new && m->is_running)
        world_step(w, m, &event);
}

static void lose_beat(const world *w, contender *m)
{
    m->beat = NO_BEAT;
    m->beat_at = simba__local_add(m->now, world_tick_ns(w) / 10 * 9);
}

void world_choose(world *w, choice what)
{
    static const char *const unlogged[] = {
        [CHOICE_LOSE] = "lost",   [CHOICE_REPEAT] = "repeated", [CHOICE_LOSE_PUSH] = "lost",
        [CHOICE_KILL] = "killed", [CHOICE_LOSE_BEAT] = "lost",  [CHOICE_REFUSE] = "refused"};
    contender *m = &w->contender[what.contender];
    message *slot = &m->message[what.slot % WORLD_MESSAGES];
    simba__event timer = {.kind = SIMBA__EV_TIMER};
    if (what.kind < sizeof unlogged / sizeof *unlogged && unlogged[what.kind])
        world_say(w, m, "fault %s %lld", unlogged[what.kind], (long long)w->log_ns + world_tick_ns(w) / 10);
    switch ((choice_kind)what.kind) {
    case CHOICE_TICK:
        tick(w);
        break;
    case CHOICE_TIMER:
        world_step(w, m, &timer);
        break;
    case CHOICE_DEADLINE:
        fail_request(w, m, SIMBA_ETIMEDOUT);
        break;
    case CHOICE_DELIVER:
        deliver(w, m, slot);
        break;
    case CHOICE_LOSE:
        w->losses--;
        *slot = (message){0};
        break;
    case CHOICE_REPEAT:
        w->losses--;
        *room_for_message(m) = *slot;
        deliver(w, m, slot);
        break;
    case CHOICE_REFUSE:
        w->losses--;
        *slot = (message){0};
        fail_request(w, m, SIMBA_EUNAVAILABLE);
        break;
    case CHOICE_PUSH:
        take_push(w, m);
        break;
    case CHOICE_LOSE_PUSH:
        w->losses--;
        m->push = 0;
        break;
    case CHOICE_BEGIN:
        begin_callback(w, m);
        break;
    case CHOICE_RETURN:
        end_callback(w, m);
        break;
    case CHOICE_START:
        w->starts--;
        start(w, m);
        break;
    case CHOICE_STOP:
        w->stops--;
        stop(w, m);
        break;
    case CHOICE_KILL:
        w->kills--;
        kill_contender(m);
        break;
    case CHOICE_FORCE:
        w->forces--;
        explore_store_force(w);
        break;
    case CHOICE_BEAT:
        beat(m);
        break;
    case CHOICE_HEAR:
        hear(w, m);
        break;
    case CHOICE_LOSE_BEAT:
        w->losses--;
        lose_beat(w, m);
        break;
    case CHOICE_EXPIRE:
        explore_store_expire(w, &w->session[what.slot]);
        break;
    }
    check_world_now(w);
}

/* --- when all is well -------------------------------------------------------------------------------- */

void world_heal(world *w)
{
    w->is_healed = true;
    w->losses = w->kills = w->starts = w->stops = w->forces = w->pauses = w->delays = 0;
}

void world_settle(world *w)
{
    choice choices[WORLD_CHOICES];
    for (unsigned steps = 0; steps < 1000 && !w->promise; steps++) {
        const unsigned count = world_choices(w, choices);
        const unsigned first = count > 0 && choices[0].kind == CHOICE_TICK ? 1 : 0;
        if (first >= count)
            return;
        world_choose(w, choices[first]);
    }
}
