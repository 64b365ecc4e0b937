/* See error.h. */
#include "backends/sqlite/error.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "util/error.h"

int simba__sqlite_file_fail(const char *path, const char *what, int number, simba_error *err)
{
    char text[128];
    const bool refused = number == EACCES || number == EPERM || number == EROFS;
    return simba__fail(err, refused ? SIMBA_EPERM : SIMBA_EUNAVAILABLE, "sqlite: %s: %s: %s", path, what,
                       strerror_r(number, text, sizeof text));
}
