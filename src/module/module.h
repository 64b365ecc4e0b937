/* A store as a shared object of its own, loaded when a URL needs it; see docs/abi.md. It has copies of what it uses
 * of src/util, src/net and src/core, so only this interface lies between it and the library. */
#ifndef SIMBA_MODULE_MODULE_H
#define SIMBA_MODULE_MODULE_H

#include <simba/backend.h>

typedef struct simba__module {
    const char *version; /* of simba: the module is a part of the library, and must come from the same build */
    const simba_backend *backend;
    int (*set_allocator)(void *(*malloc_fn)(size_t), void *(*realloc_fn)(void *, size_t), void (*free_fn)(void *));
} simba__module;

#define SIMBA__MODULE_SYMBOL "simba__this_module"

/* Load the module of a store, which then stays. `packages` bring what it needs. SIMBA_ENOTBUILT names the missing
 * file or library. One thread at a time. */
int simba__module_load(const char *name, const char *packages, simba_error *err, const simba_backend **ret_backend);

#endif
