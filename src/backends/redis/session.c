/* See session.h. */
#include "backends/redis/session.h"

#include <stdio.h>
#include <string.h>

#include "backends/redis/reply.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"

enum {
    HOPS_MOST = 7,      /* how often servers of a cluster may send an errand on */
    GATHER_FROM = 4,    /* while fewer are unanswered, nothing waits to be sent with others */
    GATHER_MOST = 16,   /* so many errands are enough for a write */
    PATIENCE_MS = 1000, /* how long to wait for replicas, at most */
};

/* --- states ----------------------------------------------------------------------------------------- */

static void move(redis_session *s, redis_session_state to)
{
    static const bool allowed[REDIS_SESSION_STATES][REDIS_SESSION_STATES] = {
        [REDIS_SESSION_DOWN] = {[REDIS_SESSION_DOWN] = true, [REDIS_SESSION_LOADING] = true},
        [REDIS_SESSION_LOADING] =
            {[REDIS_SESSION_READY] = true, [REDIS_SESSION_STUCK] = true, [REDIS_SESSION_DOWN] = true},
        [REDIS_SESSION_READY] =
            {[REDIS_SESSION_LOADING] = true, [REDIS_SESSION_STUCK] = true, [REDIS_SESSION_DOWN] = true},
        [REDIS_SESSION_STUCK] = {[REDIS_SESSION_STUCK] = true, [REDIS_SESSION_DOWN] = true},
    };
    SIMBA__ASSERT(allowed[s->state][to]);
    s->state = to;
}

static void move_confirmation(redis_session *s, redis_confirmation to)
{
    static const bool allowed[REDIS_CONFIRMATIONS][REDIS_CONFIRMATIONS] = {
        [REDIS_UNASKED] = {[REDIS_UNASKED] = true, [REDIS_ASKED_ONCE] = true},
        [REDIS_ASKED_ONCE] = {[REDIS_UNASKED] = true, [REDIS_ASKED_AGAIN] = true},
        [REDIS_ASKED_AGAIN] = {[REDIS_UNASKED] = true, [REDIS_ASKED_AGAIN] = true},
    };
    SIMBA__ASSERT(allowed[s->confirmation][to]);
    s->confirmation = to;
}

/* Every event begins with this. The caller has taken all commands and outcomes of the event before. */
static void begin(redis_session *s)
{
    SIMBA__ASSERT(s->written == s->sent.last && !s->over.first);
    s->actions = 0;
}

/* Every event ends with this check of what always holds. Returns the actions. */
static unsigned invariant(const redis_session *s)
{
    const bool down = s->state == REDIS_SESSION_DOWN;
    SIMBA__ASSERT(!down || (!s->sent.first && !s->held.first && s->tick_at.ns == 0));
    SIMBA__ASSERT(!down || (s->confirmation == REDIS_UNASKED && !(s->actions & REDIS_DO_DROP)));
    SIMBA__ASSERT(!s->sent.first || s->tick_at.ns != 0);
    SIMBA__ASSERT(s->state != REDIS_SESSION_READY || s->loaded == REDIS_SCRIPTS);
    SIMBA__ASSERT(s->state != REDIS_SESSION_LOADING || s->loaded < REDIS_SCRIPTS);
    /* If an errand is held, a WAIT about it is under way. */
    SIMBA__ASSERT(!s->held.first || s->confirmation != REDIS_UNASKED);
    return s->actions;
}

static redis_errand *of_item(simba__list_item *item)
{
    return item ? SIMBA__OF_ITEM(item, redis_errand, item) : NULL;
}

void simba__redis_session_init(redis_session *s, const redis_options *options, const simba__endpoint *at,
                               redis_errands *errands)
{
    *s = (redis_session){.options = options, .at = at, .errands = errands};
}

bool simba__redis_session_renews(const redis_session *s)
{
    for (simba__list_item *item = s->waiting.first; item; item = item->next)
        if (of_item(item)->request->op == SIMBA_OP_RENEW)
            return true;
    return false;
}

bool simba__redis_session_waits(const redis_session *s)
{
    return s->waiting.first != NULL;
}

