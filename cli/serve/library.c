/* See library.h. */
#include "library.h"

#include <dlfcn.h>

#include "cli.h"
#include "options.h"

http_library lib;

static bool find(void *handle, const char *name, void *ret_function)
{
    void *symbol = dlsym(handle, name);
    *(void **)ret_function = symbol;
    return symbol != NULL;
}

int library_load(void)
{
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    bool all = handle != NULL;
#define LIBRARY_FIND(name) all = all && find(handle, #name, &lib.name);
    LIBRARY_FUNCTIONS(LIBRARY_FIND)
#undef LIBRARY_FIND
    if (all)
        return CLI_GO;
    return cli_fail(SERVE_COMMAND, CLI_CONFIG,
                    "libmicrohttpd is not installed (%s); on Debian it is the package libmicrohttpd12.", dlerror());
}
