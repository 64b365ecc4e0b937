/* See name.h. */
#include "util/name.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/mem.h"

struct name {
    _Atomic uint32_t users;
    char text[];
};

static struct name *of_text(const char *text)
{
    return (struct name *)((uintptr_t)text - offsetof(struct name, text));
}

const char *simba__name_make(const char *text)
{
    const size_t size = strlen(text) + 1;
    struct name *name = simba__malloc(sizeof *name + size);
    if (!name)
        return NULL;
    atomic_init(&name->users, 1);
    memcpy(name->text, text, size);
    return name->text;
}

const char *simba__name_unknown(void)
{
    static struct {
        _Atomic uint32_t users;
        char text[2];
    } unknown = {1, "?"};
    return simba__name_take(unknown.text);
}

const char *simba__name_take(const char *name)
{
    if (name)
        atomic_fetch_add_explicit(&of_text(name)->users, 1, memory_order_relaxed);
    return name;
}

void simba__name_drop(const char *name)
{
    if (name && atomic_fetch_sub(&of_text(name)->users, 1) == 1)
        simba__free(of_text(name));
}
