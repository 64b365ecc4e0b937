/* What a URL says, and the table of functions.
 *
 *   zookeeper://[user:password@]host[:port][,host[:port]…][/chroot][?session-timeout=10s][&acl=open|creator|creator+read]
 *   zookeepers://…[?ca=FILE][&cert=FILE&key=FILE][&verify=yes|no]
 *
 * net/endpoint.h says what a host is. Without a port it is 2181, also by TLS: servers have no usual port for that. User and password are
 * those of ZooKeeper's digest authentication. */
#include <stdio.h>
#include <string.h>

#include "stores/schemes.h"
#include "stores/zookeeper/zookeeper.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

/* --- the URL ------------------------------------------------------------------------------------------------ */

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "out of memory");
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
    char *chroot = simba__strdup(path);
    if (!chroot)
        return out_of_memory(err);
    chroot[length] = '\0';
    options->root = simba__zk_child_path(chroot, "simba");
    options->notes = simba__zk_child_path(chroot, "simba-notes");
    simba__free(chroot);
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
    const char *authority = simba_url_authority(url);
    ret_options->tls = strcmp(simba_url_scheme(url), "zookeepers") == 0;
    snprintf(ret_options->where, sizeof ret_options->where, "%s", authority[0] ? authority : "127.0.0.1");
    int rc = simba__endpoints_parse("zookeeper", authority, 2181, err, &ret_options->hosts, &ret_options->host_count);
    if (rc == 0)
        rc = parse_chroot(ret_options, simba_url_path(url), err);
    if (rc == 0)
        rc = parse_login(ret_options, url, err);
    if (rc == 0)
        rc = parse_acl(ret_options, url, err);
    if (rc == 0)
        rc = parse_session(ret_options, url, err);
    if (rc == 0)
        rc = simba__tls_files_of_url(url, ret_options->tls ? NULL : "zookeepers://", &ret_options->files, err);
    return rc;
}

void simba__zk_options_free(zk_options *options)
{
    if (options->digest)
        explicit_bzero(options->digest, strlen(options->digest));
    simba__free(options->digest);
    simba__free(options->hosts);
    simba__free(options->root);
    simba__free(options->notes);
}

/* --- requests ----------------------------------------------------------------------------------------------- */

static void zk_submit(void *instance, simba_request *request)
{
    zk_store *self = instance;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        simba__zk_acquire(self, request);
        break;
    case SIMBA_OP_RENEW:
        simba__zk_renew(self, request);
        break;
    case SIMBA_OP_RELEASE:
        simba__zk_release(self, request);
        break;
    case SIMBA_OP_READ:
    case SIMBA_OP_FORCE_RELEASE:
        simba__zk_look(self, request);
        break;
    case SIMBA_OP_LIST:
        simba__zk_list(self, request);
        break;
    case SIMBA_OP_WRITE_NOTE:
        simba__zk_write_note(self, request);
        break;
    case SIMBA_OP_READ_NOTE:
        simba__zk_read_note(self, request);
        break;
    case SIMBA_OP_FORGET:
        simba__zk_forget(self, request);
        break;
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE:
        self->host->fail(self->host, request, SIMBA_ENOTSUP, "zookeeper: there is nothing to set up");
        break;
    }
}

static void zk_flush(void *instance)
{
    simba__zk_session_flush(&((zk_store *)instance)->session);
}

/* --- lifetime ----------------------------------------------------------------------------------------------- */

static int64_t zk_session_ms(void *instance)
{
    return ((zk_store *)instance)->options.session_ms;
}

static const char *zk_server(void *instance)
{
    return ((zk_store *)instance)->session.server;
}

/* Worker threads look names up. If the URL has only addresses, the store needs none. */
static unsigned workers_for(const zk_options *options)
{
    simba__address address;
    for (size_t i = 0; i < options->host_count; i++)
        if (!simba__address_parse(options->hosts[i].host, options->hosts[i].port, &address))
            return 1;
    return 0;
}

static int zk_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    zk_store *self = instance;
    simba__tls_context *tls = NULL;
    const zk_options *options = &self->options;
    self->host = host;
    int rc = simba__zk_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    host->workers = workers_for(options);
    if (options->tls)
        rc = simba__tls_context_new(&options->files, err, &tls);
    if (rc < 0)
        return rc;
    self->timer.fire = simba__zk_begin_later;
    if (simba__zk_session_init(&self->session, self, tls) < 0 || host->timer_add(host, &self->timer) < 0)
        return out_of_memory(err);
    return 0;
}

static void zk_close(void *instance)
{
    zk_store *self = instance;
    self->host->timer_clear(self->host, &self->timer);
    simba__zk_ops_close(self);
    simba__zk_session_close(&self->session);
}

static void zk_fini(void *instance)
{
    zk_store *self = instance;
    if (self->session.store)
        simba__zk_session_fini(&self->session);
    simba__table_fini(&self->watches);
    simba__table_fini(&self->contenders);
    simba__zk_options_free(&self->options);
}

static int zk_accepts(const simba_url *url, const char *mutex, simba_error *err)
{
    (void)url;
    return simba__zk_check_mutex(mutex, err);
}

static const char *const schemes[] = {SIMBA__SCHEMES_zookeeper, NULL};
static const char *const keys[] = {"session-timeout", "acl", "ca", "cert", "key", "verify", NULL};

const simba_backend simba__backend_zookeeper = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(zk_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_SESSION | SIMBA_CAP_QUEUE | SIMBA_CAP_CALLS | SIMBA_CAP_LIST | SIMBA_CAP_NOTE,
    .workers = 1,
    .init = zk_init,
    .submit = zk_submit,
    .expire = simba__zk_expire,
    .flush = zk_flush,
    .watch = simba__zk_observe,
    .unwatch = simba__zk_unobserve,
    .woken = zk_flush,
    .close = zk_close,
    .fini = zk_fini,
    .accepts = zk_accepts,
    .session_ms = zk_session_ms,
    .server = zk_server,
};
