/* See params.h. An array is written as the server reads it: {"a","b"}, with a backslash before quotes and backslashes. */
#include "backends/postgresql/params.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/assert.h"

static void put(simba__pg_params *params, const char *text)
{
    simba__buffer_put(&params->text, text, strlen(text));
}

static void start(simba__pg_params *params)
{
    SIMBA__ASSERT(params->count < SIMBA__PG_PARAMS_MAX);
    params->offsets[params->count++] = params->text.length;
}

static void end(simba__pg_params *params)
{
    simba__buffer_put(&params->text, "", 1);
}

void simba__pg_params_clear(simba__pg_params *params)
{
    params->text.length = 0;
    params->text.failed = false;
    params->count = 0;
}

void simba__pg_params_free(simba__pg_params *params)
{
    simba__buffer_free(&params->text);
}

void simba__pg_params_text(simba__pg_params *params, const char *text)
{
    start(params);
    put(params, text);
    end(params);
}

void simba__pg_params_begin(simba__pg_params *params)
{
    start(params);
    put(params, "{");
}

/* Between it and the one before. */
static void separate(simba__pg_params *params)
{
    if (params->text.length > params->offsets[params->count - 1] + 1)
        put(params, ",");
}

void simba__pg_params_add_text(simba__pg_params *params, const char *text)
{
    separate(params);
    put(params, "\"");
    while (*text) {
        const size_t plain = strcspn(text, "\"\\");
        simba__buffer_put(&params->text, text, plain);
        text += plain;
        if (*text) {
            put(params, "\\");
            simba__buffer_put(&params->text, text++, 1);
        }
    }
    put(params, "\"");
}

void simba__pg_params_add_number(simba__pg_params *params, int64_t number)
{
    char text[24];
    separate(params);
    snprintf(text, sizeof text, "%" PRId64, number);
    put(params, text);
}

void simba__pg_params_end(simba__pg_params *params)
{
    put(params, "}");
    end(params);
}

bool simba__pg_params_done(simba__pg_params *params)
{
    for (int i = 0; i < params->count && !params->text.failed; i++)
        params->values[i] = params->text.data + params->offsets[i];
    return !params->text.failed;
}
