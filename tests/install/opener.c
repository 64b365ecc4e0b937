/* opener [--allocates OBJECT] URL…: open each store and close it again. Says what went wrong. Nothing has to run there: a store
 * behind a network is connected to later. --allocates: and something of this shared object's takes memory from the allocator
 * that this program has set. What belongs to the program stays as it is. */
#include <dlfcn.h>
#include <simba.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

static const char *expected;
static atomic_bool seen;

static void *take(size_t size)
{
    Dl_info from;
    if (expected && dladdr(__builtin_return_address(0), &from) && strstr(from.dli_fname, expected))
        seen = true;
    return malloc(size);
}

int main(int argc, char **argv)
{
    static char before[PICTURE_SIZE], during[PICTURE_SIZE], after[PICTURE_SIZE];
    int first = 1;
    int failed = 0;
    if (argc > 2 && strcmp(argv[1], "--allocates") == 0) {
        expected = argv[2];
        first = 3;
    }
    simba_set_allocator(take, realloc, free);
    for (int i = first; i < argc; i++) {
        simba_client *client = NULL;
        simba_error err = {0};
        picture_take(before);
        const int rc = simba_client_open(argv[i], NULL, &err, &client);
        if (rc < 0) {
            printf("%s: %s\n", simba_error_name(rc), err.text);
            failed = 1;
        }
        picture_take(during);
        simba_client_close(client);
        picture_take(after);
        if (!picture_same(before, during, argv[i]) || !picture_same(before, after, argv[i]))
            failed = 1;
    }
    if (expected && !seen) {
        printf("%s does not use the allocator\n", expected);
        failed = 1;
    }
    return failed;
}
