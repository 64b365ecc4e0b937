/* What a Redis URL says:
 *
 *   redis://[user:password@]host[:port][/db]       redis+unix://[user:password@]/path/to.sock[?db=N]
 *   rediss://[user:password@]host[:port][/db][?ca=FILE][&cert=FILE&key=FILE][&verify=no]
 *
 * A host may be a name, an IPv4 address, or an IPv6 address in brackets. Without a port it is 6379, without a host
 * 127.0.0.1. "redis://:password@host" is a password without a user, as servers older than 6 have it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/redis.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

static bool parse_number(const char *text, long most, long *ret_number)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    const long number = strtol(text, &end, 10);
    if (*end != '\0' || number > most)
        return false;
    *ret_number = number;
    return true;
}

bool simba__redis_endpoint_set(redis_endpoint *endpoint, const char *host, size_t length, int port)
{
    if (length >= sizeof endpoint->name)
        return false;
    memcpy(endpoint->name, host, length);
    endpoint->name[length] = '\0';
    endpoint->port = port;
    snprintf(endpoint->where, sizeof endpoint->where, strchr(endpoint->name, ':') ? "[%.100s]:%d" : "%.100s:%d",
             endpoint->name, port);
    return true;
}

/* The part of the authority from `text` to `end`. */
static int parse_host(redis_endpoint *endpoint, const char *text, const char *end, int port, simba_error *err)
{
    const char *bracket = memchr(text, ']', (size_t)(end - text));
    const char *colon = memrchr(bracket ? bracket : text, ':', (size_t)(end - (bracket ? bracket : text)));
    if ((*text == '[') != (bracket != NULL) || (!bracket && colon && memchr(text, ':', (size_t)(colon - text))) ||
        (bracket && bracket + 1 != end && bracket[1] != ':'))
        return simba__fail(err, SIMBA_EURL, "an IPv6 address in a redis URL stands in brackets, as in redis://[::1]");
    if (colon) {
        char digits[8] = "";
        long number;
        if (end - colon <= (ptrdiff_t)sizeof digits)
            memcpy(digits, colon + 1, (size_t)(end - colon - 1));
        if (!parse_number(digits, 65535, &number) || number == 0)
            return simba__fail(err, SIMBA_EURL, "the port of the redis URL is not a number from 1 to 65535");
        port = (int)number;
    }
    const char *from = bracket ? text + 1 : text;
    const char *until = bracket ? bracket : colon ? colon : end;
    if (from == until)
        from = "127.0.0.1", until = from + strlen(from);
    if (!simba__redis_endpoint_set(endpoint, from, (size_t)(until - from), port))
        return simba__fail(err, SIMBA_EURL, "the host of the redis URL is longer than a name can be");
    return 0;
}

static int parse_one_host(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *authority = simba_url_authority(url);
    if (strchr(authority, ','))
        return simba__fail(err, SIMBA_EURL, "a redis URL names one host");
    return parse_host(&options->endpoints[0], authority, authority + strlen(authority), 6379, err);
}

static int parse_socket(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *path = simba_url_path(url);
    if (simba_url_authority(url)[0] != '\0' || path[0] == '\0' || path[1] == '\0')
        return simba__fail(err, SIMBA_EURL, "a redis+unix URL is redis+unix:///absolute/path/to.sock");
    if (strlen(path) > 107) /* sun_path */
        return simba__fail(err, SIMBA_EURL, "the path of the socket is longer than the system allows");
    redis_endpoint *endpoint = &options->endpoints[0];
    snprintf(endpoint->name, sizeof endpoint->name, "%s", path);
    snprintf(endpoint->where, sizeof endpoint->where, "%s", path);
    return 0;
}

static int parse_db(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *path = options->endpoints[0].port == 0 ? "" : simba_url_path(url);
    const char *query = simba_url_query(url, "db");
    const bool in_path = path[0] == '/' && path[1] != '\0';
    if (in_path && query)
        return simba__fail(err, SIMBA_EURL, "the database stands twice in the redis URL");
    const char *text = in_path ? path + 1 : query;
    if (text && !parse_number(text, 1000000, &options->login.db))
        return simba__fail(err, SIMBA_EURL, "the database of the redis URL is not a number");
    return 0;
}

