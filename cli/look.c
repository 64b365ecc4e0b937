/* See look.h. */
#include "look.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "clock.h"

/* Names lie together: a hundred thousand pieces of memory take longer to be freed than to be compared. */
enum { NAMES_ROOM = 65536 };
struct look_names {
    look_names *before;
    size_t used;
    char text[NAMES_ROOM];
};

typedef struct gathering {
    look *into;
    size_t room, most;
    bool sorted;
} gathering;

void *cli_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        cli_error(NULL, "out of memory.");
        exit(CLI_SYSTEM);
    }
    return memory;
}

static const char *keep(look *l, const void *text, size_t length)
{
    const size_t size = length + 1; /* the copy ends with a zero byte */
    assert(size <= NAMES_ROOM);
    if (l->names == NULL || NAMES_ROOM - l->names->used < size) {
        look_names *names = cli_alloc(sizeof *names);
        names->before = l->names;
        l->names = names;
    }
    char *kept = l->names->text + l->names->used;
    if (length > 0)
        memcpy(kept, text, length);
    l->names->used += size;
    return kept;
}

static void take(const simba_listing *listing, void *user)
{
    gathering *g = user;
    look *l = g->into;
    l->store_ms = listing->now_ms > l->store_ms ? listing->now_ms : l->store_ms;
    const size_t length = strlen(listing->mutex);
    if (l->count == g->most || length > SIMBA_MUTEX_BYTES || listing->note_length > SIMBA_NOTE_MAX) {
        l->truncated = true;
        return;
    }
    if (l->count == g->room) {
        g->room = g->room > 0 ? 2 * g->room : 64;
        look_row *rows = cli_alloc(g->room * sizeof *rows);
        if (l->count > 0)
            memcpy(rows, l->rows, l->count * sizeof *rows);
        free(l->rows);
        l->rows = rows;
    }
    if (l->count > 0 && strcmp(l->rows[l->count - 1].mutex, listing->mutex) >= 0)
        g->sorted = false;
    l->rows[l->count++] =
        (look_row){.mutex = keep(l, listing->mutex, length),
                   .owner = *listing->owner,
                   .waiters = listing->waiters,
                   .next = listing->next != NULL ? keep(l, listing->next, strlen(listing->next)) : NULL,
                   .note = keep(l, listing->note, listing->note_length),
                   .note_length = listing->note_length};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const look_row *)a)->mutex, ((const look_row *)b)->mutex);
}

look *look_at(simba_client *client, const char *pattern, size_t most)
{
    look *l = cli_alloc(sizeof *l);
    gathering g = {.into = l, .most = most, .sorted = true};
    simba_error error = {0, ""};
    l->wall_ms = clock_read_ms(CLOCK_REALTIME);
    l->mono_ms = clock_read_ms(CLOCK_MONOTONIC);
    l->code = simba_client_list(client, pattern, take, &g, &error);
    l->took_ms = clock_read_ms(CLOCK_MONOTONIC) - l->mono_ms;
    if (l->code < 0)
        snprintf(l->error, sizeof l->error, "%s", error.text[0] != '\0' ? error.text : simba_error_text(l->code));
    if (g.sorted)
        return l;
    /* A store may order as its collation does, and could name one twice. */
    size_t kept = 0;
    qsort(l->rows, l->count, sizeof *l->rows, by_name);
    for (size_t i = 0; i < l->count; i++) {
        if (kept == 0 || strcmp(l->rows[kept - 1].mutex, l->rows[i].mutex) != 0)
            l->rows[kept++] = l->rows[i];
    }
    l->count = kept;
    return l;
}

int look_failure(const char *command, const look *l)
{
    simba_error error = {.code = l->code};
    memcpy(error.text, l->error, sizeof error.text);
    return cli_failure(command, &error);
}

void look_free(look *l)
{
    if (l == NULL)
        return;
    while (l->names != NULL) {
        look_names *names = l->names;
        l->names = names->before;
        free(names);
    }
    free(l->rows);
    free(l);
}
