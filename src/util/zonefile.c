/* See zonefile.h. */
#include "util/zonefile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/mem.h"

#define FOLDER "/usr/share/zoneinfo"

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
    FILE *opened = fopen(path, "re");
    const size_t size = opened ? fread(file.bytes, 1, SIMBA__ZONE_FILE_MAX + 1, opened) : 0;
    const int error = !opened || ferror(opened) ? errno : 0;
    if (opened)
        fclose(opened);
    if (error == ENOENT || error == ENOTDIR || error == EISDIR)
        rc = simba__fail(err, SIMBA_ENOTFOUND,
                         "there is no time zone \"%s\" in " FOLDER "; check its name, and that tzdata is installed",
                         name);
    else if (error)
        rc = simba__fail(err, SIMBA_ESYSTEM, FOLDER "/%s cannot be read: %s", name, strerror(error));
    else
        rc = simba__zone_read(file.bytes, size, err, &file.zone);
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
