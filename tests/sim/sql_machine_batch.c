/* The steps of batches, as src/backends/sql decides on them, and a server (tests/lib/model_sql.h). Two or three clients, each with one
 * connection, want two mutexes; a batch of a client has a request about one of them, or about both. Steps of different clients are
 * carried out in any order, connections are lost before or after a step was carried out, leases end, and somebody else locks rows. A
 * step that needs a row which is locked waits, and the server may give it up.
 *
 * A batch has memory of its own, which a world must not have. So a world has the outcomes of the steps that were carried out, and a
 * batch is made anew from them when its next step is asked for: the deciders are pure, so it is the same one.
 *
 * S1: nobody is granted what somebody believes to hold. S3: tokens grow. L1: when all is well, every batch ends, and every mutex is
 * held by somebody. L3: whoever is renewed in one batch with a row that somebody keeps locked has its answer, after two lock timeouts at
 * most; after none if the server can skip such rows, or decides. */
#include <stdlib.h>
#include <string.h>

#include "backends/sql/decisions.h"
#include "backends/sql/writes.h"
#include "lib/model_sql.h"
#include "sim/machine.h"
#include "util/assert.h"
#include "util/clock.h"

enum { CLIENTS_MAX = 3, MUTEXES = 2, HISTORY = 24, SOMEBODY = 9, LEASE_TICKS = 2, TICK_MS = 1000, BASE_MS = 1000000 };

/* In the order of the table at the end. Those before CLIENTS are used up. */
enum { BATCHES, LOSSES, LOCKS, TICKS, CLIENTS, SKIPS, DECIDES };

typedef enum wish { WISH_NOTHING, WISH_HOLD, WISH_RELEASE, WISHES } wish;

/* Points in time are ticks from the beginning on, plus one; 0: never. */
typedef struct stored {
    bool exists;
    uint8_t owner; /* a client, from 1 on; 0: nobody */
    uint8_t version, nonce, nonce_version, acquired, until;
    uint8_t locked_by; /* a client, from 1 on, or SOMEBODY; 0: nobody */
} stored;

/* What came of a step. */
typedef struct outcome {
    uint8_t failure; /* a simba__sql_remedy, from 1 on; 0: none */
    uint8_t token, now;
    bool matched;
    uint8_t deed[MUTEXES], place[MUTEXES];
    stored row[MUTEXES]; /* of those that the step was about and that it read */
} outcome;

typedef struct contender {
    bool holds; /* as it believes */
    uint8_t token, until, incarnation;
    uint8_t seen; /* the greatest version */
    uint8_t op;   /* in the batch: simba_op + 1; 0: none */
} contender;

typedef enum phase { PHASE_IDLE, PHASE_SENT, PHASE_WAITS } phase;

typedef struct client {
    contender contenders[MUTEXES];
    uint8_t phase;
    uint8_t began; /* the batch */
    uint8_t step_began;
    uint8_t action; /* of the step that was sent */
    uint8_t link;   /* when the batch began */
    bool is_up, in_transaction;
    bool has_put[MUTEXES];
    stored after[MUTEXES]; /* what was put */
    uint8_t outcomes;
    outcome history[HISTORY];
} client;

typedef struct world {
    machine_head head;
    uint8_t left[CLIENTS]; /* of what the bounds allow */
    bool is_healed;
    uint8_t now;
    uint8_t timeouts; /* since a batch of the future began */
    uint8_t granted[MUTEXES];
    stored rows[MUTEXES];
    client clients[CLIENTS_MAX];
} world;

typedef enum choice_kind {
    CHOICE_BEGIN,       /* a batch; the slot has the wishes */
    CHOICE_CARRY_OUT,   /* a step */
    CHOICE_TIMEOUT,     /* of one that waits for a lock */
    CHOICE_LOSE,        /* the connection, before the step is carried out, */
    CHOICE_LOSE_ANSWER, /* or after */
    CHOICE_LOCK,
    CHOICE_UNLOCK,
    CHOICE_TICK,
} choice_kind;

