/* See machine.h. */
#include "sim/machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const machine *const machines[] = {
#if SIMBA_WITH_REDIS
    &machine_redis_waiters,
#endif
#if SIMBA_WITH_ZOOKEEPER
    &machine_zk_liveness,
    &machine_zk_latch,
#endif
    NULL,
};

const machine *machine_find(const char *name)
{
    for (unsigned i = 0; machines[i]; i++)
        if (strcmp(machines[i]->name, name) == 0)
            return machines[i];
    return NULL;
}

const char *machine_name(unsigned number)
{
    return number < sizeof machines / sizeof *machines && machines[number] ? machines[number]->name : NULL;
}

/* --- for machines --------------------------------------------------------------------------------------- */

void machine_broken(machine_head *head, const char *promise, const char *format, ...)
{
    va_list arguments;
    if (head->promise)
        return;
    head->promise = promise;
    va_start(arguments, format);
    vsnprintf(head->text, sizeof head->text, format, arguments);
    va_end(arguments);
    machine_tell(head, "%s is broken: %s", promise, head->text);
}

void machine_tell(machine_head *head, const char *format, ...)
{
    va_list arguments;
    if (!head->log)
        return;
    fprintf(head->log, "%9.3f s  ", (double)head->at_ms / 1000);
    va_start(arguments, format);
    vfprintf(head->log, format, arguments);
    va_end(arguments);
    fputc('\n', head->log);
}

/* --- bounds --------------------------------------------------------------------------------------------- */

static unsigned bound_count(const machine *which)
{
    unsigned count = 0;
    while (count < MACHINE_BOUNDS && which->bounds[count].name)
        count++;
    return count;
}

static unsigned find_bound(const machine *which, const char *name, size_t length)
{
    unsigned i = 0;
    while (i < bound_count(which) &&
           (strlen(which->bounds[i].name) != length || strncmp(which->bounds[i].name, name, length) != 0))
        i++;
    return i;
}

bool machine_parse(const machine *which, const char *text, unsigned ret_bounds[MACHINE_BOUNDS])
{
    for (unsigned i = 0; i < MACHINE_BOUNDS; i++)
        ret_bounds[i] = which->bounds[i].usual;
    while (*text) {
        const size_t length = strcspn(text, "=");
        const unsigned at = find_bound(which, text, length);
        char *end = NULL;
        const bool known = at < bound_count(which) && text[length];
        const unsigned long value = known ? strtoul(text + length + 1, &end, 10) : 0;
        if (!known || end == text + length + 1 || value > which->bounds[at].most || (*end != '\0' && *end != ','))
            return false;
        ret_bounds[at] = (unsigned)value;
        text = *end ? end + 1 : end;
    }
    return true;
}

/* --- the space ------------------------------------------------------------------------------------------ */

struct beginning {
    const machine *which;
    const unsigned *bounds;
};

/* Which machine a world belongs to is known by the search alone: there is one at a time. */
static const machine *explored;

static void begin(const void *user, void *w)
{
    const struct beginning *beginning = user;
    memset(w, 0, beginning->which->size);
    ((machine_head *)w)->bounds = beginning->bounds;
    beginning->which->begin(w);
}

static uint64_t hash(const void *w)
{
    return search_hash((const unsigned char *)w + sizeof(machine_head), explored->size - sizeof(machine_head));
}

static const char *broken(const void *w)
{
    return ((const machine_head *)w)->promise;
}

static void tell(void *w, FILE *log)
{
    ((machine_head *)w)->log = log;
}

bool machine_explore(const machine *which, const unsigned *bounds, unsigned jobs, uint64_t states_max, FILE *out,
                     search_verdict *ret_verdict)
{
    const struct beginning beginning = {which, bounds};
    const search_space space = {.size = which->size,
                                .user = &beginning,
                                .jobs = jobs,
                                .states_max = states_max,
                                .begin = begin,
                                .choices = which->choices,
                                .choose = which->choose,
                                .normalise = which->normalise,
                                .hash = hash,
                                .future = which->future,
                                .broken = broken,
                                .tell = tell};
    char *text = NULL;
    size_t size = 0;
    FILE *log = open_memstream(&text, &size);
    machine_head *w = calloc(1, which->size);
    if (!log || !w)
        abort();
    fprintf(out, "%s:", which->name);
    for (unsigned i = 0; i < bound_count(which); i++)
        fprintf(out, " %s %u", which->bounds[i].name, bounds[i]);
    fprintf(out, "\n");
    fflush(out);
    explored = which;
    search(&space, log, w, ret_verdict);
    fclose(log);
    fprintf(out, "%" PRIu64 " states, %" PRIu64 " choices, %u deep: %s\n", ret_verdict->states, ret_verdict->choices,
            ret_verdict->depth,
            ret_verdict->is_broken     ? "a promise was broken"
            : ret_verdict->is_complete ? "all promises were kept in all of them"
                                       : "there are more than fit, and all promises were kept in these");
    if (ret_verdict->is_broken)
        fprintf(out, "%s: %s\nthe shortest way there:\n%s", w->promise, w->text, text);
    free(text);
    free(w);
    return ret_verdict->is_complete;
}
