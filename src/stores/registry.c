/* See registry.h. The list of our own stores comes from the build, which knows which of them are built in, which are
 * modules, and which were left out. */
#include "stores/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "module/module.h"
#include "stores/schemes.h"
#include "util/error.h"
#include "util/guess.h"
#include "util/sized.h"

#define BUILT(name) extern const simba_backend simba__backend_##name;
#define MODULE(name, packages)
#define LEFT_OUT(name, option)
#include "stores.inc"
#undef BUILT
#undef MODULE
#undef LEFT_OUT

typedef struct own_store {
    const char *name; /* of its folder */
    const char *const *schemes;
    const char *option; /* of the build, if it has left the store out */
    /* Loads a module; the packages bring what it needs. Called at most once with success. */
    int (*load)(const char *name, const char *packages, simba_error *err, const simba_backend **ret_backend);
    const char *packages;
    const simba_backend *backend; /* NULL: left out, or not loaded yet. Under the lock */
} own_store;

static own_store own[] = {
#define STORE(store)                                                                                                   \
    .name = #store, .schemes = (const char *const[])                                                                   \
    {                                                                                                                  \
        SIMBA__SCHEMES_##store, NULL                                                                                   \
    }
#define BUILT(name) {STORE(name), .backend = &simba__backend_##name},
#define MODULE(name, debian) {STORE(name), .load = simba__module_load, .packages = (debian)},
#define LEFT_OUT(name, build_option) {STORE(name), .option = #build_option},
#include "stores.inc"
#undef STORE
#undef BUILT
#undef MODULE
#undef LEFT_OUT
};

enum { OTHERS_MAX = 32 };
static simba_backend others[OTHERS_MAX]; /* copies: a table of an older header lacks members */
static size_t other_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool has_scheme(const char *const *schemes, const char *scheme)
{
    for (const char *const *s = schemes; *s; s++)
        if (strcmp(*s, scheme) == 0)
            return true;
    return false;
}

static own_store *find_own(const char *scheme)
{
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (has_scheme(own[i].schemes, scheme))
            return &own[i];
    return NULL;
}

static const simba_backend *find_other(const char *scheme)
{
    for (size_t i = 0; i < other_count; i++)
        if (has_scheme(others[i].schemes, scheme))
            return &others[i];
    return NULL;
}

static int unknown(const char *scheme, simba_error *err)
{
    char known[128] = "";
    size_t length = 0;
    simba__guess meant = {0};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        for (const char *const *name = own[i].schemes; *name; name++)
            simba__guess_offer(&meant, scheme, strlen(scheme), *name);
        if (!own[i].option && length < sizeof known)
            length +=
                (size_t)snprintf(known + length, sizeof known - length, "%s%s://", length ? ", " : "", own[i].name);
    }
    return simba__fail(err, SIMBA_EURL, "unknown scheme \"%.40s\" in the store URL%s%s%s; there is %s", scheme,
                       meant.name ? " (did you mean " : "", meant.name ? meant.name : "", meant.name ? "://?)" : "",
                       known);
}

/* Under the lock. */
static int find(const char *scheme, simba_error *err, const simba_backend **ret_backend)
{
    const simba_backend *other = find_other(scheme);
    own_store *store = find_own(scheme);
    int rc = 0;
    if (!other && !store)
        return unknown(scheme, err);
    if (!other && store->option)
        return simba__fail(err, SIMBA_ENOTBUILT,
                           "%s:// needs the %s store, which this simba was built without; take one that has it, or "
                           "build it with -D%s=ON",
                           scheme, store->name, store->option);
    if (!other && !store->backend)
        rc = store->load(store->name, store->packages, err, &store->backend);
    if (rc == 0)
        *ret_backend = other ? other : store->backend;
    return rc;
}

int simba__registry_find(const char *scheme, simba_error *err, const simba_backend **ret_backend)
{
    pthread_mutex_lock(&lock);
    const int rc = find(scheme, err, ret_backend);
    pthread_mutex_unlock(&lock);
    return rc;
}

const simba_backend *simba_backend_find(const char *scheme)
{
    const simba_backend *backend = NULL;
    if (scheme)
        (void)simba__registry_find(scheme, NULL, &backend);
    return backend;
}

static bool is_complete(const simba_backend *backend)
{
    return backend->schemes && backend->schemes[0] && backend->init && backend->submit && backend->expire &&
           backend->flush && backend->watch && backend->unwatch && backend->woken && backend->close && backend->fini;
}

int simba_backend_register(const simba_backend *backend)
{
    simba_backend table = {.size = sizeof table};
    if (simba__sized_take("simba_backend", backend, &table, NULL) < 0)
        return SIMBA_EINVAL;
    if (table.version != SIMBA_BACKEND_VERSION || !is_complete(&table))
        return SIMBA_EINVAL;
    pthread_mutex_lock(&lock);
    int rc = other_count < OTHERS_MAX ? 0 : SIMBA_ESTATE;
    for (const char *const *scheme = table.schemes; *scheme; scheme++) {
        const own_store *store = find_own(*scheme);
        if (find_other(*scheme) || (store && !store->option))
            rc = SIMBA_ESTATE;
    }
    if (rc == 0)
        others[other_count++] = table;
    pthread_mutex_unlock(&lock);
    return rc;
}
