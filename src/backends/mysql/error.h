/* What an error of the server, or of its client library, means for a request and for the connection. */
#ifndef SIMBA_BACKENDS_MYSQL_ERROR_H
#define SIMBA_BACKENDS_MYSQL_ERROR_H

#include <stdbool.h>

/* What to do about it, beyond telling it. */
typedef enum simba__my_remedy {
    SIMBA__MY_TELL,      /* nothing */
    SIMBA__MY_RECONNECT, /* the connection is of no use any more */
    SIMBA__MY_RETRY,     /* the transaction was rolled back for the sake of another: once more */
    SIMBA__MY_SPLIT,     /* a matter of one row, or of few: each by itself */
    SIMBA__MY_SHRINK,    /* the statement was too large: connect again and send fewer rows at a time */
} simba__my_remedy;

int simba__my_error_code(unsigned number, simba__my_remedy *ret_remedy);

/* Was it perhaps only that an idle connection had ended? */
bool simba__my_error_is_lost(unsigned number);

#endif
