/* What a ZooKeeper URL says:
 *
 *   zookeeper://[user:password@]host[:port][,host[:port]…][/chroot][?session-timeout=10s][&acl=open|creator|creator+read]
 *
 * A host may be a name, an IPv4 address, or an IPv6 address in brackets. Without a port it is 2181, without a host
 * 127.0.0.1. User and password are those of ZooKeeper's digest authentication. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

static int parse_port(const char *text, size_t length, int *ret_port, simba_error *err)
{
    long port = 0;
    for (size_t i = 0; i < length && port <= 65535; i++)
        port = text[i] >= '0' && text[i] <= '9' ? port * 10 + text[i] - '0' : 65536;
    if (port < 1 || port > 65535)
        return simba__fail(err, SIMBA_EURL, "the port \"%.*s\" in the zookeeper URL is not a number from 1 to 65535",
                           (int)(length < 20 ? length : 20), text);
    *ret_port = (int)port;
    return 0;
}

/* One host of the list, `length` bytes long. */
static int parse_host(zk_host *host, const char *text, size_t length, simba_error *err)
{
    const char *end = text + length;
    const char *name_end = end;
    const char *colon = memrchr(text, ':', length);
    const char *bracket = memchr(text, ']', length);
    const bool bracketed = length > 0 && text[0] == '[';
    if (bracketed != (bracket != NULL) || (bracket && bracket + 1 != end && bracket[1] != ':') ||
        (!bracketed && colon && memchr(text, ':', length) != colon))
        return simba__fail(err, SIMBA_EURL, "an IPv6 address in a zookeeper URL stands in brackets, as in [::1]:2181");
    host->port = 2181;
    if (colon && (!bracket || colon > bracket)) {
        const int rc = parse_port(colon + 1, (size_t)(end - colon - 1), &host->port, err);
        if (rc < 0)
            return rc;
        name_end = colon;
    }
    const char *name = bracketed ? text + 1 : text;
    if (bracketed)
        name_end = bracket;
    if (name == name_end)
        return simba__fail(err, SIMBA_EURL, "a host is missing in the zookeeper URL");
    host->name = simba__calloc(1, (size_t)(name_end - name) + 1);
    if (!host->name)
        return out_of_memory(err);
    memcpy(host->name, name, (size_t)(name_end - name));
    return 0;
}

static int parse_hosts(zk_options *options, const char *authority, simba_error *err)
{
    if (authority[0] == '\0')
        authority = "127.0.0.1";
    size_t count = 1;
    for (const char *c = authority; *c; c++)
        count += *c == ',';
    options->hosts = simba__calloc(count, sizeof *options->hosts);
    if (!options->hosts)
        return out_of_memory(err);
    options->host_count = count;
    snprintf(options->where, sizeof options->where, "%s", authority);
    for (size_t i = 0; i < count; i++) {
        const size_t length = strcspn(authority, ",");
        const int rc = parse_host(&options->hosts[i], authority, length, err);
        if (rc < 0)
            return rc;
        authority += length + 1;
    }
    return 0;
}

static int parse_chroot(zk_options *options, const char *path, simba_error *err)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    for (size_t i = 0; i < length; i++) {
        const char *rest = path + i + 1;
        const size_t part = strcspn(rest, "/");
        if (path[i] == '/' &&
            (part == 0 || (part == 1 && rest[0] == '.') || (part == 2 && strncmp(rest, "..", 2) == 0)))
            return simba__fail(err, SIMBA_EURL,
                               "the path of the zookeeper URL has a part that is empty, \".\" or \"..\"");
        if ((unsigned char)path[i] < 0x20 || path[i] == 0x7f)
            return simba__fail(err, SIMBA_EURL, "the path of the zookeeper URL has a control character");
    }
    options->root = simba__calloc(1, length + sizeof "/simba");
    if (!options->root)
        return out_of_memory(err);
    memcpy(options->root, path, length);
    strcpy(options->root + length, "/simba");
    return 0;
}

static int parse_login(zk_options *options, const simba_url *url, simba_error *err)
{
    const char *user = simba_url_user(url);
    const char *password = simba_url_password(url);
    if (!user && !password)
        return 0;
    if (!user || user[0] == '\0' || !password)
        return simba__fail(err, SIMBA_EURL, "the zookeeper URL has a user or a password without the other");
    if (strchr(user, ':'))
        return simba__fail(err, SIMBA_EURL, "the user of the zookeeper URL has a colon in it");
    const size_t size = strlen(user) + strlen(password) + 2;
    options->digest = simba__malloc(size);
    if (!options->digest)
        return out_of_memory(err);
    snprintf(options->digest, size, "%s:%s", user, password);
    return 0;
}

static int parse_acl(zk_options *options, const simba_url *url, simba_error *err)
{
    static const char *const words[] = {
        [ZK_ACL_OPEN] = "open", [ZK_ACL_CREATOR] = "creator", [ZK_ACL_READ] = "creator+read"};
    const char *text = simba_url_query(url, "acl");
    if (!text)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        options->acl = (zk_acl)i;
        if (i != ZK_ACL_OPEN && !options->digest)
            return simba__fail(err, SIMBA_EURL, "acl=%s needs a user and a password in the zookeeper URL", text);
        return 0;
    }
    return simba__fail(err, SIMBA_EURL, "acl in the zookeeper URL is open, creator or creator+read");
}

static int parse_session(zk_options *options, const simba_url *url, simba_error *err)
{
    int64_t ms = 10000;
    const int rc = simba__url_duration(url, "session-timeout", &ms, err);
    if (rc == 0 && (ms < 100 || ms > 86400000))
        return simba__fail(err, SIMBA_EURL, "session-timeout is from 100ms to 24h");
    options->session_ms = (int)ms;
    return rc;
}

int simba__zk_options_parse(const simba_url *url, zk_options *ret_options, simba_error *err)
{
    int rc = parse_hosts(ret_options, simba_url_authority(url), err);
    if (rc == 0)
        rc = parse_chroot(ret_options, simba_url_path(url), err);
    if (rc == 0)
        rc = parse_login(ret_options, url, err);
    if (rc == 0)
        rc = parse_acl(ret_options, url, err);
    if (rc == 0)
        rc = parse_session(ret_options, url, err);
    return rc;
}

void simba__zk_options_free(zk_options *options)
{
    for (size_t i = 0; i < options->host_count; i++)
        simba__free(options->hosts[i].name);
    simba__free(options->hosts);
    simba__free(options->root);
    if (options->digest)
        explicit_bzero(options->digest, strlen(options->digest));
    simba__free(options->digest);
}
