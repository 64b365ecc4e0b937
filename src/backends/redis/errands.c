/* See errands.h. */
#include "backends/redis/errands.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/assert.h"
#include "util/mem.h"

void simba__redis_errands_init(redis_errands *self, simba_host *host)
{
    *self = (redis_errands){.host = host};
}

void simba__redis_errands_fini(redis_errands *self)
{
    while (self->spare.first) {
        redis_errand *errand = SIMBA__OF_ITEM(self->spare.first, redis_errand, item);
        simba__list_remove(&errand->item);
        simba__free(errand);
    }
}

redis_errand *simba__redis_errand_begin(redis_errands *self, redis_purpose purpose, simba_request *request)
{
    simba__list_item *spare = self->spare.first;
    redis_errand *errand = spare ? SIMBA__OF_ITEM(spare, redis_errand, item) : simba__malloc(sizeof *errand);
    if (!errand)
        return NULL;
    if (spare)
        simba__list_remove(spare);
    *errand = (redis_errand){.all = self, .purpose = purpose, .request = request};
    if (request)
        request->backend_data = errand;
    return errand;
}

void simba__redis_errand_move(redis_errand *errand, redis_stage to, simba__list *list)
{
    static const bool allowed[REDIS_STAGES][REDIS_STAGES] = {
        [REDIS_IN_HAND] = {[REDIS_WAITING] = true, [REDIS_SENT] = true},
        [REDIS_WAITING] = {[REDIS_IN_HAND] = true, [REDIS_SENT] = true, [REDIS_OVER] = true},
        [REDIS_SENT] = {[REDIS_IN_HAND] = true, [REDIS_WAITING] = true, [REDIS_HELD] = true, [REDIS_OVER] = true},
        [REDIS_HELD] = {[REDIS_IN_HAND] = true, [REDIS_OVER] = true},
        [REDIS_OVER] = {[REDIS_IN_HAND] = true},
    };
    SIMBA__ASSERT(allowed[errand->stage][to]);
    SIMBA__ASSERT((to == REDIS_IN_HAND) == !list);
    simba__list_remove(&errand->item);
    errand->stage = to;
    if (list)
        simba__list_append(list, &errand->item);
}

void simba__redis_errand_forget(redis_errand *errand)
{
    SIMBA__ASSERT(errand->stage == REDIS_IN_HAND);
    if (errand->request)
        errand->request->backend_data = NULL;
    errand->request = NULL;
    simba__list_append(&errand->all->spare, &errand->item);
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