static const char *const names[MUTEXES] = {"a", "b"};
static const char *const ids[CLIENTS_MAX] = {"one", "two", "three"};

static unsigned bound(const world *w, unsigned which)
{
    return w->head.bounds[which];
}

/* --- rows, as the model has them --------------------------------------------------------------------------- */

static int64_t ms_of(uint8_t tick)
{
    return tick == 0 ? 0 : BASE_MS + (tick - 1) * (int64_t)TICK_MS;
}

static uint8_t tick_of(int64_t ms)
{
    return ms == 0 ? 0 : (uint8_t)((ms - BASE_MS) / TICK_MS + 1);
}

/* What a transaction of the client sees of the server. */
typedef struct view {
    model_sql server;
    model_sql_conn conns[CLIENTS_MAX];
} view;

static int somebody;

static const void *locker_of(const view *v, uint8_t locked_by)
{
    return locked_by == 0 ? NULL : locked_by == SOMEBODY ? (const void *)&somebody : &v->conns[locked_by - 1];
}

static void unpack_row(const view *v, unsigned mutex, const stored *from, model_sql_row *to)
{
    *to = (model_sql_row){.version = from->version,
                          .nonce = from->nonce,
                          .nonce_version = from->nonce_version,
                          .acquired_at = ms_of(from->acquired),
                          .ttl_at = from->until ? ms_of(from->until) - TICK_MS : 0,
                          .transition_at = ms_of(from->until),
                          .locked_by = v ? locker_of(v, from->locked_by) : NULL};
    strcpy(to->mutex, names[mutex]);
    strcpy(to->owner_id, from->owner ? ids[from->owner - 1] : "");
}

static uint8_t client_of(const char *id)
{
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        if (strcmp(ids[i], id) == 0)
            return (uint8_t)(i + 1);
    return 0;
}

static void pack_row(const view *v, const model_sql_row *from, stored *to)
{
    *to = (stored){.exists = true,
                   .owner = client_of(from->owner_id),
                   .version = (uint8_t)from->version,
                   .nonce = (uint8_t)from->nonce,
                   .nonce_version = (uint8_t)from->nonce_version,
                   .acquired = tick_of(from->acquired_at),
                   .until = tick_of(from->transition_at),
                   .locked_by = from->locked_by == &somebody ? SOMEBODY : 0};
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        if (from->locked_by == &v->conns[i])
            to->locked_by = (uint8_t)(i + 1);
}

static void unpack(const world *w, unsigned index, uint8_t now, view *v)
{
    const client *c = &w->clients[index];
    model_sql_conn *conn = &v->conns[index];
    model_sql_init(&v->server);
    v->server.now_ms = ms_of(now);
    v->server.waits_to_decide = bound(w, DECIDES) == 0;
    v->server.table.skips_locked = bound(w, SKIPS) > 0;
    *conn = (model_sql_conn){.server = &v->server, .is_up = c->is_up, .in_transaction = c->in_transaction};
    for (unsigned m = 0; m < MUTEXES; m++) {
        if (!w->rows[m].exists)
            continue;
        const size_t at = v->server.count++;
        unpack_row(v, m, &w->rows[m], &v->server.rows[at]);
        conn->has_put[at] = c->has_put[m];
        if (c->has_put[m])
            unpack_row(v, m, &c->after[m], &conn->after[at]);
    }
}

static void pack(world *w, unsigned index, const view *v)
{
    client *c = &w->clients[index];
    const model_sql_conn *conn = &v->conns[index];
    c->is_up = conn->is_up;
    c->in_transaction = conn->in_transaction;
    for (unsigned m = 0; m < MUTEXES; m++)
        for (size_t i = 0; i < v->server.count; i++) {
            if (strcmp(v->server.rows[i].mutex, names[m]) != 0)
                continue;
            pack_row(v, &v->server.rows[i], &w->rows[m]);
            c->has_put[m] = conn->has_put[i];
            c->after[m] = (stored){0};
            if (conn->has_put[i])
                pack_row(v, &conn->after[i], &c->after[m]);
        }
}

