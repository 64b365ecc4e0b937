/* See errands.h. */
#include "backends/redis/errands.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/assert.h"
#include "util/mem.h"

redis_errand *simba__redis_errand_begin(simba_host *host, redis_purpose purpose, simba_request *request)
{
    redis_errand *errand = simba__malloc(sizeof *errand);
    if (!errand)
        return NULL;
    *errand = (redis_errand){.host = host, .purpose = purpose, .request = request};
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
    simba__free(errand);
}

void simba__redis_errand_complete(redis_errand *errand)
{
    simba_host *host = errand->host;
    simba_request *request = errand->request;
    simba__redis_errand_forget(errand);
    host->complete(host, request);
}

void simba__redis_errand_fail(redis_errand *errand, int code, const char *format, ...)
{
    simba_host *host = errand->host;
    simba_request *request = errand->request;
    void (*failed)(simba_request * row, const simba_error *why) = errand->failed;
    simba_error error = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    simba__redis_errand_forget(errand);
    if (failed)
        failed(request, &error);
    else
        host->fail(host, request, code, "%s", error.text);
}