static int parse_login(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *user = simba_url_user(url);
    const char *password = simba_url_password(url);
    if (user && user[0] != '\0' && !password)
        return simba__fail(err, SIMBA_EURL, "the redis URL has a user without a password");
    if (user && user[0] != '\0') {
        options->login.user = simba__strdup(user);
        if (!options->login.user)
            return out_of_memory(err);
    }
    if (password && password[0] != '\0') {
        options->login.password = simba__strdup(password);
        if (!options->login.password)
            return out_of_memory(err);
    }
    return 0;
}

static int parse_durations(redis_options *options, const simba_url *url, simba_error *err)
{
    int64_t connect_ms = 2000;
    int64_t timeout_ms = 4000;
    int rc = simba__url_duration(url, "connect-timeout", &connect_ms, err);
    if (rc == 0)
        rc = simba__url_duration(url, "timeout", &timeout_ms, err);
    if (rc == 0 && (connect_ms < 1 || timeout_ms < 1 || connect_ms > 3600000 || timeout_ms > 3600000))
        rc = simba__fail(err, SIMBA_EURL, "connect-timeout and timeout are from 1ms to 1h");
    options->connect_timeout_ns = connect_ms * SIMBA__NS_PER_MS;
    options->timeout_ns = timeout_ms * SIMBA__NS_PER_MS;
    return rc;
}

static int parse_replicas(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *text = simba_url_query(url, "replicas");
    if (text && !parse_number(text, 1000, &options->replicas))
        return simba__fail(err, SIMBA_EURL, "replicas in the redis URL is not a number from 0 to 1000");
    return 0;
}

static int copy(const simba_url *url, const char *key, char **ret_value, simba_error *err)
{
    const char *value = simba_url_query(url, key);
    if (!value)
        return 0;
    *ret_value = simba__strdup(value);
    return *ret_value ? 0 : out_of_memory(err);
}

static int parse_tls(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *verify = simba_url_query(url, "verify");
    int rc = copy(url, "ca", &options->ca, err);
    if (rc == 0)
        rc = copy(url, "cert", &options->cert, err);
    if (rc == 0)
        rc = copy(url, "key", &options->key, err);
    if (rc < 0)
        return rc;
    options->tls = strcmp(simba_url_scheme(url), "rediss") == 0;
    options->verify = !verify || strcmp(verify, "no") != 0;
    if (!options->tls && (options->ca || options->cert || options->key || verify))
        return simba__fail(err, SIMBA_EURL, "ca, cert, key and verify are for rediss://");
    if (verify && options->verify && strcmp(verify, "yes") != 0)
        return simba__fail(err, SIMBA_EURL, "verify is yes or no");
    if (!options->cert != !options->key)
        return simba__fail(err, SIMBA_EURL, "cert and key go together");
    return 0;
}

int simba__redis_options_parse(const simba_url *url, redis_options *ret_options, simba_error *err)
{
    const bool is_socket = strcmp(simba_url_scheme(url), "redis+unix") == 0;
    ret_options->topology = &simba__redis_single;
    ret_options->endpoints = simba__calloc(1, sizeof *ret_options->endpoints);
    if (!ret_options->endpoints)
        return out_of_memory(err);
    ret_options->endpoint_count = 1;
    int rc = is_socket ? parse_socket(ret_options, url, err) : parse_one_host(ret_options, url, err);
    if (rc == 0)
        rc = parse_db(ret_options, url, err);
    if (rc == 0)
        rc = parse_login(ret_options, url, err);
    if (rc == 0)
        rc = parse_durations(ret_options, url, err);
    if (rc == 0)
        rc = parse_replicas(ret_options, url, err);
    if (rc == 0)
        rc = parse_tls(ret_options, url, err);
    return rc;
}

static void free_login(redis_login *login)
{
    if (login->password)
        explicit_bzero(login->password, strlen(login->password));
    simba__free(login->password);
    simba__free(login->user);
}

void simba__redis_options_free(redis_options *options)
{
    free_login(&options->login);
    simba__free(options->endpoints);
    simba__free(options->ca);
    simba__free(options->cert);
    simba__free(options->key);
}
