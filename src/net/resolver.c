/* See resolver.h. */
#include "net/resolver.h"

#include <stdio.h>

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
