/* See confirm.h.
 *
 * WAIT answers how many replicas have everything that was written on its connection before it. Meanwhile the
 * connection stands still, and with it the renewals of all others. So a WAIT is short, only one is under way, and
 * another one follows while too few replicas have confirmed. Until then the answers are held back. After a while, at
 * most half of the time that the request has, a grant is given back and the request fails; a renewal fails, too, and
 * will be tried again. */
#include "backends/redis/confirm.h"

#include <inttypes.h>
#include <stdio.h>

#include "util/clock.h"

enum { STEP_MS = 50, MOST_MS = 1000 };

static void put_wait(redis_confirm *self);

void simba__redis_confirm_give_back(redis_calls *calls, const simba_request *request)
{
    const redis_numbers n = simba__redis_numbers_of(request);
    char ends_at[24];
    snprintf(ends_at, sizeof ends_at, "%" PRId64, request->reply.owner.transition_at_ms);
    simba__redis_calls_tell(calls, REDIS_RELEASE, request->mutex, 5,
                            (const char *const[]){request->id, n.nonce, "0", "@@", ends_at});
}

static const char *leave(redis_errand *errand)
{
    const redis_confirm *self = errand->at;
    simba__ring_set(NULL, &errand->place, false);
    return self->calls->conn.link.at.where;
}

/* Half of the time that it had when it was sent, but not too long. */
static simba_local end_of_patience(const redis_errand *errand)
{
    const int64_t half_ns = (errand->request->deadline.ns - errand->sent_at.ns) / 2;
    const int64_t most_ns = MOST_MS * SIMBA__NS_PER_MS;
    return (simba_local){errand->sent_at.ns + (half_ns < most_ns ? half_ns : most_ns)};
}

static void on_confirmed(void *user, const redisReply *reply)
{
    redis_confirm *self = user;
    self->confirming = false;
    if (!reply)
        return; /* all of them have failed */
    char why[80];
    const bool answered = reply->type == REDIS_REPLY_INTEGER;
    const bool enough = answered && reply->integer >= self->calls->options->replicas;
    const simba_local now = self->calls->host->now(self->calls->host);
    if (answered)
        snprintf(why, sizeof why, "%lld of %ld replicas confirmed it", reply->integer, self->calls->options->replicas);
    else
        snprintf(why, sizeof why, "replicas cannot be waited for: %.40s",
                 reply->type == REDIS_REPLY_ERROR ? reply->str : "an odd answer");
    if (enough && self->short_of_replicas)
        self->calls->host->log(self->calls->host, SIMBA_LOG_INFO, "redis %s: %ld replicas confirm grants again",
                               self->calls->conn.link.at.where, self->calls->options->replicas);
    if (enough)
        self->short_of_replicas = false;
    for (simba__ring *place = self->held.after, *next; place != &self->held; place = next) {
        redis_errand *errand = SIMBA__OF_RING(place, redis_errand, place);
        next = place->after;
        if (!enough && answered && now.ns < end_of_patience(errand).ns)
            continue;
        const char *where = leave(errand);
        if (enough) {
            simba__redis_requests_complete(errand);
            continue;
        }
        self->short_of_replicas = true;
        if (errand->request->op == SIMBA_OP_ACQUIRE)
            simba__redis_confirm_give_back(self->calls, errand->request);
        simba__redis_requests_fail(errand, SIMBA_EUNAVAILABLE, "redis %s: %s", where, why);
    }
    if (simba__ring_first(&self->held) || self->unconfirmed)
        put_wait(self);
}

static void put_wait(redis_confirm *self)
{
    char replicas[24];
    char ms[24];
    snprintf(replicas, sizeof replicas, "%ld", self->calls->options->replicas);
    snprintf(ms, sizeof ms, "%d", STEP_MS);
    self->unconfirmed = false;
    self->confirming =
        simba__redis_calls_put(self->calls, 3, (const char *const[]){"WAIT", replicas, ms}, on_confirmed, self);
    if (!self->confirming)
        simba__redis_calls_no_memory(self->calls);
}

void simba__redis_confirm_soon(redis_confirm *self)
{
    if (self->confirming)
        self->unconfirmed = true;
    else
        put_wait(self);
}

void simba__redis_confirm_hold(redis_confirm *self, redis_errand *errand)
{
    errand->at = self;
    errand->leave = leave;
    simba__ring_set(&self->held, &errand->place, true);
}

void simba__redis_confirm_lost(redis_confirm *self, const simba_error *error)
{
    self->confirming = self->unconfirmed = false;
    for (simba__ring *first; (first = simba__ring_first(&self->held)) != NULL;) {
        simba__ring_set(&self->held, first, false);
        simba__redis_requests_fail(SIMBA__OF_RING(first, redis_errand, place), error->code, "%s", error->text);
    }
}

void simba__redis_confirm_init(redis_confirm *self, redis_calls *calls)
{
    self->calls = calls;
    simba__ring_init(&self->held);
}