/* --- what comes out ----------------------------------------------------------------------------------- */

redis_errand *simba__redis_session_next_command(redis_session *s)
{
    simba__list_item *next = s->written ? s->written->next : s->sent.first;
    if (next)
        s->written = next;
    return of_item(next);
}

redis_errand *simba__redis_session_next_outcome(redis_session *s)
{
    redis_errand *errand = of_item(s->over.first);
    if (errand)
        simba__redis_errand_move(errand, REDIS_IN_HAND, NULL);
    return errand;
}

redis_errand *simba__redis_session_first(const redis_session *s)
{
    return of_item(s->sent.first);
}

static void end(redis_session *s, redis_errand *errand, redis_outcome outcome)
{
    errand->outcome = outcome;
    simba__redis_errand_move(errand, REDIS_OVER, &s->over);
}

/* Errands that fail from now on get this error. */
static void blame(redis_session *s, int code, const char *why)
{
    simba__error_set(&s->error, code, "redis %s: %s", s->at->where, why);
}

static void drop(redis_session *s, int code, const char *why)
{
    simba__error_set(&s->dropped, code, "redis %s: %s", s->at->where, why);
    s->actions |= REDIS_DO_DROP;
}

/* Drop the connection over an error of the server. */
static void drop_over(redis_session *s, const char *text)
{
    bool useless;
    simba__redis_error(s->at, text, &s->dropped, &useless);
    s->actions |= REDIS_DO_DROP;
}

/* --- sending ---------------------------------------------------------------------------------------- */

static void send(redis_session *s, redis_errand *errand, simba_local now)
{
    errand->session = s;
    errand->sent_at = now;
    errand->answers = s->answers;
    simba__redis_errand_move(errand, REDIS_SENT, &s->sent);
    if (s->tick_at.ns != 0)
        return;
    s->tick_at.ns = now.ns + s->options->timeout_ns;
    s->actions |= REDIS_DO_SET_TIMER;
}

/* Send a command of our own. NULL: out of memory. */
static redis_errand *send_own(redis_session *s, redis_purpose purpose, simba_local now)
{
    redis_errand *errand = simba__redis_errand_begin(s->errands, purpose, NULL);
    if (errand)
        send(s, errand, now);
    return errand;
}

redis_errand *simba__redis_session_own(redis_session *s, redis_purpose purpose, simba_local now)
{
    begin(s);
    const bool knows = purpose == REDIS_FOR_LEARNING ? s->state != REDIS_SESSION_DOWN : s->state == REDIS_SESSION_READY;
    redis_errand *errand = knows ? send_own(s, purpose, now) : NULL;
    if (errand)
        s->written = &errand->item;
    invariant(s);
    return errand;
}

void simba__redis_session_submit(redis_session *s, redis_errand *errand)
{
    errand->session = s;
    simba__redis_errand_move(errand, REDIS_WAITING, &s->waiting);
}

redis_errand *simba__redis_session_withdraw(redis_session *s)
{
    redis_errand *errand = of_item(s->waiting.first);
    if (errand)
        simba__redis_errand_move(errand, REDIS_IN_HAND, NULL);
    return errand;
}

static void send_one(redis_session *s, redis_errand *errand, simba_local now)
{
    /* Ignore the answer to ASKING: if it is an error, the answer to the next command is one, too. */
    if (errand->asking && !send_own(s, REDIS_FOR_ASKING, now)) {
        blame(s, SIMBA_ENOMEM, "out of memory");
        end(s, errand, REDIS_FAIL);
        return;
    }
    send(s, errand, now);
}

static void ask_replicas(redis_session *s, simba_local now)
{
    move_confirmation(s, REDIS_ASKED_ONCE);
    if (!send_own(s, REDIS_FOR_WAITING, now))
        drop(s, SIMBA_ENOMEM, "out of memory");
}

/* True if replicas have to confirm this request. */
static bool is_confirmed(const simba_request *request)
{
    return request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW || request->op == SIMBA_OP_WRITE_NOTE;
}