/* --- a batch, made anew --------------------------------------------------------------------------------------- */

static unsigned mutex_of(const char *name)
{
    return name[0] == 'a' ? 0 : 1;
}

static uint64_t nonce_of(unsigned index, const contender *c)
{
    return 1 + index + (uint64_t)CLIENTS_MAX * c->incarnation;
}

static void add_items(const world *w, unsigned index, simba__sql_batch *batch)
{
    for (unsigned m = 0; m < MUTEXES; m++) {
        const contender *asks = &w->clients[index].contenders[m];
        if (asks->op == 0)
            continue;
        const simba_op op = (simba_op)(asks->op - 1);
        simba_request request = {.op = op,
                                 .mutex = names[m],
                                 .id = ids[index],
                                 .nonce = nonce_of(index, asks),
                                 .token = op == SIMBA_OP_ACQUIRE ? 0 : asks->token,
                                 .ttl_ms = TICK_MS,
                                 .transition_ms = (LEASE_TICKS - 1) * TICK_MS,
                                 .deadline = {INT64_MAX}};
        simba__sql_item *item = simba__sql_batch_add(batch, &request);
        item->request = NULL; /* nobody is told */
        item->floor = asks->seen;
    }
}

/* The step is as if it had been carried out just now. Returns as a dialect does. */
static int apply(const world *w, const outcome *from, simba__sql_step *step, simba__sql_batch *batch,
                 simba__sql_failure *why)
{
    model_sql server;
    model_sql_init(&server);
    server.now_ms = ms_of(from->now);
    server.table.skips_locked = bound(w, SKIPS) > 0;
    if (step->action == SIMBA__SQL_READY)
        batch->table = server.table;
    step->matched = from->matched;
    step->token = from->token;
    for (size_t i = 0; i < step->count && step->action != SIMBA__SQL_PUT; i++) {
        simba__sql_row *row = step->rows[i];
        const unsigned m = mutex_of(row->mutex);
        model_sql_row read;
        simba__sql_row_clear(row, server.now_ms);
        if (from->row[m].exists) {
            unpack_row(NULL, m, &from->row[m], &read);
            const simba__sql_columns columns = model_sql_columns(&server, &read);
            simba__sql_row_decode(row, &columns, UINT32_MAX);
        }
        row->deed = (simba__sql_deed)from->deed[m];
        row->place = from->place[m];
    }
    if (from->failure == 0)
        return 0;
    return simba__sql_fail(why, (simba__sql_remedy)(from->failure - 1), SIMBA_EUNAVAILABLE, "model: it failed");
}

/* The next step of its batch; NULL: it is over. */
static simba__sql_step *replay(const world *w, unsigned index, simba__sql_batch *batch)
{
    const client *c = &w->clients[index];
    const simba_local now = {0};
    simba__sql_failure why;
    simba__sql_batch_init(batch, (simba__sql_place){"model", "here", "simba_mutex"}, 1);
    SIMBA__ASSERT(simba__sql_batch_reserve(batch, MUTEXES, 64));
    add_items(w, index, batch);
    batch->link = (simba__sql_link)c->link;
    simba__sql_batch_begin(batch, bound(w, DECIDES) ? simba__sql_decisions_next : simba__sql_writes_next);
    simba__sql_step *step = simba__sql_batch_next(batch, NULL, now, false);
    for (unsigned i = 0; i < c->outcomes && step; i++) {
        const int rc = apply(w, &c->history[i], step, batch, &why);
        step = simba__sql_batch_next(batch, rc < 0 ? &why : NULL, now, false);
    }
    return step;
}

