/* Why a statement failed, and what the batch does about it. A dialect fills this in where the error happens, and
 * returns it as a value. */
#ifndef SIMBA_BACKENDS_SQL_FAILURE_H
#define SIMBA_BACKENDS_SQL_FAILURE_H

#include "util/error.h"

typedef enum simba__sql_remedy {
    SIMBA__SQL_TELL,      /* report it to the requests; nothing else helps */
    SIMBA__SQL_RECONNECT, /* the connection is no longer usable */
    SIMBA__SQL_LOST,      /* the same, and perhaps only because the connection had been idle for too long */
    SIMBA__SQL_RETRY,     /* the server rolled back this transaction for the sake of another one: do it again */
    SIMBA__SQL_LOCKED,    /* another session keeps one of the rows locked: go on without it */
    SIMBA__SQL_SPLIT,     /* perhaps only one of the rows is the cause: each row by itself */
    SIMBA__SQL_SHRINK,    /* the statement was too large: connect again and send fewer rows at a time */
} simba__sql_remedy;

typedef struct simba__sql_failure {
    simba__sql_remedy remedy;
    simba_error error;
} simba__sql_failure;

/* Fill in *why and return `code`, as in `return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ENOMEM, "…")`. */
#define simba__sql_fail(why, what_helps, code, ...)                                                                    \
    ((why)->remedy = (what_helps), simba__fail(&(why)->error, (code), __VA_ARGS__))

#endif
