/* What a ZooKeeper URL says:
 *
 *   zookeeper://[user:password@]host[:port][,host[:port]…][/chroot][?session-timeout=10s][&acl=open|creator|creator+read]
 *
 * net/endpoint.h says what a host is. Without a port it is 2181. User and password are those of ZooKeeper's digest
 * authentication. */
#include "backends/zookeeper/options.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

static int parse_hosts(zk_options *options, const char *authority, simba_error *err)
{
    snprintf(options->where, sizeof options->where, "%s", authority[0] ? authority : "127.0.0.1");
    return simba__endpoints_parse("zookeeper", authority, 2181, err, &options->hosts, &options->host_count);
}

/* Join the first `length` bytes of the path and the name. NULL: out of memory. */
static char *below(const char *path, size_t length, const char *name)
{
    char *text = simba__calloc(1, length + strlen(name) + 1);
    if (text) {
        memcpy(text, path, length);
        strcpy(text + length, name);
    }
    return text;
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
    options->root = below(path, length, "/simba");
    options->notes = below(path, length, "/simba-notes");
    return options->root && options->notes ? 0 : out_of_memory(err);
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
    simba__free(options->hosts);
    simba__free(options->root);
    simba__free(options->notes);
    if (options->digest)
        explicit_bzero(options->digest, strlen(options->digest));
    simba__free(options->digest);
}

const struct ACL_vector *simba__zk_acl(const zk_options *options)
{
    static struct ACL everybody_reads[] = {{0x1f, {"auth", ""}}, {0x01, {"world", "anyone"}}};
    static const struct ACL_vector creator_and_readers = {2, everybody_reads};
    switch (options->acl) {
    case ZK_ACL_CREATOR:
        return &ZOO_CREATOR_ALL_ACL;
    case ZK_ACL_READ:
        return &creator_and_readers;
    case ZK_ACL_OPEN:
        break;
    }
    return &ZOO_OPEN_ACL_UNSAFE;
}