/* --- what is promised ------------------------------------------------------------------------------------------ */

static bool believes(const world *w, unsigned index, unsigned mutex)
{
    const contender *c = &w->clients[index].contenders[mutex];
    return c->holds && w->now < c->until;
}

/* The server has carried something out for this client: is a mutex its own that somebody else believes to hold? */
static void check_grants(world *w, unsigned index, const stored before[MUTEXES])
{
    for (unsigned m = 0; m < MUTEXES; m++) {
        const stored *row = &w->rows[m];
        if (row->owner != index + 1 || (before[m].owner == row->owner && before[m].version == row->version))
            continue;
        for (unsigned i = 0; i < bound(w, CLIENTS) && i < CLIENTS_MAX; i++)
            if (i != index && believes(w, i, m))
                machine_broken(&w->head, "S1", "%s is granted %s, which %s believes to hold", ids[index], names[m],
                               ids[i]);
    }
}

static void check_token(world *w, unsigned index, unsigned mutex, uint64_t token)
{
    const contender *c = &w->clients[index].contenders[mutex];
    const bool is_known = c->holds && c->token == token;
    if (is_known)
        return;
    if (token <= w->granted[mutex])
        machine_broken(&w->head, "S3", "%s has the token %u for %s, and %u was granted before", ids[index],
                       (unsigned)token, names[mutex], w->granted[mutex]);
    w->granted[mutex] = (uint8_t)token;
}

/* --- answers -------------------------------------------------------------------------------------------------- */

static void take_answer(world *w, unsigned index, const simba__sql_item *item)
{
    const unsigned m = mutex_of(item->ask.mutex);
    client *mine = &w->clients[index];
    contender *c = &mine->contenders[m];
    const simba_op op = item->ask.op;
    c->op = 0;
    if (item->error || item->put_off) {
        machine_tell(&w->head, "%s: no answer for %s%s", ids[index], names[m], item->put_off ? ", put off" : "");
        c->incarnation += op == SIMBA_OP_RELEASE; /* it would ask again, and until then this grant stays nobody's */
        return;
    }
    c->seen = item->version > c->seen ? (uint8_t)item->version : c->seen;
    const bool is_mine = op != SIMBA_OP_RELEASE && item->ask.reply.outcome == SIMBA_MINE;
    machine_tell(&w->head, "%s: %s %s", ids[index], names[m],
                 op == SIMBA_OP_RELEASE ? "is released"
                 : is_mine              ? "is its own"
                                        : "is not its own");
    if (is_mine) {
        check_token(w, index, m, item->ask.reply.owner.token);
        c->holds = true;
        c->token = (uint8_t)item->ask.reply.owner.token;
        c->until = (uint8_t)(mine->began + LEASE_TICKS);
    } else {
        c->incarnation += op == SIMBA_OP_RENEW || op == SIMBA_OP_RELEASE;
        c->holds = false;
    }
}

static void push_outcome(world *w, client *c, const outcome *what)
{
    if (c->outcomes == HISTORY)
        machine_broken(&w->head, "L1", "a batch does not end");
    else
        c->history[c->outcomes++] = *what;
}

/* What concerns nobody else is carried out at once. */
static bool is_private(simba__sql_action action)
{
    return action == SIMBA__SQL_READY || action == SIMBA__SQL_BEGIN || action == SIMBA__SQL_PAUSE ||
           action == SIMBA__SQL_CLOSE;
}

static void end_batch(world *w, unsigned index, const simba__sql_batch *batch)
{
    client *c = &w->clients[index];
    for (size_t i = 0; i < batch->count; i++)
        take_answer(w, index, &batch->items[i]);
    c->phase = PHASE_IDLE;
    c->link = (uint8_t)batch->link;
    c->outcomes = c->action = c->began = c->step_began = 0;
    memset(c->history, 0, sizeof c->history);
}

