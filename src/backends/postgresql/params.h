/* The parameters of a statement, as text: values, and arrays with one element for each row. */
#ifndef SIMBA_BACKENDS_POSTGRESQL_PARAMS_H
#define SIMBA_BACKENDS_POSTGRESQL_PARAMS_H

#include <stdint.h>

#include "net/buffer.h"

enum { SIMBA__PG_PARAMS_MAX = 12 };

/* One of zeroes is empty. */
typedef struct simba__pg_params {
    simba__buffer text;
    size_t offsets[SIMBA__PG_PARAMS_MAX];
    const char *values[SIMBA__PG_PARAMS_MAX];
    int count;
} simba__pg_params;

/* Forget what there is, but keep the room. */
void simba__pg_params_clear(simba__pg_params *params);
void simba__pg_params_free(simba__pg_params *params);

/* The next parameter. */
void simba__pg_params_text(simba__pg_params *params, const char *text);
/* The next parameter is an array: its elements follow, and then its end. */
void simba__pg_params_begin(simba__pg_params *params);
void simba__pg_params_add_text(simba__pg_params *params, const char *text);
void simba__pg_params_add_number(simba__pg_params *params, int64_t number);
void simba__pg_params_end(simba__pg_params *params);

/* They are complete: params->values can be used. False: there was no memory. */
bool simba__pg_params_done(simba__pg_params *params);

#endif
