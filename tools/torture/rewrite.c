/* Whether a proxy can stand between the contenders and the store, and the URL that leads through it. A URL that names its servers
 * by host and port can be rewritten. It cannot where the servers name each other, where certificates name them, and
 * where there is no network at all. */
#include <simba/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torture/torture.h"

typedef struct kind_of_store {
    const char *scheme;
    const char *port;   /* where the URL has none; NULL: no cuts */
    const char *reason; /* why not */
} kind_of_store;

#define NO_NETWORK "there is no network between the contenders and this store"
#define BY_FILE "the server is reached through a socket file"
#define BY_OTHERS "the servers of this store name each other, and contenders would go past the proxy"
#define BY_NAME "TLS checks the name of the server, and the proxy has another"
#define NOT_KNOWN "how the URLs of this store name their servers is not known"
#define TOO_MANY "the URL names too many servers"

static const kind_of_store kinds[] = {
    {"memory", NULL, NO_NETWORK},
    {"sqlite", NULL, NO_NETWORK},
    {"redis", "6379", NULL},
    {"rediss", "6379", NULL},
    {"redis+unix", NULL, BY_FILE},
    {"redis+sentinel", NULL, BY_OTHERS},
    {"rediss+sentinel", NULL, BY_OTHERS},
    {"redis+cluster", NULL, BY_OTHERS},
    {"rediss+cluster", NULL, BY_OTHERS},
    {"mysql", "3306", NULL},
    {"mariadb", "3306", NULL},
    {"postgresql", "5432", NULL},
    {"postgres", "5432", NULL},
    {"zookeeper", "2181", NULL},
    {"zookeepers", "2181", NULL},
    {"etcd", "2379", NULL},
    {"etcds", "2379", NULL},
    {"kubernetes", "6443", NULL},
};

static bool has_any(const simba_url *url, const char *const *keys)
{
    while (*keys != NULL && simba_url_query(url, *keys) == NULL)
        keys++;
    return *keys != NULL;
}

/* MySQL: TLS is insisted on where one of its settings is given. */
static bool mysql_checks_name(const simba_url *url)
{
    static const char *const keys[] = {"ca", "capath", "cert", "key", "cipher", "tls-version", "fingerprint", NULL};
    const char *tls = simba_url_query(url, "tls");
    const char *verify = simba_url_query(url, "verify");
    const bool by_tls = tls != NULL ? strcmp(tls, "yes") == 0 : verify != NULL || has_any(url, keys);
    return by_tls && (verify == NULL || strcmp(verify, "no") != 0);
}

/* PostgreSQL: verify-full is the default. */
static bool postgresql_checks_name(const simba_url *url)
{
    static const char *const without[] = {"disable", "allow", "prefer", "require", "verify-ca", NULL};
    const char *mode = simba_url_query(url, "sslmode");
    mode = mode != NULL ? mode : getenv("PGSSLMODE");
    for (const char *const *one = without; mode != NULL && *one != NULL; one++)
        if (strcmp(*one, mode) == 0)
            return false;
    return true;
}

/* Why this one cannot be rewritten although others of its kind can; NULL: it can. */
static const char *objection(const simba_url *url)
{
    static const char *const elsewhere[] = {"host", "hostaddr", "port", "service", "servicefile", NULL};
    const char *scheme = simba_url_scheme(url);
    const char *verify = simba_url_query(url, "verify");
    if ((strcmp(scheme, "rediss") == 0 || strcmp(scheme, "zookeepers") == 0 || strcmp(scheme, "etcds") == 0) &&
        (verify == NULL || strcmp(verify, "no") != 0))
        return BY_NAME;
    if (strcmp(scheme, "kubernetes") == 0 && simba_url_authority(url)[0] == '\0')
        return BY_FILE;
    if (strcmp(scheme, "kubernetes") == 0 && simba_url_query(url, "tls") == NULL &&
        (verify == NULL || strcmp(verify, "no") != 0))
        return BY_NAME;
    if (strcmp(scheme, "mysql") == 0 || strcmp(scheme, "mariadb") == 0)
        return simba_url_query(url, "socket") != NULL ? BY_FILE : mysql_checks_name(url) ? BY_NAME : NULL;
    if (strcmp(scheme, "postgresql") == 0 || strcmp(scheme, "postgres") == 0) {
        if (simba_url_authority(url)[0] == '\0' || has_any(url, elsewhere))
            return BY_FILE;
        return postgresql_checks_name(url) ? BY_NAME : NULL;
    }
    return NULL;
}

