#include "backends/zookeeper/resolve.h"

#include <stdio.h>
#include <string.h>

#include "util/mem.h"

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

static void on_looked_up(simba__lookup *lookup);

static void look_up_next(zk_resolver *r)
{
    for (; r->next < r->options->host_count && !r->given_up; r->next++) {
        const simba__endpoint *host = &r->options->hosts[r->next];
        simba__address address;
        if (simba__address_parse(host->host, host->port, &address)) {
            append(r, (const struct sockaddr *)&address.at, address.length, host->port);
            continue;
        }
        r->lookup = simba__lookup_start(r->host, host->host, host->port, on_looked_up, r);
        if (r->lookup)
            return;
        snprintf(r->cause, sizeof r->cause, "%.60s: out of memory", host->host);
    }
    char *servers = r->servers;
    r->at_work = false;
    r->resolved(r);
    simba__free(servers);
}

static void on_looked_up(simba__lookup *lookup)
{
    zk_resolver *r = lookup->owner;
    r->lookup = NULL;
    const simba__endpoint *host = &r->options->hosts[r->next++];
    if (!lookup->found)
        snprintf(r->cause, sizeof r->cause, "%.60s: %s", host->host, lookup->why);
    for (const struct addrinfo *a = lookup->found; a; a = a->ai_next)
        append(r, a->ai_addr, a->ai_addrlen, host->port);
    look_up_next(r);
}

void simba__zk_resolve(zk_resolver *r)
{
    if (r->at_work)
        return;
    r->at_work = true;
    r->servers = NULL;
    r->length = r->count = r->next = 0;
    snprintf(r->cause, sizeof r->cause, "out of memory");
    look_up_next(r);
}

void simba__zk_resolve_give_up(zk_resolver *r)
{
    r->given_up = true;
    if (r->lookup)
        simba__lookup_give_up(r->lookup);
}
