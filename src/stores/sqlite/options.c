/* The path and the settings in a URL of SQLite. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stores/sqlite/store.h"
#include "util/error.h"
#include "util/url.h"

/* The URL has a host. The user probably meant a path that lacks a slash, or one relative to the current folder. */
static int refuse_host(const simba_url *url, simba_error *err)
{
    char here[PATH_MAX];
    char path[PATH_MAX + 512];
    char relative[1024];
    char absolute[1024];
    const char *authority = simba_url_authority(url);
    if (!getcwd(here, sizeof here) || here[0] != '/')
        here[0] = '\0';
    snprintf(path, sizeof path, "%s/%s%s", strcmp(here, "/") == 0 ? "" : here, authority, simba_url_path(url));
    simba__url_of_path("sqlite", path, relative, sizeof relative);
    snprintf(path, sizeof path, "/%s%s", authority, simba_url_path(url));
    simba__url_of_path("sqlite", path, absolute, sizeof absolute);
    if (simba_url_path(url)[0] == '\0')
        return simba__fail(err, SIMBA_EURL, "sqlite: the path must be absolute; for a file in this folder write %s",
                           relative);
    return simba__fail(err, SIMBA_EURL, "sqlite: the path must be absolute, with three slashes: write %s, or %s",
                       absolute, relative);
}

int simba__sqlite_read_url(const simba_url *url, const char **ret_path, bool *ret_sync_full, simba_error *err)
{
    const char *authority = simba_url_authority(url);
    const char *path = simba_url_path(url);
    const char *sync = simba_url_query(url, "sync");
    if (*authority || simba_url_user(url))
        return refuse_host(url, err);
    if (!*path || path[strlen(path) - 1] == '/')
        return simba__fail(err, SIMBA_EURL, "sqlite: the URL names no file: sqlite:///absolute/path");
    if (sync && strcmp(sync, "normal") != 0 && strcmp(sync, "full") != 0)
        return simba__fail(err, SIMBA_EURL, "sqlite: sync is \"%s\"; it can be normal or full", sync);
    *ret_path = path;
    *ret_sync_full = sync && strcmp(sync, "full") == 0;
    return 0;
}
