/* Sessions of an SQL server that are not ours.
 *
 * Contenders of Simba on the JVM: one conditional UPDATE takes or renews the row, a SELECT reads it back, and both are one
 * transaction; they renew once, when their ttl is over, and ask again when the owner's lease ends, plus a jitter. They do not
 * touch our columns, so their grants have no token. What counts is that ours never lead while the row is theirs. They leave
 * when everything heals, because they do not keep the promises of liveness.
 *
 * Contenders of the version before ours, which shares the rows: it decides by the time at which it had locked the row, and its
 * grants have tokens and nonces. Here they ask when those of the JVM do, and leave with them.
 *
 * Somebody else, who locks a row for long: a backup, a person at a prompt. Some lock both rows in the wrong order. */
#include <stdio.h>
#include <string.h>

#include "sim/sql_model.h"

typedef enum jvm_move { JVM_ACQUIRE, JVM_RELEASE, JVM_COMMIT } jvm_move;

static int64_t trip(sim *s)
{
    return s->plan->latency_ns * sim_pick(s, 50, 150) / 100;
}

static void lock_row(sim *s, sql_session *session, unsigned mutex)
{
    sql_call call = {.verb = SQL_FOREIGN, .names = 1};
    strcpy(call.name[0], sim_mutex_name(mutex));
    sql_session_call(s, session, &call);
}

static sql_session *session_of(sim *s, sql_kind kind, unsigned foreign)
{
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++) {
        sql_session *session = &sql_state_of(s)->session[i];
        if (session->phase != SQL_FREE_SLOT && session->kind == kind && session->foreign == foreign)
            return session;
    }
    return NULL;
}

/* --- the JVM ---------------------------------------------------------------------------------------------- */

static void plan_move(sim *s, unsigned i, jvm_move move, int64_t after_ns)
{
    sim_plan_event(s, EV_SERVER, SQL_EV_JVM, s->now + after_ns, ++sql_state_of(s)->jvm[i].version,
                   i << 8 | (unsigned)move);
}

/* The UPDATE, by the time at which it began. */
static void update(const sim *s, const sql_jvm *jvm, sql_row *row, int64_t now_ms)
{
    const simba_timing *timing = &s->plan->timing;
    const bool is_mine = strcmp(row->owner_id, jvm->id) == 0;
    if (jvm->what == JVM_RELEASE ? !is_mine
                                 : !(row->transition_at < now_ms || (is_mine && row->transition_at > now_ms)))
        return;
    const bool takes = jvm->what == JVM_ACQUIRE;
    snprintf(row->owner_id, sizeof row->owner_id, "%s", takes ? jvm->id : "");
    row->acquired_at = takes ? now_ms : 0;
    row->ttl_at = takes ? now_ms + timing->ttl_ms : 0;
    row->transition_at = takes ? row->ttl_at + timing->transition_ms : 0;
    row->version++;
}

/* What the version before writes. */
static void update_as_before(const sim *s, sql_jvm *jvm, sql_row *row)
{
    const simba_timing *timing = &s->plan->timing;
    const bool is_free = row->owner_id[0] == '\0' || row->transition_at < jvm->locked_ms;
    const bool is_mine = !is_free && strcmp(row->owner_id, jvm->id) == 0 && row->nonce_version == row->version &&
                         row->version == jvm->token;
    const bool takes = jvm->what == JVM_ACQUIRE;
    if (takes ? !is_free && !is_mine : !is_mine)
        return;
    if (is_free || !takes) {
        snprintf(row->owner_id, sizeof row->owner_id, "%s", takes ? jvm->id : "");
        row->acquired_at = takes ? jvm->locked_ms : 0;
        jvm->token = ++row->version;
        row->nonce = takes ? UINT64_MAX : 0; /* nobody else's */
        row->nonce_version = takes ? row->version : 0;
    }
    row->ttl_at = takes ? jvm->locked_ms + timing->ttl_ms : 0;
    row->transition_at = takes ? row->ttl_at + timing->transition_ms : 0;
}

static void commit(sim *s, unsigned i, sql_session *session)
{
    sql_jvm *jvm = &sql_state_of(s)->jvm[i];
    sql_row *row = sql_row_of(sql_state_of(s), sim_mutex_name(jvm->mutex));
    const sql_row before = *row;
    const int64_t now_ms = sql_now_ms(s), by_ms = jvm->is_simba ? jvm->locked_ms : session->began_ms;
    if (jvm->is_simba)
        update_as_before(s, jvm, row);
    else
        update(s, jvm, row, by_ms);
    sql_row_changed(s, &before, row, by_ms > now_ms ? by_ms : now_ms);
    jvm->holds = strcmp(row->owner_id, jvm->id) == 0;
    jvm->alive = jvm->what != JVM_RELEASE || !jvm->leaves;
    const int64_t wait_ms = row->transition_at > now_ms ? row->transition_at - now_ms : 0;
    if (jvm->holds)
        plan_move(s, i, sim_chance(s, 300) ? JVM_RELEASE : JVM_ACQUIRE, s->plan->timing.ttl_ms * SIM_MS + trip(s));
    else if (jvm->alive)
        plan_move(s, i, JVM_ACQUIRE, wait_ms * SIM_MS + sim_pick(s, 0, SIM_S) + trip(s));
    sql_session_end(s, session);
}

