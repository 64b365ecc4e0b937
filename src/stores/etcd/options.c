/* What a URL says:
 *
 *   etcd://[user:password@]host[:port][,host[:port]…][?prefix=TEXT][&session-timeout=10s]
 *   etcds://…[&ca=FILE][&cert=FILE&key=FILE][&verify=yes|no]
 *
 * net/endpoint.h says what a host is. The port is that of etcd's clients, 2379, at which its JSON gateway listens, too. */
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

static int parse_login(etcd_options *options, const simba_url *url, simba_error *err)
{
    const char *user = simba_url_user(url);
    const char *password = simba_url_password(url);
    if (!user && !password)
        return 0;
    if (!user || user[0] == '\0' || !password)
        return simba__fail(err, SIMBA_EURL, "the etcd URL has a user or a password without the other");
    options->user = simba__strdup(user);
    options->password = simba__strdup(password);
    return options->user && options->password ? 0 : simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

static int parse_prefix(etcd_options *options, const simba_url *url, simba_error *err)
{
    const char *prefix = simba_url_query(url, "prefix");
    const char *path = simba_url_path(url);
    if (path[0] != '\0' && strcmp(path, "/") != 0)
        return simba__fail(err, SIMBA_EURL, "an etcd URL has no path; say ?prefix=%.80s", path);
    if (!prefix)
        return 0;
    if (strlen(prefix) > ETCD_PREFIX_MAX)
        return simba__fail(err, SIMBA_EURL, "prefix in the etcd URL is longer than %d bytes", ETCD_PREFIX_MAX);
    for (const char *at = prefix; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return simba__fail(err, SIMBA_EURL, "prefix in the etcd URL has a control character");
    strcpy(options->prefix, prefix);
    return 0;
}

static int parse_session(etcd_options *options, const simba_url *url, simba_error *err)
{
    int64_t ms = 10000;
    const int rc = simba__url_duration(url, "session-timeout", &ms, err);
    if (rc == 0 && (ms < 1000 || ms > 86400000))
        return simba__fail(err, SIMBA_EURL, "session-timeout is from 1s to 24h");
    options->session_ms = (ms + 999) / 1000 * 1000;
    return rc;
}

int simba__etcd_options_parse(const simba_url *url, etcd_options *ret_options, simba_error *err)
{
    const char *authority = simba_url_authority(url);
    ret_options->tls = strcmp(simba_url_scheme(url), "etcds") == 0;
    snprintf(ret_options->where, sizeof ret_options->where, "%s", authority[0] ? authority : "127.0.0.1");
    int rc = simba__endpoints_parse("etcd", authority, 2379, err, &ret_options->hosts, &ret_options->host_count);
    if (rc == 0)
        rc = parse_login(ret_options, url, err);
    if (rc == 0)
        rc = parse_prefix(ret_options, url, err);
    if (rc == 0)
        rc = parse_session(ret_options, url, err);
    if (rc == 0)
        rc = simba__tls_files_of_url(url, ret_options->tls ? NULL : "etcds://", &ret_options->files, err);
    return rc;
}

void simba__etcd_options_free(etcd_options *options)
{
    if (options->password)
        explicit_bzero(options->password, strlen(options->password));
    simba__free(options->password);
    simba__free(options->user);
    simba__free(options->hosts);
}