/* --- the server ----------------------------------------------------------------------------------------------- */

static void drop(world *w, unsigned index)
{
    client *c = &w->clients[index];
    for (unsigned m = 0; m < MUTEXES; m++) {
        if (w->rows[m].locked_by == index + 1)
            w->rows[m].locked_by = 0;
        c->has_put[m] = false;
        c->after[m] = (stored){0};
    }
    c->in_transaction = c->is_up = false;
}

static void note_rows(const world *w, const simba__sql_step *step, outcome *ret)
{
    for (size_t i = 0; i < step->count && step->action != SIMBA__SQL_PUT; i++) {
        const simba__sql_row *row = step->rows[i];
        const unsigned m = mutex_of(row->mutex);
        ret->deed[m] = (uint8_t)row->deed;
        ret->place[m] = (uint8_t)row->place;
        if (!row->found)
            continue;
        ret->row[m] = w->rows[m];
        ret->row[m].locked_by = 0;
    }
}

static void send_step(world *w, unsigned index, const simba__sql_step *step)
{
    client *c = &w->clients[index];
    c->phase = PHASE_SENT;
    c->action = (uint8_t)step->action;
    c->step_began = w->now;
}

/* False: it waits for a row. */
static bool carry_out_step(world *w, unsigned index, simba__sql_step *step, simba__sql_batch *batch, outcome *ret)
{
    static const char *const words[SIMBA__SQL_ACTIONS] = {
        "",       "ready",     "ready",   "close", "begin",
        "commit", "roll back", "get",     "lock",  "lock those that are free",
        "make",   "put",       "acquire", "renew", "release",
        "decide"};
    client *c = &w->clients[index];
    const bool is_known = step->action != SIMBA__SQL_LOCK_FREE || bound(w, SKIPS) > 0;
    simba__sql_failure why = {0};
    stored before[MUTEXES];
    view v;
    *ret = (outcome){.now = c->step_began};
    if (step->action == SIMBA__SQL_PAUSE)
        return true;
    machine_tell(&w->head, "%s: %s", ids[index], words[step->action]);
    memcpy(before, w->rows, sizeof before);
    unpack(w, index, c->step_began, &v);
    if (is_known && model_sql_lock(&v.conns[index], step)) {
        c->phase = PHASE_WAITS;
        pack(w, index, &v);
        return false;
    }
    const int rc = is_known ? model_sql_carry_out(&v.conns[index], step, &batch->table, &why)
                            : simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_ESTORE, "model: what is that?");
    pack(w, index, &v);
    ret->failure = rc < 0 ? (uint8_t)(why.remedy + 1) : 0;
    ret->matched = step->matched;
    ret->token = (uint8_t)step->token;
    if (rc == 0)
        note_rows(w, step, ret);
    check_grants(w, index, before);
    return true;
}

/* This came of the step; the batch goes on to its next one, and over those that concern nobody else. */
static void go_on(world *w, unsigned index, simba__sql_batch *batch, simba__sql_step *step, outcome what)
{
    const simba_local now = {0};
    client *c = &w->clients[index];
    do {
        simba__sql_failure why;
        push_outcome(w, c, &what);
        if (w->head.promise)
            return;
        const int rc = apply(w, &what, step, batch, &why);
        step = simba__sql_batch_next(batch, rc < 0 ? &why : NULL, now, false);
        if (!step) {
            end_batch(w, index, batch);
            return;
        }
        send_step(w, index, step);
    } while (is_private(step->action) && carry_out_step(w, index, step, batch, &what));
}

/* The step is carried out, or waits for a row. If it is not answered, the connection has gone meanwhile. */
static void carry_out(world *w, unsigned index, bool is_answered)
{
    simba__sql_batch batch;
    outcome what;
    simba__sql_step *step = replay(w, index, &batch);
    const bool is_done = carry_out_step(w, index, step, &batch, &what);
    if (is_done && !is_answered) {
        drop(w, index);
        what = (outcome){.now = w->clients[index].step_began, .failure = SIMBA__SQL_LOST + 1};
    }
    if (is_done)
        go_on(w, index, &batch, step, what);
    simba__sql_batch_fini(&batch);
}

