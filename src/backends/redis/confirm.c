/* See confirm.h.
 *
 * WAIT answers how many replicas have everything that was written on its connection before it. Meanwhile the connection
 * stands still, and with it everybody else's renewals: so a WAIT is short, one is under way at a time, and as long as too
 * few replicas have confirmed something another one follows. What it is about is held back until then. After a while, half
 * of the time that the request has at most, a grant is given back and the request fails; a renewal fails, too, and will be
 * tried again. */
#include "backends/redis/confirm.h"

#include <inttypes.h>
#include <stdio.h>

#include "util/clock.h"
#include "util/mem.h"

enum { STEP_MS = 50, MOST_MS = 1000 };

struct redis_held {
    redis_held *next;
    simba_request *request;
    simba_local give_up;
};

static void put_wait(redis_confirm *self);

/* Take it out of the list, free it, and return its request. */
static simba_request *let_go(redis_held **link)
{
    redis_held *held = *link;
    simba_request *request = held->request;
    *link = held->next;
    simba__free(held);
    return request;
}

void simba__redis_confirm_give_back(redis_calls *calls, const simba_request *request)
{
    char nonce[24];
    char ends_at[24];
    snprintf(nonce, sizeof nonce, "%" PRIu64, request->nonce);
    snprintf(ends_at, sizeof ends_at, "%" PRId64, request->reply.owner.transition_at_ms);
    simba__redis_calls_tell(calls, REDIS_RELEASE, request->mutex, 4,
                            (const char *const[]){request->id, nonce, "0", ends_at});
}

static void refuse(redis_confirm *self, simba_request *request, int code, const char *why)
{
    if (request->op == SIMBA_OP_ACQUIRE)
        simba__redis_confirm_give_back(self->calls, request);
    simba__redis_calls_fail(self->calls, request, code, "redis %s: %s", self->calls->conn.at.where, why);
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
        self->calls->host->log(self->calls->host, SIMBA_LOG_WARN, "redis %s: %ld replicas confirm grants again",
                               self->calls->conn.at.where, self->calls->options->replicas);
    if (enough)
        self->short_of_replicas = false;
    for (redis_held **link = &self->held; *link;) {
        if (enough) {
            self->calls->host->complete(self->calls->host, let_go(link));
        } else if (!answered || now.ns >= (*link)->give_up.ns) {
            self->short_of_replicas = true;
            refuse(self, let_go(link), SIMBA_EUNAVAILABLE, why);
        } else {
            link = &(*link)->next;
        }
    }
    if (self->held || self->unconfirmed)
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
        self->calls->conn.out.failed = true; /* the next flush gives the connection up */
}

void simba__redis_confirm_soon(redis_confirm *self)
{
    if (self->confirming)
        self->unconfirmed = true;
    else
        put_wait(self);
}

void simba__redis_confirm_hold(redis_confirm *self, simba_request *request, simba_local sent_at)
{
    redis_held *held = simba__malloc(sizeof *held);
    if (!held) {
        refuse(self, request, SIMBA_ENOMEM, "out of memory");
        return;
    }
    const int64_t half_ns = (request->deadline.ns - sent_at.ns) / 2;
    const int64_t most_ns = MOST_MS * SIMBA__NS_PER_MS;
    *held = (redis_held){self->held, request, {sent_at.ns + (half_ns < most_ns ? half_ns : most_ns)}};
    self->held = held;
}

void simba__redis_confirm_lost(redis_confirm *self, const simba_error *error)
{
    self->confirming = self->unconfirmed = false;
    while (self->held)
        simba__redis_calls_fail(self->calls, let_go(&self->held), error->code, "%s", error->text);
}

simba_local simba__redis_confirm_expire(redis_confirm *self, simba_local now)
{
    simba_local earliest = {INT64_MAX};
    for (redis_held **link = &self->held; *link;) {
        simba_request *request = (*link)->request;
        if (request->deadline.ns <= now.ns) {
            simba__redis_calls_fail(self->calls, let_go(link), SIMBA_ETIMEDOUT, "redis %s: no answer in time",
                                    self->calls->conn.at.where);
            continue;
        }
        if (request->deadline.ns < earliest.ns)
            earliest = request->deadline;
        link = &(*link)->next;
    }
    return earliest;
}
