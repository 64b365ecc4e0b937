/* See options.h. */
#include "backends/postgresql/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

/* The first of them are ours, the others are passed on to libpq as they stand. */
enum { OWN_KEYS = 6 };
const char *const simba__pg_keys[] = {
    "schema",
    "table",
    "connections",
    "create",
    "connect-timeout",
    "target_session_attrs",
    "host",
    "port",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslcrl",
    "sslcrldir",
    "sslsni",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "channel_binding",
    "gssencmode",
    "krbsrvname",
    "requirepeer",
    "passfile",
    "service",
    "servicefile",
    "application_name",
    "options",
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
    NULL,
};

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "postgresql: out of memory");
}

/* --- libpq's settings ------------------------------------------------------------------------------------ */

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
    char *copy = strdup(value);
    if (option && copy) {
        free(option->val);
        option->val = copy;
    } else {
        free(copy);
    }
    return copy;
}

/* Not to be taken for a setting by anybody: libpq reads the service file, the environment and its defaults, refuses this
 * value, and never begins to connect. */
static const char refused_value[] = "none-yet";

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
    const bool is_refused = strstr(PQerrorMessage(pg), refused_value) != NULL;
    if (!is_refused)
        simba__error_set(err, SIMBA_EURL, "postgresql: %.*s", (int)strcspn(PQerrorMessage(pg), "\n"),
                         PQerrorMessage(pg));
    else
        options->settings = PQconninfo(pg);
    snprintf(default_host, size, "%s", is_refused && PQhost(pg) ? PQhost(pg) : "");
    PQfinish(pg);
    return !is_refused ? SIMBA_EURL : options->settings ? 0 : out_of_memory(err);
}

static bool is_said(const simba_url *url, const char *key)
{
    return simba_url_query(url, key) != NULL;
}

static int settle(simba__pg_options *options, const simba_url *url, simba_error *err)
{
    static const struct {
        const char *keyword, *value;
    } defaults[] = {{"keepalives_idle", "10"},
                    {"keepalives_interval", "5"},
                    {"keepalives_count", "3"},
                    {"tcp_user_timeout", "10000"},
                    {"fallback_application_name", "simba"}};
    const char *session = simba_url_query(url, "target_session_attrs");
    bool is_set = set(options, "client_encoding", "UTF8");
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (simba__pg_option(options, defaults[i].keyword)[0] == '\0')
            is_set &= set(options, defaults[i].keyword, defaults[i].value);
    if (!is_said(url, "sslmode") && strcmp(simba__pg_option(options, "sslmode"), "prefer") == 0)
        is_set &= set(options, "sslmode", "verify-full");
    if (!is_said(url, "gssencmode"))
        is_set &= set(options, "gssencmode", "disable");
    if (session && strcmp(session, "read-write") != 0 && strcmp(session, "primary") != 0 && strcmp(session, "any") != 0)
        return simba__fail(err, SIMBA_EURL,
                           "postgresql: target_session_attrs is \"%s\"; the store writes, so it can be read-write, "
                           "primary or any",
                           session);
    is_set &= set(options, "target_session_attrs", session ? session : "read-write");
    return is_set ? 0 : out_of_memory(err);
}

/* --- hosts ------------------------------------------------------------------------------------------------- */

static int add_host(simba__pg_options *options, const char *host, size_t length, const char *address, long port,
                    simba_error *err)
{
    if (options->host_count == SIMBA__PG_HOSTS_MAX)
        return simba__fail(err, SIMBA_EURL, "postgresql: there are more than %d hosts", SIMBA__PG_HOSTS_MAX);
    simba__pg_host *added = &options->hosts[options->host_count];
    if (!simba__endpoint_set(&added->at, host, length, port))
        return simba__fail(err, SIMBA_EURL, "postgresql: \"%.*s\" with the port %ld is no host", (int)length, host,
                           port);
    snprintf(added->address, sizeof added->address, "%s", address);
    options->host_count++;
    return 0;
}

static int add_authority(simba__pg_options *options, const simba_url *url, int port, simba_error *err)
{
    simba__endpoint *endpoints;
    size_t count;
    int rc = simba__endpoints_parse("postgresql", simba_url_authority(url), port, err, &endpoints, &count);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_host(options, endpoints[i].host, strlen(endpoints[i].host), "", endpoints[i].port, err);
    simba__free(endpoints);
    return rc;
}

/* The nth of a list with commas; the last one stands for all that come after it. */
static size_t nth(const char *list, size_t n, const char **ret_at)
{
    while (n > 0 && strchr(list, ',')) {
        list = strchr(list, ',') + 1;
        n--;
    }
    *ret_at = list;
    return strcspn(list, ",");
}

