/* See requests.h. */
#include "backends/redis/requests.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/assert.h"
#include "util/mem.h"

void simba__redis_requests_init(redis_requests *self, simba_host *host)
{
    self->host = host;
    simba__ring_init(&self->spare);
}

redis_errand *simba__redis_requests_begin(redis_requests *self, simba_request *request)
{
    simba__ring *spare = simba__ring_first(&self->spare);
    redis_errand *errand = spare ? SIMBA__OF_RING(spare, redis_errand, place) : simba__malloc(sizeof *errand);
    if (!errand)
        return NULL;
    if (spare)
        simba__ring_set(&self->spare, spare, false);
    *errand = (redis_errand){.all = self, .request = request, .script = REDIS_SCRIPTS};
    if (request)
        request->backend_data = errand;
    return errand;
}

void simba__redis_requests_forget(redis_errand *errand)
{
    if (errand->request)
        errand->request->backend_data = NULL;
    errand->request = NULL;
    if (!errand->place.after)
        simba__ring_set(&errand->all->spare, &errand->place, true);
}

void simba__redis_requests_complete(redis_errand *errand)
{
    simba_host *host = errand->all->host;
    simba_request *request = errand->request;
    simba__redis_requests_forget(errand);
    host->complete(host, request);
}

void simba__redis_requests_fail(redis_errand *errand, int code, const char *format, ...)
{
    simba_host *host = errand->all->host;
    simba_request *request = errand->request;
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    simba__redis_requests_forget(errand);
    if (errand->failed)
        errand->failed(request, &error);
    else
        host->fail(host, request, code, "%s", error.text);
}

void simba__redis_requests_cancel(simba_request *request)
{
    redis_errand *errand = request->backend_data;
    SIMBA__ASSERT(errand && errand->request == request && errand->leave);
    simba__redis_requests_fail(errand, SIMBA_ETIMEDOUT, "redis %s: no answer in time", errand->leave(errand));
}

void simba__redis_requests_fini(redis_requests *self)
{
    for (simba__ring *place = self->spare.after, *next; place && place != &self->spare; place = next) {
        next = place->after;
        simba__free(SIMBA__OF_RING(place, redis_errand, place));
    }
}
