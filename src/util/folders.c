/* See folders.h. */
#include "util/folders.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

int simba__folders_make(const char *path)
{
    char part[PATH_MAX];
    const size_t length = strlen(path);
    if (length >= sizeof part)
        return ENAMETOOLONG;
    memcpy(part, path, length + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return errno;
        *slash = '/';
    }
    return 0;
}
