/* See errands.h. */
#include "backends/redis/errands.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/assert.h"
#include "util/mem.h"

void simba__redis_errands_init(redis_errands *self, simba_host *host)
{
    self->host = host;
    simba__ring_init(&self->spare);
}

void simba__redis_errands_fini(redis_errands *self)
{
    for (simba__ring *place = self->spare.after, *next; place && place != &self->spare; place = next) {
        next = place->after;
        simba__free(SIMBA__OF_RING(place, redis_errand, place));
    }
}

redis_errand *simba__redis_errand_begin(redis_errands *self, redis_purpose purpose, simba_request *request)
{
    simba__ring *spare = simba__ring_first(&self->spare);
    redis_errand *errand = spare ? SIMBA__OF_RING(spare, redis_errand, place) : simba__malloc(sizeof *errand);
    if (!errand)
        return NULL;
    if (spare)
        simba__ring_set(&self->spare, spare, false);
    *errand = (redis_errand){.all = self, .purpose = purpose, .request = request};
    if (request)
        request->backend_data = errand;
    return errand;
}

void simba__redis_errand_move(redis_errand *errand, redis_stage to, simba__ring *ring)
{
    static const bool allowed[REDIS_STAGES][REDIS_STAGES] = {
        [REDIS_IN_HAND] = {[REDIS_WAITING] = true, [REDIS_SENT] = true},
        [REDIS_WAITING] = {[REDIS_IN_HAND] = true, [REDIS_SENT] = true, [REDIS_OVER] = true},
        [REDIS_SENT] = {[REDIS_IN_HAND] = true, [REDIS_WAITING] = true, [REDIS_HELD] = true, [REDIS_OVER] = true},
        [REDIS_HELD] = {[REDIS_IN_HAND] = true, [REDIS_OVER] = true},
        [REDIS_OVER] = {[REDIS_IN_HAND] = true},
    };
    SIMBA__ASSERT(allowed[errand->stage][to]);
    SIMBA__ASSERT((to == REDIS_IN_HAND) == !ring);
    simba__ring_set(NULL, &errand->place, false);
    errand->stage = to;
    if (ring)
        simba__ring_set(ring, &errand->place, true);
}

void simba__redis_errand_forget(redis_errand *errand)
{
    SIMBA__ASSERT(errand->stage == REDIS_IN_HAND || errand->stage == REDIS_SENT);
    if (errand->request)
        errand->request->backend_data = NULL;
    errand->request = NULL;
    if (errand->stage == REDIS_IN_HAND)
        simba__ring_set(&errand->all->spare, &errand->place, true);
}

void simba__redis_errand_complete(redis_errand *errand)
{
    simba_host *host = errand->all->host;
    simba_request *request = errand->request;
    simba__redis_errand_forget(errand);
    host->complete(host, request);
}

void simba__redis_errand_fail(redis_errand *errand, int code, const char *format, ...)
{
    simba_host *host = errand->all->host;
    simba_request *request = errand->request;
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    simba__redis_errand_forget(errand);
    if (errand->failed)
        errand->failed(request, &error);
    else
        host->fail(host, request, code, "%s", error.text);
}
