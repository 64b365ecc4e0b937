/* See options.h. */
#include "stores/postgresql/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/sql/sql.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

static const char store[] = "postgresql";

#define PLACE_KEYS "host", "port", "service", "servicefile", "passfile", "require_auth", "application_name", "options"
#define TLS_KEYS "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "sslsni", "channel_binding"
#define MORE_TLS_KEYS "ssl_min_protocol_version", "ssl_max_protocol_version", "gssencmode", "krbsrvname", "requirepeer"
#define SILENCE_KEYS "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"
/* The store passes the keys from the 6th on to libpq as they stand. */
enum { OWN_KEYS = 5 };
#define KEYS_OF_OURS "schema", "table", "create", "connect-timeout", "target_session_attrs"
const char *const simba__pg_keys[] = {KEYS_OF_OURS,  "connect_timeout", PLACE_KEYS, TLS_KEYS,
                                      MORE_TLS_KEYS, SILENCE_KEYS,      NULL};

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "postgresql: out of memory");
}

/* --- libpq's settings -------------------------------------------------------------------------------------- */

static PQconninfoOption *find(const simba__pg_options *options, const char *keyword)
{
    for (PQconninfoOption *option = options->settings; option && option->keyword; option++)
        if (strcmp(option->keyword, keyword) == 0)
            return option;
    return NULL;
}

const char *simba__pg_option(const simba__pg_options *options, const char *keyword)
{
    const PQconninfoOption *option = find(options, keyword);
    return option && option->val ? option->val : "";
}

/* The values are libpq's, which frees them. One that this libpq does not know is left alone. */
static bool set(simba__pg_options *options, const char *keyword, const char *value)
{
    PQconninfoOption *option = find(options, keyword);
    char *copy = option ? strdup(value) : NULL;
    if (copy) {
        free(option->val);
        option->val = copy;
    }
    return !option || copy;
}

/* libpq reads the service file, the environment and its defaults when it begins to connect. With this value, which is none of
 * that setting, it stops there. */
static const char refused_value[] = "none-yet";

/* Also where libpq would look for a server that nobody has named. */
static int collect(simba__pg_options *options, const simba_url *url, char *default_host, size_t size, simba_error *err)
{
    const char *path = simba_url_path(url);
    const char *keywords[64] = {"target_session_attrs", "user", "password", "dbname"};
    const char *values[64] = {refused_value, simba_url_user(url), simba_url_password(url), path[0] ? path + 1 : NULL};
    size_t count = 4;
    for (const char *const *key = simba__pg_keys + OWN_KEYS; *key; key++)
        if (simba_url_query(url, *key)) {
            keywords[count] = *key;
            values[count++] = simba_url_query(url, *key);
        }
    PGconn *pg = PQconnectStartParams(keywords, values, 0);
    if (!pg)
        return out_of_memory(err);
    const char *text = PQerrorMessage(pg);
    int rc = 0;
    if (!strstr(text, refused_value))
        rc = simba__fail(err, SIMBA_EURL, "postgresql: %.*s", (int)strcspn(text, "\n"), text);
    else if (!(options->settings = PQconninfo(pg)))
        rc = out_of_memory(err);
    else
        snprintf(default_host, size, "%s", PQhost(pg) ? PQhost(pg) : "");
    PQfinish(pg);
    return rc;
}

static bool has_tls(const simba__pg_options *options)
{
    const char *mode = simba__pg_option(options, "sslmode");
    return strcmp(mode, "require") == 0 || strncmp(mode, "verify-", 7) == 0;
}

