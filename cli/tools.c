/* The commands that test stores and show scenarios are in a program of its own, simba-tools, for which `simba torture` and its like
 * stand. It is a package of its own. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int cmd_tools(cli_globals *globals, int argc, char **argv)
{
    static const char *const places[] = {"simba-tools", SIMBA_CLI_TOOLS_PLACE}; /* where it is built, and installed */
    char self[4096];
    char path[sizeof self + 256];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    (void)argc;
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        return cli_fail(argv[0], CLI_SYSTEM, "this program cannot be found in /proc; is /proc mounted?");
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", self, places[i]);
        execv(path, globals->arguments);
        if (errno != ENOENT)
            return cli_fail(argv[0], CLI_SYSTEM, "%s cannot be run: %s.", path, strerror(errno));
    }
    return cli_fail(argv[0], CLI_CONFIG, "there is no %s; on Debian it is in the package simba-tools.", path);
}