static void move(sim *s, unsigned i, jvm_move what)
{
    sql_jvm *jvm = &sql_state_of(s)->jvm[i];
    sql_session *session = session_of(s, SQL_JVM, i);
    if (what == JVM_COMMIT && session) {
        commit(s, i, session);
        return;
    }
    if (session) /* of an earlier move, which the server has not ended yet */
        sql_session_end(s, session);
    jvm->what = what == JVM_COMMIT || jvm->leaves ? JVM_RELEASE : what;
    lock_row(s, sql_session_new(s, SQL_JVM, i, 0), jvm->mutex);
}

/* --- lockers ---------------------------------------------------------------------------------------------- */

static void plan_locker(sim *s, unsigned i, int64_t at)
{
    sim_plan_event(s, EV_SERVER, SQL_EV_LOCKER, at, 0, i);
}

void sql_foreign_lock(sim *s, unsigned mutex, int64_t until)
{
    sql_state *state = sql_state_of(s);
    if (state->lockers == SQL_LOCKERS)
        return;
    sql_locker *locker = &state->locker[state->lockers];
    *locker = (sql_locker){.mutex = mutex, .until = until, .wants_both = mutex > 0 && sim_chance(s, 300)};
    sql_session *session = sql_session_new(s, SQL_LOCKER, state->lockers, 0);
    plan_locker(s, state->lockers++, until);
    lock_row(s, session, mutex);
}

/* Its first row is locked; the second one is that of an earlier name. */
static void go_on(sim *s, sql_session *session)
{
    sql_locker *locker = &sql_state_of(s)->locker[session->foreign];
    if (locker->wants_both) {
        check_row_locked(s, 0, s->now,
                         locker->until); /* a statement that skips locked rows does not wait, and still lacks the row */
        lock_row(s, session, 0);
    }
    locker->wants_both = false;
}

/* --- both ------------------------------------------------------------------------------------------------- */

void sql_foreign_answered(sim *s, sql_session *session, bool locked)
{
    if (session->kind == SQL_LOCKER && locked)
        go_on(s, session);
    else if (session->kind == SQL_LOCKER && s->now < sql_state_of(s)->locker[session->foreign].until)
        lock_row(s, session, sql_state_of(s)->locker[session->foreign].mutex); /* it tries again */
    else if (session->kind == SQL_JVM && locked) {
        sql_state_of(s)->jvm[session->foreign].locked_ms = sql_now_ms(s);
        plan_move(s, session->foreign, JVM_COMMIT, 2 * trip(s) + sim_pick(s, 1000, sql_state_of(s)->commit_ns));
    } else if (session->kind == SQL_JVM) /* it takes a failure for the end, and waits for another ttl */
        plan_move(s, session->foreign, JVM_ACQUIRE, s->plan->timing.ttl_ms * SIM_MS);
}

void sql_foreign_begin(sim *s)
{
    for (unsigned i = 0; i < SQL_JVMS; i++) {
        sql_jvm *jvm = &sql_state_of(s)->jvm[i];
        *jvm = (sql_jvm){.alive = i < s->plan->jvms, .mutex = i % s->plan->mutexes};
        jvm->is_simba = i == 1;
        snprintf(jvm->id, sizeof jvm->id, jvm->is_simba ? "%u.1.before" : "%u:1@jvm", i);
        if (jvm->alive)
            plan_move(s, i, JVM_ACQUIRE, sim_pick(s, 0, 10 * SIM_S));
    }
}

void sql_foreign_disconnected(sim *s)
{
    for (unsigned i = 0; i < SQL_JVMS; i++)
        if (sql_state_of(s)->jvm[i].alive)
            plan_move(s, i, JVM_ACQUIRE, sim_pick(s, 0, s->plan->timing.ttl_ms) * SIM_MS);
}

void sql_foreign_leave(sim *s)
{
    sql_state *state = sql_state_of(s);
    for (unsigned i = 0; i < sql_state_of(s)->sessions; i++)
        if (state->session[i].phase != SQL_FREE_SLOT && state->session[i].kind != SQL_CLIENT)
            sql_session_end(s, &state->session[i]);
    for (unsigned i = 0; i < SQL_JVMS; i++) {
        state->jvm[i].leaves = true;
        if (state->jvm[i].alive)
            plan_move(s, i, JVM_RELEASE, trip(s));
    }
}

void sql_foreign_event(sim *s, const sim_event *event)
{
    if (event->who == SQL_EV_LOCKER) {
        sql_session *session = session_of(s, SQL_LOCKER, event->arg);
        if (session)
            sql_session_end(s, session);
        return;
    }
    const unsigned i = event->arg >> 8;
    const sql_jvm *jvm = &sql_state_of(s)->jvm[i];
    if (!jvm->alive || event->version != jvm->version)
        return;
    if (store_is_away(s))
        plan_move(s, i, (jvm_move)(event->arg & 0xff), sim_pick(s, 100, 1000) * SIM_MS);
    else
        move(s, i, (jvm_move)(event->arg & 0xff));
}
