/* The symbol that a module exports. The build sets SIMBA__MODULE_STORE to the name of the store. */
#include "module/module.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define BACKEND_(store) simba__backend_##store
#define BACKEND(store) BACKEND_(store)

extern const simba_backend BACKEND(SIMBA__MODULE_STORE);
extern SIMBA_API const simba__module simba__this_module;

const simba__module simba__this_module = {
    .version = TEXT(SIMBA_VERSION_MAJOR) "." TEXT(SIMBA_VERSION_MINOR) "." TEXT(SIMBA_VERSION_PATCH),
    .backend = &BACKEND(SIMBA__MODULE_STORE),
    .set_allocator = simba_set_allocator,
};