static int settle(simba__pg_options *options, const simba_url *url, simba_error *err)
{
    static const char *const defaults[][2] = {{"keepalives_idle", "10"},
                                              {"keepalives_interval", "5"},
                                              {"keepalives_count", "3"},
                                              {"tcp_user_timeout", "10000"},
                                              {"fallback_application_name", "simba"}};
    const char *session = simba_url_query(url, "target_session_attrs");
    bool is_set = set(options, "client_encoding", "UTF8");
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (simba__pg_option(options, defaults[i][0])[0] == '\0')
            is_set &= set(options, defaults[i][0], defaults[i][1]);
    if (!simba_url_query(url, "sslmode") && strcmp(simba__pg_option(options, "sslmode"), "prefer") == 0)
        is_set &= set(options, "sslmode", "verify-full");
    /* Without TLS, a program that poses as the server would get the password by asking for it. libpq 16 and later can refuse
     * that. */
    if (simba__pg_option(options, "require_auth")[0] == '\0' && !has_tls(options))
        is_set &= set(options, "require_auth", "!password");
    if (!simba_url_query(url, "gssencmode"))
        is_set &= set(options, "gssencmode", "disable");
    if (session && strcmp(session, "read-write") != 0 && strcmp(session, "primary") != 0 && strcmp(session, "any") != 0)
        return simba__fail(err, SIMBA_EURL,
                           "postgresql: target_session_attrs is \"%s\"; the store writes, so it can be read-write, "
                           "primary or any",
                           session);
    is_set &= set(options, "target_session_attrs", session ? session : "read-write");
    return is_set ? 0 : out_of_memory(err);
}

/* --- hosts --------------------------------------------------------------------------------------------------- */

static int set_folder(simba__pg_options *options, const char *folder, int port, simba_error *err)
{
    options->hosts = simba__calloc(1, sizeof *options->hosts);
    if (!options->hosts)
        return out_of_memory(err);
    options->host_count = 1;
    if (!simba__endpoint_set(&options->hosts[0], folder, strlen(folder), port))
        return simba__fail(err, SIMBA_EURL, "postgresql: \"%.80s\" cannot be the folder of a socket", folder);
    return 0;
}

static int parse_hosts(simba__pg_options *options, const simba_url *url, const char *default_host, simba_error *err)
{
    const char *hosts = simba_url_authority(url);
    const char *given = simba__pg_option(options, "host");
    const char *port_text = simba__pg_option(options, "port");
    if (hosts[0] != '\0' && simba_url_query(url, "host"))
        return simba__fail(err, SIMBA_EURL, "postgresql: the URL names its host twice");
    if (strchr(port_text, ','))
        return simba__fail(err, SIMBA_EURL, "postgresql: name each port with its host: host:port,host:port");
    if (hosts[0] == '\0')
        hosts = given[0] ? given : default_host;
    const int port = port_text[0] ? (int)strtol(port_text, NULL, 10) : 5432;
    const int rc = hosts[0] == '/'
                       ? set_folder(options, hosts, port, err)
                       : simba__endpoints_parse(store, hosts, port, err, &options->hosts, &options->host_count);
    for (size_t i = 0, n = 0; i < options->host_count && n < sizeof options->where; i++)
        n += (size_t)snprintf(options->where + n, sizeof options->where - n, "%s%s", i ? "," : "",
                              options->hosts[i].where);
    return rc;
}

int simba__pg_options_parse(const simba_url *url, simba__pg_options *ret_options, simba_error *err)
{
    simba__pg_options *options = ret_options;
    char default_host[256];
    int rc = collect(options, url, default_host, sizeof default_host, err);
    if (rc == 0)
        rc = settle(options, url, err);
    if (rc == 0)
        rc = parse_hosts(options, url, default_host, err);
    if (rc < 0)
        return rc;
    /* libpq's own is in seconds, and might stand in a service file. */
    const long seconds = strtol(simba__pg_option(options, "connect_timeout"), NULL, 10);
    options->connect_timeout_ms = seconds > 0 && seconds < 3600 ? (unsigned)seconds * 1000 : 2000;
    strcpy(options->table, "simba_mutex");
    rc = simba__sql_name(url, "schema", SIMBA__PG_NAME_MAX, options->schema, err);
    if (rc == 0)
        rc = simba__sql_name(url, "table", SIMBA__PG_NAME_MAX, options->table, err);
    if (rc == 0)
        rc = simba__url_flag(url, "create", &options->create, err);
    return rc < 0 ? rc : simba__url_timeout(url, "connect-timeout", &options->connect_timeout_ms, err);
}

void simba__pg_options_free(simba__pg_options *options)
{
    const PQconninfoOption *password = find(options, "password");
    if (password && password->val)
        explicit_bzero(password->val, strlen(password->val));
    PQconninfoFree(options->settings);
    simba__free(options->hosts);
    memset(options, 0, sizeof *options);
}
