/* The URL, the table of functions, and the order in which the parts begin and end. A URL says:
 *
 *   etcd://[user:password@]host[:port][,host[:port]…][?prefix=TEXT][&session-timeout=10s]
 *   etcds://…[&ca=FILE][&cert=FILE&key=FILE][&verify=yes|no]
 *
 * net/endpoint.h says what a host is. The port is that of etcd's clients, 2379, at which its JSON gateway listens, too. */
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "stores/schemes.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

/* --- the URL ------------------------------------------------------------------------------------------------ */

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

/* --- the table ---------------------------------------------------------------------------------------------- */

static void etcd_submit(void *instance, simba_request *request)
{
    etcd_store *self = instance;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        simba__etcd_acquire(self, request);
        break;
    case SIMBA_OP_RENEW:
        simba__etcd_renew(self, request);
        break;
    case SIMBA_OP_RELEASE:
        simba__etcd_release(self, request);
        break;
    case SIMBA_OP_READ:
    case SIMBA_OP_FORCE_RELEASE:
        simba__etcd_look(self, request);
        break;
    case SIMBA_OP_LIST:
        simba__etcd_list(self, request);
        break;
    case SIMBA_OP_WRITE_NOTE:
        simba__etcd_write_note(self, request);
        break;
    case SIMBA_OP_READ_NOTE:
        simba__etcd_read_note(self, request);
        break;
    case SIMBA_OP_FORGET:
        simba__etcd_forget(self, request);
        break;
    case SIMBA_OP_EXAMINE:
        simba__etcd_examine(self, request);
        break;
    case SIMBA_OP_PREPARE:
        self->host->fail(self->host, request, SIMBA_ENOTSUP, "etcd: there is nothing to set up");
        break;
    }
}

/* Calls are sent as they are made. */
static void etcd_flush(void *instance)
{
    (void)instance;
}

static int64_t etcd_session_ms(void *instance)
{
    return ((etcd_store *)instance)->options.session_ms;
}

static const char *etcd_server(void *instance)
{
    return ((etcd_store *)instance)->calls.server_name;
}

/* Worker threads look names up. If the URL has only addresses, the store needs none. */
static unsigned workers_for(const etcd_options *options)
{
    simba__address address;
    for (size_t i = 0; i < options->host_count; i++)
        if (!simba__address_parse(options->hosts[i].host, options->hosts[i].port, &address))
            return 1;
    return 0;
}

static int etcd_init(void *instance, simba_host *host, const simba_url *url, simba_error *err)
{
    etcd_store *self = instance;
    simba__tls_context *tls = NULL;
    self->host = host;
    int rc = simba__etcd_options_parse(url, &self->options, err);
    if (rc < 0)
        return rc;
    host->workers = workers_for(&self->options);
    self->session.live.ttl_ms = self->options.session_ms;
    if (self->options.tls)
        rc = simba__tls_context_new(&self->options.files, err, &tls);
    if (rc < 0)
        return rc;
    if (simba__etcd_calls_init(self, tls) < 0 || simba__etcd_session_init(self) < 0 ||
        simba__etcd_stream_init(self) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    return 0;
}

static void etcd_fini(void *instance)
{
    etcd_store *self = instance;
    simba__etcd_calls_end(self);
    simba__etcd_stream_fini(self);
    simba__etcd_calls_fini(self);
    simba__table_fini(&self->contenders);
    simba__etcd_options_free(&self->options);
}

static const char *const schemes[] = {SIMBA__SCHEMES_etcd, NULL};
static const char *const keys[] = {"prefix", "session-timeout", "ca", "cert", "key", "verify", NULL};

const simba_backend simba__backend_etcd = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .keys = keys,
    .instance_size = sizeof(etcd_store),
    .caps = SIMBA_CAP_PUSH | SIMBA_CAP_SESSION | SIMBA_CAP_QUEUE | SIMBA_CAP_CALLS | SIMBA_CAP_LIST | SIMBA_CAP_NOTE |
            SIMBA_CAP_EXAMINE,
    .workers = 1,
    .init = etcd_init,
    .submit = etcd_submit,
    .expire = simba__etcd_expire,
    .flush = etcd_flush,
    .watch = simba__etcd_observe,
    .unwatch = simba__etcd_unobserve,
    .woken = etcd_flush,
    .close = simba__etcd_session_close,
    .fini = etcd_fini,
    .session_ms = etcd_session_ms,
    .server = etcd_server,
};