static void fail_step(world *w, unsigned index, simba__sql_remedy remedy)
{
    client *c = &w->clients[index];
    const outcome what = {.now = c->step_began, .failure = (uint8_t)(remedy + 1)};
    simba__sql_batch batch;
    simba__sql_step *step = replay(w, index, &batch);
    const bool was_in_transaction = c->in_transaction;
    if (remedy == SIMBA__SQL_LOST || !was_in_transaction)
        drop(w, index);
    if (remedy != SIMBA__SQL_LOST && !was_in_transaction)
        c->is_up = true; /* it has only given up its locks */
    go_on(w, index, &batch, step, what);
    simba__sql_batch_fini(&batch);
}

/* --- choices ---------------------------------------------------------------------------------------------------- */

static wish wish_of(unsigned slot, unsigned mutex)
{
    return (wish)(mutex == 0 ? slot % WISHES : slot / WISHES);
}

static void begin_batch(world *w, unsigned index, unsigned slot)
{
    client *c = &w->clients[index];
    c->began = w->now;
    for (unsigned m = 0; m < MUTEXES; m++) {
        contender *asks = &c->contenders[m];
        if (asks->holds && w->now >= asks->until) {
            asks->holds = false; /* and whoever lost it begins anew */
            asks->incarnation++;
        }
        const wish what = wish_of(slot, m);
        const simba_op op = what == WISH_RELEASE ? SIMBA_OP_RELEASE : asks->holds ? SIMBA_OP_RENEW : SIMBA_OP_ACQUIRE;
        asks->op = what == WISH_NOTHING ? 0 : (uint8_t)(op + 1);
        if (what != WISH_NOTHING)
            machine_tell(&w->head, "%s wants to %s %s", ids[index],
                         op == SIMBA_OP_RELEASE ? "release"
                         : op == SIMBA_OP_RENEW ? "renew"
                                                : "acquire",
                         names[m]);
        if (op == SIMBA_OP_RELEASE && what != WISH_NOTHING)
            asks->holds = false;
    }
    simba__sql_batch batch;
    send_step(w, index, replay(w, index, &batch));
    simba__sql_batch_fini(&batch);
    carry_out(w, index, true); /* it connects, or looks whether it is connected */
}

static bool may_begin(const world *w, unsigned index, unsigned slot)
{
    for (unsigned m = 0; m < MUTEXES; m++)
        if (wish_of(slot, m) == WISH_RELEASE && !believes(w, index, m))
            return false;
    return true;
}

/* Would it get on? */
static bool is_blocked(const world *w, unsigned index)
{
    world tried = *w;
    tried.head.log = NULL;
    if (w->clients[index].phase != PHASE_WAITS)
        return false;
    carry_out(&tried, index, true);
    return tried.clients[index].phase == PHASE_WAITS;
}

static unsigned choices(const void *of, choice *ret_choices)
{
    const world *w = of;
    machine_list l = {ret_choices, 0};
    for (unsigned i = 0; i < bound(w, CLIENTS); i++) {
        const client *c = &w->clients[i];
        if (c->phase == PHASE_IDLE) {
            for (unsigned slot = 1; slot < WISHES * WISHES && w->left[BATCHES] > 0; slot++)
                machine_add(&l, may_begin(w, i, slot), CHOICE_BEGIN, i, slot);
            continue;
        }
        const bool blocked = is_blocked(w, i);
        machine_add(&l, !blocked, CHOICE_CARRY_OUT, i, 0);
        machine_add(&l, blocked, CHOICE_TIMEOUT, i, 0);
        machine_add(&l, w->left[LOSSES] > 0, CHOICE_LOSE, i, 0);
        machine_add(&l, w->left[LOSSES] > 0 && !blocked, CHOICE_LOSE_ANSWER, i, 0);
    }
    for (unsigned m = 0; m < MUTEXES; m++) {
        machine_add(&l, w->left[LOCKS] > 0 && w->rows[m].exists && w->rows[m].locked_by == 0, CHOICE_LOCK, 0, m);
        machine_add(&l, w->rows[m].locked_by == SOMEBODY, CHOICE_UNLOCK, 0, m);
    }
    machine_add(&l, w->left[TICKS] > 0, CHOICE_TICK, 0, 0);
    return l.count;
}