static void send_waiting(redis_session *s, simba_local now)
{
    bool may_grant = false;
    while (s->waiting.first) {
        redis_errand *errand = of_item(s->waiting.first);
        may_grant |= is_confirmed(errand->request);
        send_one(s, errand, now);
    }
    if (!may_grant || s->options->replicas == 0)
        return;
    if (s->confirmation == REDIS_UNASKED)
        ask_replicas(s, now);
    else
        move_confirmation(s, REDIS_ASKED_AGAIN);
}

/* Should the errands wait for others, to be sent together? Not if little is under way: no answer might come after which to look
 * again. */
static bool gathers(const redis_session *s)
{
    const size_t enough = s->sent.count < GATHER_FROM ? 0 : s->sent.count < GATHER_MOST ? s->sent.count : GATHER_MOST;
    return s->waiting.count < enough && !simba__redis_session_renews(s);
}

unsigned simba__redis_session_flush(redis_session *s, simba_local now)
{
    begin(s);
    if (s->state == REDIS_SESSION_READY && !gathers(s))
        send_waiting(s, now);
    return invariant(s);
}

/* --- scripts ---------------------------------------------------------------------------------------- */

static void load_scripts(redis_session *s, simba_local now)
{
    move(s, REDIS_SESSION_LOADING);
    s->loaded = 0;
    for (int script = 0; script < REDIS_SCRIPTS; script++) {
        redis_errand *errand = send_own(s, REDIS_FOR_LOADING, now);
        if (!errand) {
            drop(s, SIMBA_ENOMEM, "out of memory");
            return;
        }
        errand->script = (redis_script)script;
    }
}

static void take_script(redis_session *s, redis_script script, const redis_answer *answer, simba_local now)
{
    if (answer->kind == REDIS_SAID_ERROR) {
        drop_over(s, answer->text);
    } else if (answer->kind != REDIS_SAID_TEXT) {
        drop(s, SIMBA_ESTORE, "an odd answer to SCRIPT LOAD");
    } else {
        memcpy(s->sha[script], answer->text, 40);
        if (s->state != REDIS_SESSION_LOADING || ++s->loaded < REDIS_SCRIPTS)
            return;
        move(s, REDIS_SESSION_READY);
        s->actions |= REDIS_DO_ANNOUNCE;
        send_waiting(s, now);
    }
}

unsigned simba__redis_session_up(redis_session *s, simba_local now)
{
    begin(s);
    load_scripts(s, now); /* it may be another server, or the same one after a restart */
    return invariant(s);
}

/* --- replicas --------------------------------------------------------------------------------------- */

/* How long replicas may take: half of the time that the request had when it was sent, and PATIENCE_MS at most. */
static simba_local end_of_patience(const redis_errand *errand)
{
    const int64_t half_ns = (errand->request->deadline.ns - errand->sent_at.ns) / 2;
    const int64_t most_ns = PATIENCE_MS * SIMBA__NS_PER_MS;
    return (simba_local){errand->sent_at.ns + (half_ns < most_ns ? half_ns : most_ns)};
}

static void blame_replicas(redis_session *s, const redis_answer *answer)
{
    char why[80];
    if (answer->kind == REDIS_SAID_NUMBER)
        snprintf(why, sizeof why, "%lld of %ld replicas confirmed it", (long long)answer->number, s->options->replicas);
    else
        snprintf(why, sizeof why, "replicas cannot be waited for: %.40s",
                 answer->kind == REDIS_SAID_ERROR ? answer->text : "an odd answer");
    blame(s, SIMBA_EUNAVAILABLE, why);
}

static void take_confirmation(redis_session *s, const redis_answer *answer, simba_local now)
{
    const bool answered = answer->kind == REDIS_SAID_NUMBER;
    const bool enough = answered && answer->number >= s->options->replicas;
    const bool asked_again = s->confirmation == REDIS_ASKED_AGAIN;
    if (enough && s->short_of_replicas)
        s->actions |= REDIS_DO_PRAISE;
    if (enough)
        s->short_of_replicas = false;
    blame_replicas(s, answer);
    for (simba__list_item *item = s->held.first, *next; item; item = next) {
        redis_errand *errand = of_item(item);
        next = item->next;
        if (enough) {
            end(s, errand, REDIS_COMPLETE);
        } else if (!answered || now.ns >= end_of_patience(errand).ns) {
            s->short_of_replicas = true;
            end(s, errand, REDIS_FAIL);
        }
    }
    move_confirmation(s, REDIS_UNASKED);
    if (asked_again || s->held.first)
        ask_replicas(s, now);
}

