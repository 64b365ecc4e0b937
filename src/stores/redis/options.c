/* What a Redis URL says:
 *
 *   redis://[user:password@]host[:port][/db]       redis+unix://[user:password@]/path/to.sock[?db=N]
 *   rediss://[user:password@]host[:port][/db][?ca=FILE][&cert=FILE&key=FILE][&verify=no]
 *   redis+sentinel://[user:password@]host[:port],…/service[?db=N][&sentinel-user=…][&sentinel-password-file=FILE]
 *   redis+cluster://[user:password@]host[:port],…
 *   rediss+sentinel://…, rediss+cluster://…  the same by TLS, sentinels included
 *
 * net/endpoint.h says what a host is. The default port is 6379, and 26379 for a sentinel. "redis://:password@host" is a
 * password without a user, as servers older than 6 have it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/redis.h"
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

/* The service that the sentinels watch. It stands where redis:// has its database. */
static int parse_service(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *path = simba_url_path(url);
    if (path[0] == '\0' || path[1] == '\0' || strpbrk(path + 1, "/ "))
        return simba__fail(err, SIMBA_EURL, "a %s URL is %s://host,host/service", simba_url_scheme(url),
                           simba_url_scheme(url));
    options->service = simba__strdup(path + 1);
    return options->service ? 0 : out_of_memory(err);
}

static int parse_db(redis_options *options, const simba_url *url, bool in_path, simba_error *err)
{
    const char *path = in_path ? simba_url_path(url) : "";
    const char *query = simba_url_query(url, "db");
    const bool has_path = path[0] == '/' && path[1] != '\0';
    if (has_path && query)
        return simba__fail(err, SIMBA_EURL, "the database stands twice in the redis URL");
    const char *text = has_path ? path + 1 : query;
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
    if (password && (password[0] != '\0' || options->login.user)) { /* a user without a password is still named */
        options->login.password = simba__strdup(password);
        if (!options->login.password)
            return out_of_memory(err);
    }
    return 0;
}

static int parse_durations(redis_options *options, const simba_url *url, simba_error *err)
{
    unsigned connect_ms = 2000;
    unsigned timeout_ms = 4000;
    int rc = simba__url_timeout(url, "connect-timeout", &connect_ms, err);
    if (rc == 0)
        rc = simba__url_timeout(url, "timeout", &timeout_ms, err);
    options->connect_timeout_ns = connect_ms * SIMBA__NS_PER_MS;
    options->timeout_ns = timeout_ms * SIMBA__NS_PER_MS;
    return rc;
}

/* A password among the settings of a URL would be shown with them, so it stands in a file. */
static int read_password(const char *path, char **ret_password, simba_error *err)
{
    char line[512] = "";
    FILE *file = fopen(path, "re");
    const bool read = file && (fgets(line, sizeof line, file) || !ferror(file));
    const int cause = errno;
    if (file)
        fclose(file);
    if (!read)
        return simba__fail(err, SIMBA_EURL, "sentinel-password-file: %.100s cannot be read: %s", path, strerror(cause));
    line[strcspn(line, "\r\n")] = '\0';
    *ret_password = simba__strdup(line);
    explicit_bzero(line, sizeof line);
    return *ret_password ? 0 : out_of_memory(err);
}

static int parse_sentinel_login(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *path = simba_url_query(url, "sentinel-password-file");
    const char *user = simba_url_query(url, "sentinel-user");
    int rc = 0;
    if (user && !(options->sentinel_login.user = simba__strdup(user)))
        rc = out_of_memory(err);
    if (rc == 0 && path)
        rc = read_password(path, &options->sentinel_login.password, err);
    if (rc == 0 && (path || options->sentinel_login.user) && !options->service)
        return simba__fail(err, SIMBA_EURL, "sentinel-user and sentinel-password-file are for redis+sentinel://");
    if (rc == 0 && options->sentinel_login.user && !path)
        return simba__fail(err, SIMBA_EURL, "sentinel-user needs a sentinel-password-file");
    return rc;
}

static int parse_socket(redis_options *options, const simba_url *url, simba_error *err)
{
    if (simba_url_authority(url)[0] != '\0')
        return simba__fail(err, SIMBA_EURL, "a redis+unix URL is redis+unix:///absolute/path/to.sock");
    options->endpoints = simba__calloc(1, sizeof *options->endpoints);
    if (!options->endpoints)
        return out_of_memory(err);
    options->endpoint_count = 1;
    return simba__endpoint_set_socket(&options->endpoints[0], "redis", simba_url_path(url), err);
}

static int parse_hosts(redis_options *options, const simba_url *url, int port, bool several, simba_error *err)
{
    const int rc = simba__endpoints_parse("redis", simba_url_authority(url), port, err, &options->endpoints,
                                          &options->endpoint_count);
    if (rc == 0 && options->endpoint_count > 1 && !several)
        return simba__fail(err, SIMBA_EURL,
                           "a redis URL names one host; for several there are redis+sentinel:// and redis+cluster://");
    return rc;
}

/* Read where the servers are, in the form that the scheme prescribes. */
static int parse_place(redis_options *options, const simba_url *url, simba_error *err)
{
    const char *plus = strchr(simba_url_scheme(url), '+');
    const bool is_socket = plus && strcmp(plus, "+unix") == 0;
    const bool is_sentinel = plus && strcmp(plus, "+sentinel") == 0;
    const bool is_cluster = plus && strcmp(plus, "+cluster") == 0;
    options->kind = is_sentinel ? REDIS_SENTINEL : is_cluster ? REDIS_CLUSTER : REDIS_SINGLE;
    options->login.to_master = is_sentinel;
    int rc = is_socket ? parse_socket(options, url, err)
                       : parse_hosts(options, url, is_sentinel ? 26379 : 6379, is_sentinel || is_cluster, err);
    if (rc == 0 && is_sentinel)
        rc = parse_service(options, url, err);
    if (rc == 0)
        rc = parse_db(options, url, !is_socket && !is_sentinel, err);
    if (rc == 0 && is_cluster && options->login.db != 0)
        rc = simba__fail(err, SIMBA_EURL, "a Redis Cluster has no other database than 0");
    return rc;
}

int simba__redis_options_parse(const simba_url *url, redis_options *ret_options, simba_error *err)
{
    ret_options->tls = strncmp(simba_url_scheme(url), "rediss", 6) == 0;
    int rc = parse_place(ret_options, url, err);
    if (rc == 0)
        rc = parse_login(ret_options, url, err);
    if (rc == 0)
        rc = parse_sentinel_login(ret_options, url, err);
    if (rc == 0)
        rc = parse_durations(ret_options, url, err);
    const char *replicas = simba_url_query(url, "replicas");
    if (rc == 0 && replicas && !parse_number(replicas, 1000, &ret_options->replicas))
        rc = simba__fail(err, SIMBA_EURL, "replicas in the redis URL is not a number from 0 to 1000");
    if (rc == 0)
        rc = simba__tls_files_of_url(url, ret_options->tls ? NULL : "rediss:// and its kin", &ret_options->files, err);
    ret_options->restart_wait = true;
    if (rc == 0)
        rc = simba__url_flag(url, "restart-wait", &ret_options->restart_wait, err);
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
    free_login(&options->sentinel_login);
    simba__free(options->service);
    simba__free(options->endpoints);
}
