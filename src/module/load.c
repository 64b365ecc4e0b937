/* See module.h. The build sets SIMBA__MODULE_FOLDER to the name of the folder of the modules, beside the library. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "module/module.h"
#include "util/error.h"
#include "util/mem.h"

/* The folders in which to look, separated by colons. A program with more rights than its user ignores the
 * environment. */
static const char *folders(char *beside, size_t size)
{
    const char *given = secure_getenv("SIMBA_MODULE_PATH");
    if (given && given[0])
        return given;
    Dl_info library;
    if (!dladdr((void *)folders, &library) || !library.dli_fname)
        return "";
    const char *slash = strrchr(library.dli_fname, '/');
    const int length = slash ? (int)(slash - library.dli_fname) : 1;
    snprintf(beside, size, "%.*s/" SIMBA__MODULE_FOLDER, length, slash ? library.dli_fname : ".");
    return beside;
}

/* The first folder that has the module. */
static bool locate(const char *name, char *path, size_t size)
{
    char beside[4096];
    for (const char *folder = folders(beside, sizeof beside); *folder;) {
        const char *end = strchrnul(folder, ':');
        const int length = snprintf(path, size, "%.*s/%s.so", (int)(end - folder), folder, name);
        if (end > folder && (size_t)length < size && access(path, F_OK) == 0)
            return true;
        folder = *end ? end + 1 : end;
    }
    return false;
}

static int check(const simba__module *module, const char *path, simba_error *err)
{
    if (!module)
        return simba__fail(err, SIMBA_ENOTBUILT, "%.160s is no module of simba", path);
    if (strcmp(module->version, simba_version()) != 0)
        return simba__fail(err, SIMBA_ENOTBUILT,
                           "%.160s is of simba %.20s, and this is simba %s: install them together", path,
                           module->version, simba_version());
    if (module->backend->size != sizeof(simba_backend) || module->backend->version != SIMBA_BACKEND_VERSION)
        return simba__fail(err, SIMBA_ENOTBUILT, "%.160s is of another build of simba %s: install them together", path,
                           simba_version());
    return 0;
}

int simba__module_load(const char *name, const char *packages, simba_error *err, const simba_backend **ret_backend)
{
    char path[4200];
    if (!locate(name, path, sizeof path))
        return simba__fail(err, SIMBA_ENOTBUILT,
                           "the %s store is a module of its own, %s.so, which is not installed: install simba's Debian "
                           "package simba-%s, or put it into the folder " SIMBA__MODULE_FOLDER
                           " beside libsimba.so, or into one that SIMBA_MODULE_PATH names",
                           name, name, name);
    /* It stays loaded for ever: its thread destructors and fork handlers must stay callable. */
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return simba__fail(err, SIMBA_ENOTBUILT,
                           "the %s store needs Debian's %s, or what your system calls them: %.120s", name, packages,
                           dlerror());
    const simba__module *module = dlsym(object, SIMBA__MODULE_SYMBOL);
    const int rc = check(module, path, err);
    if (rc < 0)
        return rc;
    simba__mem_share(module->set_allocator);
    *ret_backend = module->backend;
    return 0;
}