static void tick(world *w)
{
    w->now++;
    w->head.at_ms += TICK_MS;
}

static void choose(void *of, choice what)
{
    world *w = of;
    switch ((choice_kind)what.kind) {
    case CHOICE_BEGIN:
        w->left[BATCHES]--;
        begin_batch(w, what.member, what.slot);
        break;
    case CHOICE_CARRY_OUT:
        carry_out(w, what.member, true);
        break;
    case CHOICE_TIMEOUT:
        machine_tell(&w->head, "%s: the server gives up waiting for a row", ids[what.member]);
        fail_step(w, what.member, SIMBA__SQL_LOCKED);
        break;
    case CHOICE_LOSE:
    case CHOICE_LOSE_ANSWER:
        machine_tell(&w->head, "%s: the connection is lost%s", ids[what.member],
                     what.kind == CHOICE_LOSE ? "" : ", and with it the answer");
        w->left[LOSSES]--;
        if (what.kind == CHOICE_LOSE)
            fail_step(w, what.member, SIMBA__SQL_LOST);
        else
            carry_out(w, what.member, false);
        break;
    case CHOICE_LOCK:
        machine_tell(&w->head, "somebody locks %s", names[what.slot]);
        w->left[LOCKS]--;
        w->rows[what.slot].locked_by = SOMEBODY;
        break;
    case CHOICE_UNLOCK:
        machine_tell(&w->head, "somebody unlocks %s", names[what.slot]);
        w->rows[what.slot].locked_by = 0;
        break;
    case CHOICE_TICK:
        w->left[TICKS]--;
        tick(w);
        break;
    }
}

/* What was believed and is over is as good as nothing. Clients are not renamed: they have an order at the server. */
static void normalise(void *of)
{
    world *w = of;
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        for (unsigned m = 0; m < MUTEXES; m++) {
            contender *c = &w->clients[i].contenders[m];
            if (!c->holds && c->op == 0)
                c->token = 0;
            if (!c->holds)
                c->until = 0;
        }
}

/* --- when all is well ------------------------------------------------------------------------------------------- */

/* Carry out whatever was sent, until nobody has anything under way. Who waits for a row that nobody gives back is given up by the
 * server. */
static void settle(world *w)
{
    for (unsigned n = 0; n < 20 * HISTORY && !w->head.promise; n++) {
        unsigned waiting = CLIENTS_MAX;
        bool has_moved = false;
        for (unsigned i = 0; i < bound(w, CLIENTS) && !has_moved; i++) {
            if (w->clients[i].phase == PHASE_IDLE)
                continue;
            if (is_blocked(w, i)) {
                waiting = i;
                continue;
            }
            carry_out(w, i, true);
            has_moved = true;
        }
        if (!has_moved && waiting == CLIENTS_MAX)
            return;
        if (!has_moved) {
            w->timeouts++;
            fail_step(w, waiting, SIMBA__SQL_LOCKED);
        }
    }
    machine_broken(&w->head, "L1", "all is well, and a batch does not end");
}

