/* See options.h. */
#include "stores/mysql/options.h"

#include <stdio.h>
#include <string.h>

#include "net/endpoint.h"
#include "stores/sql/sql.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

const char *const simba__my_keys[] = {
    "socket", "table",  "create",      "connect-timeout", "timeout",           "tls", "verify", "ca", "capath", "cert",
    "key",    "cipher", "tls-version", "fingerprint",     "server-public-key", NULL,
};

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "mysql: out of memory");
}

static int copy(const char *text, char **ret_copy, simba_error *err)
{
    if (!text || text[0] == '\0')
        return 0;
    *ret_copy = simba__strdup(text);
    return *ret_copy ? 0 : out_of_memory(err);
}

/* --- where it is ------------------------------------------------------------------------------------ */

static int parse_host(simba__my_options *options, const char *authority, simba_error *err)
{
    simba__endpoint *endpoints;
    size_t count;
    int rc = simba__endpoints_parse("mysql", authority, 3306, err, &endpoints, &count);
    if (rc < 0)
        return rc;
    if (count > 1)
        rc = simba__fail(err, SIMBA_EURL, "mysql: the URL names one host");
    options->port = (unsigned)endpoints[0].port;
    snprintf(options->where, sizeof options->where, "%s", endpoints[0].where);
    if (rc == 0)
        rc = copy(endpoints[0].host, &options->host, err);
    simba__free(endpoints);
    return rc;
}

static int parse_place(simba__my_options *options, const simba_url *url, simba_error *err)
{
    const char *authority = simba_url_authority(url);
    const char *socket = simba_url_query(url, "socket");
    if (!socket)
        return parse_host(options, authority, err);
    if (authority[0] != '\0' && strcmp(authority, "localhost") != 0)
        return simba__fail(err, SIMBA_EURL, "mysql: the URL has a socket and the host \"%s\"; leave one of them out",
                           authority);
    if (socket[0] != '/' || strlen(socket) > 107) /* sun_path */
        return simba__fail(err, SIMBA_EURL, "mysql: socket must be an absolute path of at most 107 bytes");
    snprintf(options->where, sizeof options->where, "%s", socket);
    return copy(socket, &options->socket, err);
}

static int parse_table(simba__my_options *options, const simba_url *url, simba_error *err)
{
    const char *path = simba_url_path(url);
    char table[65] = "simba_mutex";
    if (path[0] == '\0' || path[1] == '\0')
        return simba__fail(err, SIMBA_EURL, "mysql: the URL names no database: %s://%s/DATABASE", simba_url_scheme(url),
                           simba_url_authority(url));
    if (strchr(path + 1, '/'))
        return simba__fail(err, SIMBA_EURL, "mysql: \"%.64s\" is not the name of a database", path + 1);
    int rc = simba__sql_name(url, "table", sizeof table - 1, table, err);
    if (rc == 0)
        rc = copy(path + 1, &options->database, err);
    return rc < 0 ? rc : copy(table, &options->table, err);
}

/* --- how to talk to it ------------------------------------------------------------------------------- */

static int parse_tls(simba__my_options *options, const simba_url *url, simba_error *err)
{
    const struct {
        const char *key;
        char **value;
    } texts[] = {{"ca", &options->ca},
                 {"capath", &options->capath},
                 {"cert", &options->cert},
                 {"key", &options->key},
                 {"cipher", &options->cipher},
                 {"tls-version", &options->tls_version},
                 {"fingerprint", &options->fingerprint}};
    bool any = simba_url_query(url, "verify") != NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const int rc = copy(simba_url_query(url, texts[i].key), texts[i].value, err);
        if (rc < 0)
            return rc;
        any |= *texts[i].value != NULL;
    }
    const bool is_said = simba_url_query(url, "tls") != NULL;
    options->tls = any;
    options->verify = true;
    int rc = simba__url_flag(url, "tls", &options->tls, err);
    if (rc == 0)
        rc = simba__url_flag(url, "verify", &options->verify, err);
    if (rc < 0)
        return rc;
    if (is_said && !options->tls && any)
        return simba__fail(err, SIMBA_EURL, "mysql: tls=no, and yet there are options for TLS");
    if (!options->cert != !options->key)
        return simba__fail(err, SIMBA_EURL, "mysql: cert and key go together");
    if (options->tls && options->socket)
        return simba__fail(err, SIMBA_EURL,
                           "mysql: the URL asks for TLS and for a socket file, through which there is "
                           "none; leave one of them out");
    return 0;
}

int simba__my_options_parse(const simba_url *url, simba__my_options *ret_options, simba_error *err)
{
    simba__my_options *options = ret_options;
    options->connect_timeout_ms = 2000;
    options->timeout_ms = 4000;
    int rc = parse_place(options, url, err);
    if (rc == 0)
        rc = parse_table(options, url, err);
    if (rc == 0)
        rc = copy(simba_url_user(url), &options->user, err);
    if (rc == 0)
        rc = copy(simba_url_password(url), &options->password, err);
    if (rc == 0)
        rc = simba__url_flag(url, "create", &options->create, err);
    if (rc == 0)
        rc = simba__url_timeout(url, "connect-timeout", &options->connect_timeout_ms, err);
    if (rc == 0)
        rc = simba__url_timeout(url, "timeout", &options->timeout_ms, err);
    if (rc == 0)
        rc = copy(simba_url_query(url, "server-public-key"), &options->public_key, err);
    if (rc == 0)
        rc = parse_tls(options, url, err);
    return rc;
}

void simba__my_options_free(simba__my_options *options)
{
    if (options->password)
        explicit_bzero(options->password, strlen(options->password));
    char *const texts[] = {options->host,        options->socket,    options->user,   options->password,
                           options->database,    options->table,     options->ca,     options->capath,
                           options->cert,        options->key,       options->cipher, options->tls_version,
                           options->fingerprint, options->public_key};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        simba__free(texts[i]);
    memset(options, 0, sizeof *options);
}
