/* Names of hosts, looked up by libuv: the library would do it on the loop thread, and as often as it likes. It gets addresses. */
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/mem.h"

struct zk_resolver {
    uv_getaddrinfo_t lookup;
    zk_store *store;
    size_t next;   /* host */
    char *servers; /* found so far */
    size_t length, count;
    char cause[128];
};

static void append(zk_resolver *r, const struct sockaddr *address, int port)
{
    char ip[INET6_ADDRSTRLEN + 16];
    if (uv_ip_name(address, ip, sizeof ip) != 0)
        return;
    char *servers = simba__realloc(r->servers, r->length + strlen(ip) + 8);
    if (!servers)
        return;
    r->servers = servers;
    r->length += (size_t)sprintf(servers + r->length, "%s%s:%d", r->count ? "," : "", ip, port);
    r->count++;
}

static void end(zk_resolver *r)
{
    zk_store *self = r->store;
    self->session.resolver = NULL;
    self->pending--;
    simba__zk_session_resolved(self, r->count ? r->servers : NULL, r->count, r->cause);
    simba__free(r->servers);
    simba__free(r);
}

static void on_found(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found);

static void look_up_next(zk_resolver *r)
{
    const zk_options *options = &r->store->options;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
    while (r->next < options->host_count && !r->store->closing) {
        const simba__endpoint *host = &options->hosts[r->next];
        const int rc = uv_getaddrinfo(r->store->host->loop, &r->lookup, on_found, host->host, NULL, &hints);
        if (rc == 0)
            return;
        snprintf(r->cause, sizeof r->cause, "%.60s: %s", host->host, uv_strerror(rc));
        r->next++;
    }
    end(r);
}

static void on_found(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
    zk_resolver *r = (zk_resolver *)(void *)lookup;
    simba_host *host = r->store->host;
    host->enter(host);
    const simba__endpoint *looked_up = &r->store->options.hosts[r->next++];
    if (status < 0)
        snprintf(r->cause, sizeof r->cause, "%.60s: %s", looked_up->host, uv_strerror(status));
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        append(r, a->ai_addr, looked_up->port);
    uv_freeaddrinfo(found);
    look_up_next(r);
    host->leave(host);
}

bool simba__zk_resolve(zk_store *self)
{
    zk_resolver *r = simba__calloc(1, sizeof *r);
    if (!r)
        return false;
    r->store = self;
    snprintf(r->cause, sizeof r->cause, "out of memory");
    self->session.resolver = r;
    self->pending++;
    look_up_next(r);
    return true;
}