/* --- answers ---------------------------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}

/* MOVED or ASK: another server has the slot, for good or while it moves. */
static void send_on(redis_session *s, redis_errand *errand, const char *text)
{
    char why[160];
    if (errand->hops == HOPS_MOST) {
        snprintf(why, sizeof why, "sent from one server of the cluster to the other: %.80s", text);
        blame(s, SIMBA_EUNAVAILABLE, why);
        s->actions |= REDIS_DO_SUSPECT;
        end(s, errand, REDIS_FAIL);
        return;
    }
    errand->hops++;
    errand->reloaded = false;
    errand->asking = begins_with(text, "ASK ");
    s->actions |= REDIS_DO_WAKE;
    end(s, errand, REDIS_REDIRECT);
}

/* The server has lost our scripts: load them and send the errand again, once. */
static void send_again(redis_session *s, redis_errand *errand, simba_local now)
{
    errand->reloaded = true;
    simba__redis_session_submit(s, errand);
    if (s->state == REDIS_SESSION_READY)
        load_scripts(s, now);
}

static void take_error(redis_session *s, redis_errand *errand, const char *text, simba_local now)
{
    const bool cluster = s->options->kind == REDIS_CLUSTER;
    bool useless;
    const bool elsewhere = cluster && (begins_with(text, "MOVED ") || begins_with(text, "ASK "));
    if (errand->expired && (elsewhere || begins_with(text, "NOSCRIPT"))) {
        blame(s, SIMBA_ETIMEDOUT, "no answer in time");
        end(s, errand, REDIS_FAIL); /* not carried out, and nobody wants it any more */
    } else if (elsewhere) {
        send_on(s, errand, text);
    } else if (begins_with(text, "NOSCRIPT") && !errand->reloaded) {
        send_again(s, errand, now);
    } else {
        simba__redis_error(s->at, text, &s->error, &useless);
        end(s, errand, REDIS_FAIL);
        if (useless)
            drop_over(s, text);
        if (cluster && begins_with(text, "CLUSTERDOWN"))
            s->actions |= REDIS_DO_SUSPECT;
    }
}

static void take_request(redis_session *s, redis_errand *errand, const redis_answer *answer, simba_local now)
{
    switch (answer->kind) {
    case REDIS_SAID_GRANTED:
        SIMBA__ASSERT(is_confirmed(errand->request)); /* so a WAIT about it is under way, or the next one will be */
        if (s->options->replicas > 0 && !errand->expired)
            simba__redis_errand_move(errand, REDIS_HELD, &s->held);
        else
            end(s, errand, REDIS_COMPLETE);
        break;
    case REDIS_SAID_DONE:
        end(s, errand, REDIS_COMPLETE);
        break;
    case REDIS_SAID_ERROR:
        take_error(s, errand, answer->text, now);
        break;
    case REDIS_SAID_TEXT:
    case REDIS_SAID_NUMBER:
    case REDIS_SAID_ODDITY:
        blame(s, SIMBA_ECORRUPT, "an answer of a form that no script of ours has");
        end(s, errand, REDIS_FAIL);
        drop(s, SIMBA_EUNAVAILABLE, "connection given up over an odd answer");
        break;
    }
}

/* The answer to a command of our own. */
static void take_own(redis_session *s, redis_errand *errand, const redis_answer *answer, simba_local now)
{
    if (errand->purpose == REDIS_FOR_LEARNING) {
        end(s, errand, REDIS_LEARN);
        return;
    }
    simba__redis_errand_move(errand, REDIS_IN_HAND, NULL);
    if (errand->purpose == REDIS_FOR_LOADING)
        take_script(s, errand->script, answer, now);
    else if (errand->purpose == REDIS_FOR_WAITING)
        take_confirmation(s, answer, now);
    simba__redis_errand_forget(errand);
}

