/* See requests.h. */
#include "backends/redis/requests.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/assert.h"
#include "util/mem.h"

static void set_deadline(redis_requests *self, simba_local at)
{
    if (self->deadline.index == 0 || at.ns < self->deadline.at.ns)
        self->host->timer_set(self->host, &self->deadline, at);
}

static redis_errand *first_over(const redis_requests *self, simba_local now)
{
    for (simba__ring *place = self->outstanding.after; place != &self->outstanding; place = place->after) {
        redis_errand *errand = SIMBA__OF_RING(place, redis_errand, outstanding);
        if (errand->request->deadline.ns <= now.ns)
            return errand;
    }
    return NULL;
}

/* The end of one may be the end of others: so whoever is next is looked for anew. */
static void on_deadline(simba_timer *timer, simba_local now)
{
    redis_requests *self = (redis_requests *)(void *)((char *)timer - offsetof(redis_requests, deadline));
    for (redis_errand *errand = first_over(self, now); errand; errand = first_over(self, now)) {
        SIMBA__ASSERT(errand->leave);
        simba__redis_requests_fail(errand, SIMBA_ETIMEDOUT, "redis %s: no answer in time", errand->leave(errand));
    }
    for (simba__ring *place = self->outstanding.after; place != &self->outstanding; place = place->after)
        set_deadline(self, SIMBA__OF_RING(place, redis_errand, outstanding)->request->deadline);
}

int simba__redis_requests_init(redis_requests *self, simba_host *host)
{
    self->host = host;
    simba__ring_init(&self->outstanding);
    simba__ring_init(&self->spare);
    self->deadline.fire = on_deadline;
    return host->timer_add(host, &self->deadline);
}

redis_errand *simba__redis_requests_begin(redis_requests *self, simba_request *request)
{
    simba__ring *spare = simba__ring_first(&self->spare);
    redis_errand *errand = spare ? SIMBA__OF_RING(spare, redis_errand, place) : simba__malloc(sizeof *errand);
    if (!errand)
        return NULL;
    if (spare)
        simba__ring_set(&self->spare, spare, false);
    *errand = (redis_errand){.all = self, .request = request};
    simba__ring_set(&self->outstanding, &errand->outstanding, true);
    set_deadline(self, request->deadline);
    return errand;
}

void simba__redis_requests_forget(redis_errand *errand)
{
    redis_requests *self = errand->all;
    SIMBA__ASSERT(!errand->place.after);
    simba__ring_set(&self->outstanding, &errand->outstanding, false);
    simba__ring_set(&self->spare, &errand->place, true);
}

void simba__redis_requests_complete(redis_errand *errand)
{
    simba_host *host = errand->all->host;
    simba__redis_requests_forget(errand);
    host->complete(host, errand->request);
}

void simba__redis_requests_fail(redis_errand *errand, int code, const char *format, ...)
{
    simba_host *host = errand->all->host;
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    simba__redis_requests_forget(errand);
    if (errand->failed)
        errand->failed(errand->request, &error);
    else
        host->fail(host, errand->request, code, "%s", error.text);
}

void simba__redis_requests_close(redis_requests *self)
{
    self->host->timer_clear(self->host, &self->deadline);
}

void simba__redis_requests_fini(redis_requests *self)
{
    SIMBA__ASSERT(!self->outstanding.after || !simba__ring_first(&self->outstanding));
    for (simba__ring *place = self->spare.after, *next; place && place != &self->spare; place = next) {
        next = place->after;
        simba__free(SIMBA__OF_RING(place, redis_errand, place));
    }
}