static void check_somebody_holds(world *w)
{
    for (unsigned round = 0; round < LEASE_TICKS + 2 && !w->head.promise; round++) {
        for (unsigned i = 0; i < bound(w, CLIENTS) && !w->head.promise; i++) {
            begin_batch(w, i, WISH_HOLD + WISH_HOLD * WISHES);
            settle(w);
        }
        tick(w);
    }
    for (unsigned m = 0; m < MUTEXES && !w->head.promise; m++) {
        bool is_held = false;
        for (unsigned i = 0; i < bound(w, CLIENTS); i++)
            is_held |= believes(w, i, m);
        if (!is_held)
            machine_broken(&w->head, "L1", "all is well, and nobody holds %s", names[m]);
    }
}

/* How many lock timeouts a batch about both may take: none where the server decides, or where it can skip the rows of renewals. */
static unsigned timeouts_allowed(const world *w, bool all_renew)
{
    if (bound(w, DECIDES) > 0)
        return 0;
    return bound(w, SKIPS) == 0 ? 2 : all_renew ? 0 : 1;
}

/* Somebody keeps a row locked: whoever holds the other one, and is renewed together with it, is answered; and nobody is told that the
 * locked one is not its own. */
static void check_neighbours(world *w, unsigned locked)
{
    const unsigned other = 1 - locked;
    if (!w->rows[locked].exists || w->rows[locked].locked_by != 0)
        return;
    machine_tell(&w->head, "somebody locks %s, and keeps it so", names[locked]);
    w->rows[locked].locked_by = SOMEBODY;
    tick(w); /* so that a renewal makes a difference */
    for (unsigned i = 0; i < bound(w, CLIENTS) && !w->head.promise; i++) {
        const contender *kept = &w->clients[i].contenders[locked], *renewed = &w->clients[i].contenders[other];
        const bool has_locked = believes(w, i, locked);
        if (!believes(w, i, other))
            continue;
        w->timeouts = 0;
        begin_batch(w, i, WISH_HOLD + WISH_HOLD * WISHES);
        settle(w);
        if (!renewed->holds || renewed->until != w->now + LEASE_TICKS || w->timeouts > timeouts_allowed(w, has_locked))
            machine_broken(&w->head, "L3", "%s is not renewed in time, because %s is locked (%u timeouts)",
                           names[other], names[locked], w->timeouts);
        else if (has_locked && !kept->holds)
            machine_broken(&w->head, "L3", "%s is told that %s is not its own, and it is only locked", ids[i],
                           names[locked]);
    }
}

static void heal(world *w)
{
    w->is_healed = true;
    memset(w->left, 0, sizeof w->left);
    for (unsigned m = 0; m < MUTEXES; m++)
        if (w->rows[m].locked_by == SOMEBODY)
            w->rows[m].locked_by = 0;
    settle(w);
}

static void future(const void *of, void *ret_future)
{
    world *w = ret_future;
    for (unsigned m = 0; m < MUTEXES; m++) {
        memcpy(w, of, sizeof *w);
        heal(w);
        if (!w->head.promise)
            check_neighbours(w, m);
        if (w->head.promise)
            return;
    }
    memcpy(w, of, sizeof *w);
    heal(w);
    if (!w->head.promise)
        check_somebody_holds(w);
}

static void begin(void *of)
{
    world *w = of;
    for (unsigned i = 0; i < CLIENTS; i++)
        w->left[i] = (uint8_t)bound(w, i);
    w->now = 1;
}

const machine machine_sql_batch = {
    .name = "sql-batch",
    .bounds = {[BATCHES] = {"batches", 2, 9},
               [LOSSES] = {"losses", 1, 9},
               [LOCKS] = {"locks", 1, 9},
               [TICKS] = {"ticks", 0, 9},
               [CLIENTS] = {"clients", 2, CLIENTS_MAX},
               [SKIPS] = {"skips", 1, 1},
               [DECIDES] = {"decides", 0, 1}},
    .size = sizeof(world),
    .begin = begin,
    .choices = choices,
    .choose = choose,
    .normalise = normalise,
    .future = future,
};
