/* See descriptors.h. */
#include "util/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool is_closed(int fd)
{
    return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

bool simba__descriptors_hold(void)
{
    while (is_closed(0) || is_closed(1) || is_closed(2)) {
        const int fd = open("/dev/null", O_PATH | O_CLOEXEC);
        if (fd < 0)
            return false;
        if (fd > 2) /* somebody else was faster */
            close(fd);
    }
    return true;
}
