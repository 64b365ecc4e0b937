/* The smallest program that uses an installed simba: the library that is loaded is the one of the header, and a store
 * opens and closes. */
#include <simba.h>
#include <stdio.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

int main(void)
{
    const char *expected = TEXT(SIMBA_VERSION_MAJOR) "." TEXT(SIMBA_VERSION_MINOR) "." TEXT(SIMBA_VERSION_PATCH);
    simba_client *client = NULL;
    simba_error err;
    if (strcmp(simba_version(), expected) != 0) {
        fprintf(stderr, "header %s, library %s\n", expected, simba_version());
        return 1;
    }
    if (simba_client_open("memory://x", NULL, &err, &client) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return simba_client_close(client) == 0 ? 0 : 1;
}