static size_t list_length(const char *list)
{
    size_t n = 1;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* As libpq has put them together: lists of hosts, addresses and ports. */
static int add_lists(simba__pg_options *options, const char *default_host, simba_error *err)
{
    const char *addresses = simba__pg_option(options, "hostaddr");
    const char *hosts = simba__pg_option(options, "host");
    const char *ports = simba__pg_option(options, "port");
    if (hosts[0] == '\0')
        hosts = addresses[0] ? addresses : default_host;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < list_length(hosts); i++) {
        const char *host, *address, *port;
        char address_text[64];
        const size_t length = nth(hosts, i, &host);
        snprintf(address_text, sizeof address_text, "%.*s", (int)nth(addresses, i, &address), address);
        const size_t port_length = nth(ports, i, &port);
        rc = add_host(options, host, length, address_text, port_length ? strtol(port, NULL, 10) : 5432, err);
    }
    return rc;
}

static int parse_hosts(simba__pg_options *options, const simba_url *url, const char *default_host, simba_error *err)
{
    const char *authority = simba_url_authority(url);
    const long port = strtol(simba__pg_option(options, "port"), NULL, 10);
    if (authority[0] != '\0' && is_said(url, "host"))
        return simba__fail(err, SIMBA_EURL, "postgresql: the URL names its host twice");
    int rc = 0;
    if (authority[0] == '/') /* the folder of a socket, with %2F in the URL */
        rc = add_host(options, authority, strlen(authority), "", port > 0 ? port : 5432, err);
    else if (authority[0] != '\0')
        rc = add_authority(options, url, port > 0 ? (int)port : 5432, err);
    else
        rc = add_lists(options, default_host, err);
    size_t length = 0;
    for (size_t i = 0; i < options->host_count && length < sizeof options->where; i++)
        length += (size_t)snprintf(options->where + length, sizeof options->where - length, "%s%s", i ? "," : "",
                                   options->hosts[i].at.where);
    return rc;
}

/* --- ours ---------------------------------------------------------------------------------------------------- */

/* Names go into statements, so they may only be what needs no quoting. */
static int parse_name(const simba_url *url, const char *key, const char *otherwise, char *ret_name, simba_error *err)
{
    const char *name = simba_url_query(url, key);
    const char *taken = name ? name : otherwise;
    if (name && (name[0] == '\0' || strlen(name) > SIMBA__PG_NAME_MAX ||
                 strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != strlen(name)))
        return simba__fail(err, SIMBA_EURL,
                           "postgresql: %s is \"%.64s\"; it may have letters, digits and _, %d at most", key, name,
                           SIMBA__PG_NAME_MAX);
    snprintf(ret_name, SIMBA__PG_NAME_MAX + 1, "%s", taken);
    return 0;
}

static int parse_connections(simba__pg_options *options, const simba_url *url, simba_error *err)
{
    const char *text = simba_url_query(url, "connections");
    options->connections = 2;
    if (!text)
        return 0;
    options->connections = (unsigned)(text[0] - '0');
    if (text[0] < '1' || text[0] > '0' + SIMBA__PG_CONNECTIONS_MAX || text[1] != '\0')
        return simba__fail(err, SIMBA_EURL, "postgresql: connections is \"%s\"; it must be a number from 1 to %d", text,
                           SIMBA__PG_CONNECTIONS_MAX);
    return 0;
}

static int parse_create(simba__pg_options *options, const simba_url *url, simba_error *err)
{
    const char *text = simba_url_query(url, "create");
    options->create = text && strcmp(text, "yes") == 0;
    if (text && !options->create && strcmp(text, "no") != 0)
        return simba__fail(err, SIMBA_EURL, "postgresql: create is \"%s\"; it can be yes or no", text);
    return 0;
}

/* libpq's own is in seconds, and might stand in a service file. */
static int parse_timeout(simba__pg_options *options, const simba_url *url, simba_error *err)
{
    const char *seconds = simba__pg_option(options, "connect_timeout");
    int64_t ms = seconds[0] ? strtol(seconds, NULL, 10) * 1000 : 2000;
    const int rc = simba__url_duration(url, "connect-timeout", &ms, err);
    if (rc == 0 && (ms < 1 || ms > 3600000))
        return simba__fail(err, SIMBA_EURL,
                           "postgresql: connect-timeout is from 1ms to 1h, connect_timeout in seconds");
    options->connect_timeout_ns = ms * SIMBA__NS_PER_MS;
    return rc;
}

int simba__pg_options_parse(const simba_url *url, simba__pg_options *ret_options, simba_error *err)
{
    char default_host[256];
    int rc = collect(ret_options, url, default_host, sizeof default_host, err);
    if (rc == 0)
        rc = settle(ret_options, url, err);
    if (rc == 0)
        rc = parse_hosts(ret_options, url, default_host, err);
    if (rc == 0)
        rc = parse_name(url, "schema", "", ret_options->schema, err);
    if (rc == 0)
        rc = parse_name(url, "table", "simba_mutex", ret_options->table, err);
    if (rc == 0)
        rc = parse_connections(ret_options, url, err);
    if (rc == 0)
        rc = parse_create(ret_options, url, err);
    return rc < 0 ? rc : parse_timeout(ret_options, url, err);
}

void simba__pg_options_free(simba__pg_options *options)
{
    PQconninfoOption *password = find(options, "password");
    if (password && password->val)
        explicit_bzero(password->val, strlen(password->val));
    PQconninfoFree(options->settings);
    memset(options, 0, sizeof *options);
}
