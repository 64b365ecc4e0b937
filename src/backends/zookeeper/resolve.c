/* Names of hosts, looked up by a worker: the library would do it in a turn, and as often as it likes. It gets addresses. */
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "net/resolve.h"
#include "util/mem.h"

struct zk_resolver {
    zk_store *store;
    simba__lookup *lookup; /* at work */
    size_t next;           /* host */
    char *servers;         /* found so far */
    size_t length, count;
    char cause[160];
};

static void append(zk_resolver *r, const struct sockaddr *address, socklen_t length, int port)
{
    char ip[64];
    if (getnameinfo(address, length, ip, sizeof ip, NULL, 0, NI_NUMERICHOST) != 0)
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

static void on_looked_up(simba__lookup *lookup);

static void look_up_next(zk_resolver *r)
{
    const zk_options *options = &r->store->options;
    for (; r->next < options->host_count && !r->store->closing; r->next++) {
        const simba__endpoint *host = &options->hosts[r->next];
        simba__address address;
        if (simba__address_parse(host->host, host->port, &address)) {
            append(r, (const struct sockaddr *)&address.at, address.length, host->port);
            continue;
        }
        r->lookup = simba__lookup_start(r->store->host, host->host, host->port, on_looked_up, r);
        if (r->lookup)
            return;
        snprintf(r->cause, sizeof r->cause, "%.60s: out of memory", host->host);
    }
    end(r);
}

static void on_looked_up(simba__lookup *lookup)
{
    zk_resolver *r = lookup->owner;
    r->lookup = NULL;
    const simba__endpoint *host = &r->store->options.hosts[r->next++];
    if (!lookup->found)
        snprintf(r->cause, sizeof r->cause, "%.60s: %s", host->host, lookup->why);
    for (const struct addrinfo *a = lookup->found; a; a = a->ai_next)
        append(r, a->ai_addr, a->ai_addrlen, host->port);
    look_up_next(r);
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

void simba__zk_resolve_give_up(zk_resolver *resolver)
{
    if (resolver->lookup)
        simba__lookup_give_up(resolver->lookup);
}
