/* See lossy.h. */
#include "lib/lossy.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char prefix[] = "lossy-";

enum { STORES_MAX = 4, CLIENTS_MAX = 64 };

static struct store {
    char scheme[32];
    const char *schemes[2];
    simba_backend table;
} stores[STORES_MAX];
static size_t store_count;

/* A function of a host gets only the host, so it finds its data by the host's address. */
static struct entry {
    const simba_host *host; /* NULL: not in use */
    const void *self;
    const lossy_filter *filter;
    const simba_backend *inner;
    void (*push)(simba_host *host, simba_watch *watch, const simba_push *push);
} entries[CLIENTS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local const lossy_filter *current;

void lossy_use(const lossy_filter *filter)
{
    current = filter;
}

/* Find an entry by its host or by its instance. */
static struct entry find(const simba_host *host, const void *self)
{
    struct entry found = {0};
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        if (entries[i].host && (entries[i].host == host || entries[i].self == self))
            found = entries[i];
    pthread_mutex_unlock(&lock);
    assert(found.host);
    return found;
}

/* Put `by` in the place of the entry of `host`; NULL: in a free place. */
static void replace(const simba_host *host, struct entry by)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < CLIENTS_MAX && entries[i].host != host)
        i++;
    assert(i < CLIENTS_MAX);
    entries[i] = by;
    pthread_mutex_unlock(&lock);
}

static void push(simba_host *host, simba_watch *watch, const simba_push *news)
{
    const struct entry entry = find(host, NULL);
    if (entry.filter->push(entry.filter->user, news))
        entry.push(host, watch, news);
}

static int init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    assert(current);
    const struct entry entry = {
        .host = host,
        .self = self,
        .filter = current,
        .inner = simba_backend_find(simba_url_scheme(url) + strlen(prefix)),
        .push = host->push,
    };
    replace(NULL, entry);
    host->push = push;
    return entry.inner->init(self, host, url, err);
}

static void fini(void *self)
{
    const struct entry entry = find(NULL, self);
    entry.inner->fini(self);
    replace(entry.host, (struct entry){0});
}

void lossy_register(const char *scheme)
{
    assert(store_count < STORES_MAX);
    struct store *store = &stores[store_count++];
    snprintf(store->scheme, sizeof store->scheme, "%s%s", prefix, scheme);
    store->schemes[0] = store->scheme;
    store->table = *simba_backend_find(scheme);
    store->table.schemes = store->schemes;
    store->table.init = init;
    store->table.fini = fini;
    const int rc = simba_backend_register(&store->table);
    assert(rc == 0);
    (void)rc;
}
