/* See status.h. */
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A file of our own. In a folder that others may write to, somebody may have put a link in its place, to make us write
 * elsewhere. We follow no link, and remove whatever is in our way once. */
static int make_file(const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const int fd = open(path, flags, 0666);
    if (fd >= 0 || errno != EEXIST || unlink(path) < 0)
        return fd;
    return open(path, flags, 0666);
}

int status_write(const char *path, const char *text)
{
    char made[4096];
    if (snprintf(made, sizeof made, "%s.%d", path, (int)getpid()) >= (int)sizeof made)
        return -ENAMETOOLONG;
    const int fd = make_file(made);
    if (fd < 0)
        return -errno;
    const size_t length = strlen(text);
    int error = 0;
    if (write(fd, text, length) != (ssize_t)length)
        error = errno != 0 ? errno : EIO;
    if (close(fd) < 0 && error == 0)
        error = errno;
    if (error == 0 && rename(made, path) < 0)
        error = errno;
    if (error != 0)
        unlink(made);
    return -error;
}
