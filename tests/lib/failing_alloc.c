/* See failing_alloc.h. */
#include "lib/failing_alloc.h"

#include <malloc.h>
#include <simba.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    atomic_uint calls;
    atomic_long live;
    atomic_uint first; /* the first of the calls that fail; 0: none fails */
    atomic_uint count;
} kinds[FAILING_KINDS];
static atomic_uint fired;

static bool may(failing_kind kind)
{
    const unsigned call = atomic_fetch_add(&kinds[kind].calls, 1) + 1;
    const unsigned first = atomic_load(&kinds[kind].first);
    if (first == 0 || call < first || call - first >= atomic_load(&kinds[kind].count))
        return true;
    atomic_fetch_add(&fired, 1);
    return false;
}

static void *counted(failing_kind kind, void *pointer)
{
    if (pointer)
        atomic_fetch_add(&kinds[kind].live, 1);
    return pointer;
}

static void *grown(failing_kind kind, void *old, size_t size)
{
    void *pointer = realloc(old, size);
    return old ? pointer : counted(kind, pointer);
}

static void release(failing_kind kind, void *pointer)
{
    if (pointer)
        atomic_fetch_sub(&kinds[kind].live, 1);
    free(pointer);
}

/* --- the library ---------------------------------------------------------------------------------- */

static void *simba_malloc(size_t size)
{
    return may(FAILING_SIMBA) ? counted(FAILING_SIMBA, malloc(size)) : NULL;
}

static void *simba_realloc(void *pointer, size_t size)
{
    return may(FAILING_SIMBA) ? grown(FAILING_SIMBA, pointer, size) : NULL;
}

static void simba_free(void *pointer)
{
    release(FAILING_SIMBA, pointer);
}

/* --- SQLite --------------------------------------------------------------------------------------- */

static void *sqlite_malloc(int size)
{
    return may(FAILING_SQLITE) ? counted(FAILING_SQLITE, malloc((size_t)size)) : NULL;
}

static void *sqlite_realloc(void *pointer, int size)
{
    return may(FAILING_SQLITE) ? grown(FAILING_SQLITE, pointer, (size_t)size) : NULL;
}

static void sqlite_free(void *pointer)
{
    release(FAILING_SQLITE, pointer);
}

static int sqlite_size(void *pointer)
{
    return pointer ? (int)malloc_usable_size(pointer) : 0;
}

static int sqlite_roundup(int size)
{
    return (size + 7) & ~7;
}

static int sqlite_init(void *user)
{
    return SQLITE_OK;
}

static void sqlite_shutdown(void *user)
{
}

/* --- the remote control --------------------------------------------------------------------------- */

void failing_install(void)
{
    static const sqlite3_mem_methods methods = {sqlite_malloc,  sqlite_free, sqlite_realloc,  sqlite_size,
                                                sqlite_roundup, sqlite_init, sqlite_shutdown, NULL};
    /* Turn off the cache of small blocks that each connection has, so that every allocation comes here. */
    if (simba_set_allocator(simba_malloc, simba_realloc, simba_free) != 0 ||
        sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK ||
        sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) != SQLITE_OK) {
        fputs("Bail out! the allocators cannot be replaced\n", stdout);
        exit(70);
    }
}

void failing_arm(failing_kind kind, unsigned nth, unsigned count)
{
    failing_disarm();
    for (int i = 0; i < FAILING_KINDS; i++)
        atomic_store(&kinds[i].calls, 0);
    atomic_store(&fired, 0);
    atomic_store(&kinds[kind].count, count);
    atomic_store(&kinds[kind].first, nth);
}

unsigned failing_disarm(void)
{
    for (int i = 0; i < FAILING_KINDS; i++)
        atomic_store(&kinds[i].first, 0);
    return atomic_load(&fired);
}

unsigned failing_calls(failing_kind kind)
{
    return atomic_load(&kinds[kind].calls);
}

long failing_live(failing_kind kind)
{
    return atomic_load(&kinds[kind].live);
}
