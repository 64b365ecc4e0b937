/* The path and the settings in a URL of SQLite. */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
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

static bool read_mode(const char *text, mode_t *ret_mode)
{
    char *end = NULL;
    const unsigned long mode = strtoul(text, &end, 8);
    *ret_mode = (mode_t)mode;
    return text[0] >= '0' && text[0] <= '7' && *end == '\0' && (mode == 0600 || mode == 0660 || mode == 0666);
}

static bool read_group(const char *text, gid_t *ret_group)
{
    char *end = NULL;
    const unsigned long number = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0') {
        *ret_group = (gid_t)number;
        return number < (gid_t)-1;
    }
    char names[16384];
    struct group entry;
    struct group *found = NULL;
    if (getgrnam_r(text, &entry, names, sizeof names, &found) != 0 || !found)
        return false;
    *ret_group = found->gr_gid;
    return true;
}

static int read_share(const simba_url *url, simba__sqlite_share *ret_share, simba_error *err)
{
    const char *mode = simba_url_query(url, "mode");
    const char *group = simba_url_query(url, "group");
    *ret_share = (simba__sqlite_share){.given = mode || group, .has_group = group, .mode = 0660};
    if (mode && !read_mode(mode, &ret_share->mode))
        return simba__fail(err, SIMBA_EURL,
                           "sqlite: mode is \"%.40s\"; it can be 0600, 0660 or 0666, because whoever uses the database "
                           "reads and writes it",
                           mode);
    if (group && !read_group(group, &ret_share->group))
        return simba__fail(err, SIMBA_EURL, "sqlite: there is no group \"%.40s\" on this host", group);
    if (group && ret_share->mode != 0660)
        return simba__fail(err, SIMBA_EURL, "sqlite: group goes with mode=0660, not with mode=%.40s", mode);
    return 0;
}

int simba__sqlite_read_url(const simba_url *url, simba__sqlite_options *ret_options, simba_error *err)
{
    const char *path = simba_url_path(url);
    const char *sync = simba_url_query(url, "sync");
    if (*simba_url_authority(url) || simba_url_user(url))
        return refuse_host(url, err);
    if (!*path || path[strlen(path) - 1] == '/')
        return simba__fail(err, SIMBA_EURL, "sqlite: the URL names no file: sqlite:///absolute/path");
    if (sync && strcmp(sync, "normal") != 0 && strcmp(sync, "full") != 0)
        return simba__fail(err, SIMBA_EURL, "sqlite: sync is \"%s\"; it can be normal or full", sync);
    ret_options->path = path;
    ret_options->sync_full = sync && strcmp(sync, "full") == 0;
    return read_share(url, &ret_options->share, err);
}