/* Take out the errand whose answer has come. The caller moves it to another stage. */
static redis_errand *take_first(redis_session *s)
{
    redis_errand *errand = simba__redis_session_first(s);
    if (s->written == &errand->item)
        s->written = NULL;
    return errand;
}

unsigned simba__redis_session_answer(redis_session *s, const redis_answer *answer, simba_local now)
{
    begin(s);
    s->answers++;
    redis_errand *errand = simba__redis_session_first(s) ? take_first(s) : NULL;
    if (errand && errand->request)
        take_request(s, errand, answer, now);
    else if (errand)
        take_own(s, errand, answer, now);
    else if (answer->kind == REDIS_SAID_ERROR)
        drop_over(s, answer->text);
    else
        drop(s, SIMBA_EUNAVAILABLE, "an answer that nobody asked for");
    if (s->state == REDIS_SESSION_READY && s->waiting.first && !gathers(s))
        s->actions |= REDIS_DO_WAKE;
    return invariant(s);
}

/* --- ends ------------------------------------------------------------------------------------------- */

static void fail_all(redis_session *s, simba__list *list)
{
    while (list->first)
        end(s, of_item(list->first), REDIS_FAIL);
}

unsigned simba__redis_session_refuse(redis_session *s, const simba_error *why)
{
    begin(s);
    s->error = *why;
    fail_all(s, &s->waiting);
    return invariant(s);
}

unsigned simba__redis_session_down(redis_session *s, const simba_error *why)
{
    begin(s);
    s->error = *why;
    while (simba__redis_session_first(s)) {
        redis_errand *errand = take_first(s);
        if (errand->request || errand->purpose == REDIS_FOR_LEARNING) {
            end(s, errand, errand->request ? REDIS_FAIL : REDIS_LEARN);
        } else {
            simba__redis_errand_move(errand, REDIS_IN_HAND, NULL);
            simba__redis_errand_forget(errand);
        }
    }
    fail_all(s, &s->waiting);
    fail_all(s, &s->held);
    move(s, REDIS_SESSION_DOWN);
    move_confirmation(s, REDIS_UNASKED);
    s->loaded = 0;
    s->tick_at.ns = 0;
    return invariant(s);
}

unsigned simba__redis_session_expire(redis_session *s, redis_errand *errand, simba_local now)
{
    begin(s);
    SIMBA__ASSERT(errand->session == s && errand->request);
    if (errand->stage != REDIS_SENT) {
        simba__redis_errand_move(errand, REDIS_IN_HAND, NULL);
        return invariant(s);
    }
    errand->expired = true;
    s->actions |= REDIS_DO_SUSPECT;
    /* Nothing has come since this renewal was sent. TCP repeats lost bytes after pauses that double. So after an outage
     * the connection may stay stuck for as long as the outage took, and all renewals with it. */
    if (errand->request->op == SIMBA_OP_RENEW && errand->answers == s->answers) {
        move(s, REDIS_SESSION_STUCK);
        s->tick_at = now;
        s->actions |= REDIS_DO_SET_TIMER;
    }
    return invariant(s);
}

unsigned simba__redis_session_tick(redis_session *s, simba_local now)
{
    begin(s);
    const redis_errand *first = simba__redis_session_first(s);
    char why[48];
    if (s->state == REDIS_SESSION_STUCK) {
        drop(s, SIMBA_EUNAVAILABLE, "no answer in time, so connecting anew");
        return invariant(s);
    }
    s->tick_at.ns = first ? first->sent_at.ns + s->options->timeout_ns : 0;
    if (first && now.ns < s->tick_at.ns) {
        s->actions |= REDIS_DO_SET_TIMER;
    } else if (first) {
        snprintf(why, sizeof why, "no answer for %lld ms", (long long)(s->options->timeout_ns / SIMBA__NS_PER_MS));
        drop(s, SIMBA_EUNAVAILABLE, why);
    }
    return invariant(s);
}
