/* See zonefile.h. */
#include "util/zonefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/mem.h"

#define FOLDER "/usr/share/zoneinfo"

static int refuse(const char *name, int error, simba_error *err)
{
    if (error == ENOENT || error == ENOTDIR || error == EISDIR)
        return simba__fail(err, SIMBA_ENOTFOUND,
                           "there is no time zone \"%s\" in " FOLDER "; check its name, and that tzdata is installed",
                           name);
    return simba__fail(err, SIMBA_ESYSTEM, FOLDER "/%s cannot be read: %s", name, strerror(error));
}

/* Returns how many bytes there were, at most `size`, or a negative errno. */
static ssize_t read_file(const char *path, void *bytes, size_t size)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    size_t have = 0;
    ssize_t got = fstat(fd, &status) < 0 ? -errno : S_ISREG(status.st_mode) ? 1 : -EISDIR;
    while (got > 0 && have < size) {
        got = read(fd, (char *)bytes + have, size - have);
        if (got > 0)
            have += (size_t)got;
        else if (got < 0)
            got = errno == EINTR ? 1 : -errno;
    }
    close(fd);
    return got < 0 ? got : (ssize_t)have;
}

int simba__zonefile_load(const char *name, simba_error *err, simba__zonefile *ret_file)
{
    if (!name || name[0] == '\0' || strcmp(name, "UTC") == 0) {
        *ret_file = (simba__zonefile){.bytes = NULL};
        return 0;
    }
    int rc = simba__zone_check_name(name, err);
    if (rc < 0)
        return rc;
    char path[sizeof FOLDER + 1 + SIMBA__ZONE_NAME_MAX];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    simba__zonefile file = {.bytes = simba__malloc(SIMBA__ZONE_FILE_MAX + 1)};
    if (!file.bytes)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    const ssize_t size = read_file(path, file.bytes, SIMBA__ZONE_FILE_MAX + 1);
    rc = size < 0 ? refuse(name, (int)-size, err) : simba__zone_read(file.bytes, (size_t)size, err, &file.zone);
    if (rc < 0) {
        simba__free(file.bytes);
        return rc == SIMBA_ECORRUPT ? simba__wrap(err, rc, "%s", path) : rc;
    }
    *ret_file = file;
    return 0;
}

void simba__zonefile_free(simba__zonefile *file)
{
    simba__free(file->bytes);
    *file = (simba__zonefile){.bytes = NULL};
}
