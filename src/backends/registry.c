/* See registry.h. The list of our own stores comes from the build, which knows which of them it was told to leave out. */
#include "backends/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/schemes.h"
#include "util/error.h"
#include "util/guess.h"
#include "util/sized.h"

#define BUILT(name) extern const simba_backend simba__backend_##name;
#define LEFT_OUT(name, option)
#include "stores.inc"
#undef BUILT
#undef LEFT_OUT

static const struct {
    const char *name;   /* of its folder */
    const char *option; /* of the build, which has left it out */
    const char *const *schemes;
    const simba_backend *backend;
} own[] = {
#define BUILT(name) {#name, NULL, (const char *const[]){SIMBA__SCHEMES_##name, NULL}, &simba__backend_##name},
#define LEFT_OUT(name, option) {#name, #option, (const char *const[]){SIMBA__SCHEMES_##name, NULL}, NULL},
#include "stores.inc"
#undef BUILT
#undef LEFT_OUT
};

enum { OTHERS_MAX = 32 };
static simba_backend others[OTHERS_MAX]; /* copies: a table of an older header lacks something */
static size_t other_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool has_scheme(const char *const *schemes, const char *scheme)
{
    for (const char *const *s = schemes; *s; s++)
        if (strcmp(*s, scheme) == 0)
            return true;
    return false;
}

static const simba_backend *find_other(const char *scheme)
{
    for (size_t i = 0; i < other_count; i++)
        if (has_scheme(others[i].schemes, scheme))
            return &others[i];
    return NULL;
}

const simba_backend *simba_backend_find(const char *scheme)
{
    if (!scheme)
        return NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].backend && has_scheme(own[i].schemes, scheme))
            return own[i].backend;
    pthread_mutex_lock(&lock);
    const simba_backend *backend = find_other(scheme);
    pthread_mutex_unlock(&lock);
    return backend;
}

int simba__registry_find(const char *scheme, simba_error *err, const simba_backend **ret_backend)
{
    const simba_backend *backend = simba_backend_find(scheme);
    if (backend) {
        *ret_backend = backend;
        return 0;
    }
    char known[128] = "";
    size_t length = 0;
    simba__guess meant = {0};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        for (const char *const *name = own[i].schemes; *name; name++)
            simba__guess_offer(&meant, scheme, strlen(scheme), *name);
        if (!own[i].backend && has_scheme(own[i].schemes, scheme))
            return simba__fail(err, SIMBA_ENOTBUILT,
                               "%s:// needs the %s store, which this simba was built without; take one that has it, or "
                               "build it with -D%s=ON",
                               scheme, own[i].name, own[i].option);
        if (own[i].backend && length < sizeof known)
            length +=
                (size_t)snprintf(known + length, sizeof known - length, "%s%s://", length ? ", " : "", own[i].name);
    }
    return simba__fail(err, SIMBA_EURL, "unknown scheme \"%.40s\" in the store URL%s%s%s; there is %s", scheme,
                       meant.name ? " (did you mean " : "", meant.name ? meant.name : "", meant.name ? "://?)" : "",
                       known);
}

static bool is_complete(const simba_backend *backend)
{
    return backend->schemes && backend->schemes[0] && backend->init && backend->submit && backend->flush &&
           backend->watch && backend->unwatch && backend->woken && backend->close && backend->fini;
}

int simba_backend_register(const simba_backend *backend)
{
    simba_backend table = {.size = sizeof table};
    if (simba__sized_take("simba_backend", backend, &table, NULL) < 0)
        return SIMBA_EINVAL;
    if (table.version != SIMBA_BACKEND_VERSION || !is_complete(&table))
        return SIMBA_EINVAL;
    for (const char *const *scheme = table.schemes; *scheme; scheme++)
        if (simba_backend_find(*scheme))
            return SIMBA_ESTATE;
    pthread_mutex_lock(&lock);
    const int rc = other_count < OTHERS_MAX ? 0 : SIMBA_ESTATE;
    if (rc == 0)
        others[other_count++] = table;
    pthread_mutex_unlock(&lock);
    return rc;
}
