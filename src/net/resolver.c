/* See resolver.h. */
#include "net/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "util/mem.h"

bool simba__address_parse(const char *name, int port, simba__address *ret_address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&ret_address->at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&ret_address->at;
    memset(ret_address, 0, sizeof *ret_address);
    if (inet_pton(AF_INET, name, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        ret_address->length = sizeof *v4;
        return true;
    }
    if (inet_pton(AF_INET6, name, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        ret_address->length = sizeof *v6;
        return true;
    }
    return false;
}

/* A name server that is out of reach takes many seconds, and cannot be told when to stop. */
static bool look_up(simba_job *job, simba_local until)
{
    simba__lookup *lookup = (simba__lookup *)(void *)job;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (until.ns != INT64_MAX)
        return false;
    if (atomic_load(&lookup->given_up))
        return true;
    const int rc = getaddrinfo(lookup->name, lookup->port, &hints, &lookup->found);
    const int error = errno;
    if (rc != 0) {
        lookup->found = NULL;
        snprintf(lookup->why, sizeof lookup->why, "%s", rc == EAI_SYSTEM ? strerror(error) : gai_strerror(rc));
    }
    return true;
}

static void looked_up(simba_job *job)
{
    simba__lookup *lookup = (simba__lookup *)(void *)job;
    lookup->over(lookup);
    if (lookup->found)
        freeaddrinfo(lookup->found);
    simba__free(lookup);
}

simba__lookup *simba__lookup_start(simba_host *host, const char *name, int port, void (*over)(simba__lookup *lookup),
                                   void *owner)
{
    simba__lookup *lookup = simba__calloc(1, sizeof *lookup + strlen(name) + 1);
    if (!lookup)
        return NULL;
    lookup->job = (simba_job){.run = look_up, .done = looked_up};
    lookup->host = host;
    lookup->over = over;
    lookup->owner = owner;
    snprintf(lookup->port, sizeof lookup->port, "%d", port);
    strcpy(lookup->name, name);
    host->work(host, &lookup->job);
    return lookup;
}

void simba__lookup_give_up(simba__lookup *lookup)
{
    atomic_store(&lookup->given_up, true);
}

/* --- several hosts -------------------------------------------------------------------------------- */

static void add(simba__resolver *r, const char *address)
{
    if (r->count == SIMBA__TARGETS_MAX)
        return;
    simba__target *target = &r->targets[r->count++];
    target->host = &r->hosts[r->next];
    snprintf(target->address, sizeof target->address, "%s", address);
}

static void on_looked_up(simba__lookup *lookup);

static void look_up_next(simba__resolver *r)
{
    for (; r->next < r->host_count && !r->given_up; r->next++) {
        const simba__endpoint *host = &r->hosts[r->next];
        simba__address parsed;
        const bool is_address = simba__address_parse(host->host, host->port, &parsed);
        if (is_address || host->host[0] == '/') {
            add(r, is_address ? host->host : "");
            continue;
        }
        r->lookup = simba__lookup_start(r->host, host->host, host->port, on_looked_up, r);
        if (r->lookup)
            return;
        snprintf(r->cause, sizeof r->cause, "%.60s: out of memory", host->host);
    }
    r->at_work = false;
    r->resolved(r);
}

static void on_looked_up(simba__lookup *lookup)
{
    simba__resolver *r = lookup->owner;
    r->lookup = NULL;
    if (!lookup->found)
        snprintf(r->cause, sizeof r->cause, "%.60s: %s", r->hosts[r->next].host, lookup->why);
    for (const struct addrinfo *at = lookup->found; at; at = at->ai_next) {
        char address[64];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) == 0)
            add(r, address);
    }
    r->next++;
    look_up_next(r);
}

void simba__resolver_start(simba__resolver *r)
{
    if (r->at_work)
        return;
    r->at_work = true;
    r->count = r->next = 0;
    snprintf(r->cause, sizeof r->cause, "no answer in time");
    look_up_next(r);
}

void simba__resolver_give_up(simba__resolver *r)
{
    r->given_up = true;
    if (r->lookup)
        simba__lookup_give_up(r->lookup);
}