/* "host:port", "host", "[::1]:port", "". False: it is too long. */
static bool read_target(const char *text, size_t length, const char *port, torture_target *ret_target)
{
    const bool bracketed = length > 0 && text[0] == '[';
    const char *host = text + bracketed;
    size_t host_length = bracketed ? strcspn(host, "]") : strcspn(host, ":,");
    host_length = host_length < length - bracketed ? host_length : length - bracketed;
    const char *rest = host + host_length + bracketed;
    const size_t used = (size_t)(rest - text) < length ? (size_t)(rest - text) : length;
    const size_t port_length = length > used && *rest == ':' ? length - used - 1 : 0;
    if (host_length >= sizeof ret_target->host || port_length >= sizeof ret_target->port)
        return false;
    snprintf(ret_target->host, sizeof ret_target->host, "%.*s", host_length > 0 ? (int)host_length : 9,
             host_length > 0 ? host : "127.0.0.1");
    snprintf(ret_target->port, sizeof ret_target->port, "%.*s", port_length > 0 ? (int)port_length : 5,
             port_length > 0 ? rest + 1 : port);
    return true;
}

unsigned torture_targets(const char *url, torture_target ret_targets[TORTURE_TARGETS_MAX], const char **ret_reason)
{
    simba_url *parsed = NULL;
    const kind_of_store *kind = NULL;
    unsigned count = 0;
    *ret_reason = NOT_KNOWN;
    if (simba_url_parse(url, NULL, &parsed) < 0)
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].scheme, simba_url_scheme(parsed)) == 0)
            kind = &kinds[i];
    if (kind != NULL)
        *ret_reason = kind->port == NULL ? kind->reason : objection(parsed);
    if (*ret_reason == NULL) {
        /* The hosts of the authority, between commas. */
        for (const char *at = simba_url_authority(parsed); at != NULL; at = *at == ',' ? at + 1 : NULL) {
            const size_t length = strcspn(at, ",");
            if (count == TORTURE_TARGETS_MAX || !read_target(at, length, kind->port, &ret_targets[count])) {
                *ret_reason = TOO_MANY;
                break;
            }
            count++;
            at += length;
        }
    }
    simba_url_free(parsed);
    return *ret_reason == NULL ? count : 0;
}

char *torture_rewrite(const char *url, const int *ports, unsigned count)
{
    const char *begin = strstr(url, "://");
    if (begin == NULL)
        return NULL;
    begin += 3;
    const char *end = begin + strcspn(begin, "/?#");
    for (const char *c = end; c > begin; c--)
        if (c[-1] == '@') {
            begin = c; /* behind the user and the password, which stay */
            break;
        }
    const size_t size = strlen(url) + (size_t)count * sizeof "127.0.0.1:65535," + 1;
    char *rewritten = malloc(size);
    if (rewritten == NULL)
        return NULL;
    size_t length = (size_t)snprintf(rewritten, size, "%.*s", (int)(begin - url), url);
    for (unsigned i = 0; i < count; i++)
        length += (size_t)snprintf(rewritten + length, size - length, "%s127.0.0.1:%d", i > 0 ? "," : "", ports[i]);
    snprintf(rewritten + length, size - length, "%s", end);
    return rewritten;
}
