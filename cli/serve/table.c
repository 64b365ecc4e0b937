/* See table.h. */
#include "table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- schedules ------------------------------------------------------------------------------------------ */

runs *runs_take(runs *r, const void *note, size_t length)
{
    simba_schedule_info schedule = SIMBA_SCHEDULE_INFO_INIT;
    if (length == 0 || simba_schedule_read(note, length, NULL, &schedule) < 0) {
        free(r);
        return NULL;
    }
    if (r == NULL)
        r = cli_alloc(sizeof *r);
    r->schedule = schedule;
    const char *end = memchr(note, '\n', length);
    assert(end != NULL); /* the record is the first line of a note that has one */
    r->record_length = (size_t)(end - (const char *)note) + 1;
    if (schedule.begun_at_ms == 0)
        return r;
    const simba_schedule_info *known = r->count > 0 ? &r->last[r->count - 1] : NULL;
    if (known != NULL && known->due_at_ms == schedule.due_at_ms && known->begun_at_ms == schedule.begun_at_ms)
        r->count--; /* it is the same run, which has ended by now */
    if (r->count == RUNS_MAX)
        memmove(r->last, r->last + 1, --r->count * sizeof *r->last);
    r->last[r->count++] = schedule;
    return r;
}

const char *table_kind_name(table_kind kind)
{
#define TABLE_KIND_NAME(name, text) text,
    static const char *const names[] = {TABLE_KINDS(TABLE_KIND_NAME)};
    return names[kind];
}

/* --- history ------------------------------------------------------------------------------------- */

static void drop_change(table *t, table_change *change)
{
    table_row *row = change->row;
    if (change->revision > t->horizon)
        t->horizon = change->revision;
    TAILQ_REMOVE(&t->changes, change, in_all);
    t->change_count--;
    if (row != NULL) {
        TAILQ_REMOVE(&row->changes, change, in_row);
        row->change_count--;
    }
    free(change);
}

static table_change *add_change(table *t, table_row *row, table_kind kind, int64_t at_ms)
{
    /* A mutex that changes all the time drops its own past, not that of the others. */
    if (row != NULL && row->change_count == TABLE_CHANGES_PER_MUTEX)
        drop_change(t, TAILQ_FIRST(&row->changes));
    else if (t->change_count == TABLE_CHANGES_MAX)
        drop_change(t, TAILQ_FIRST(&t->changes));
    table_change *change = cli_alloc(sizeof *change);
    *change =
        (table_change){.row = row, .revision = ++t->revision, .kind = kind, .at_ms = at_ms, .held_ms = LEASE_UNKNOWN};
    TAILQ_INSERT_TAIL(&t->changes, change, in_all);
    t->change_count++;
    t->counts[kind]++;
    if (row != NULL) {
        TAILQ_INSERT_TAIL(&row->changes, change, in_row);
        row->change_count++;
    }
    assert(t->change_count <= TABLE_CHANGES_MAX);
    return change;
}

/* --- rows ------------------------------------------------------------------------------------------ */

static void free_row(table *t, table_row *row)
{
    assert(row->change_count == 0);
    if (row->revision > t->horizon)
        t->horizon = row->revision;
    TAILQ_REMOVE(&t->by_revision, row, in_all);
    free(row->next);
    free(row->note);
    free(row->runs);
    free(row);
}

static bool has_note(const table_row *row, const look_row *found)
{
    const size_t length = found != NULL ? found->note_length : 0;
    return length == row->note_length && (length == 0 || memcmp(row->note, found->note, length) == 0);
}

static bool has_waiters(const table_row *row, const look_row *found)
{
    const char *next = found != NULL ? found->next : NULL;
    return row->waiters == (found != NULL ? found->waiters : -1) && (next == NULL) == (row->next == NULL) &&
           (next == NULL || strcmp(next, row->next) == 0);
}

static bool same_grant(const simba_owner *a, const simba_owner *b)
{
    return a->token == b->token && strcmp(a->id, b->id) == 0;
}

/* --- comparing -------------------------------------------------------------------------------------- */

/* One look, and the one before it. */
typedef struct comparison {
    table *t;
    const look *now;
    int64_t last_wall_ms;
    bool is_first; /* there is nothing to compare with */
} comparison;

/* Converts a moment of the store's clock to this host's. Stored times may be anything, but a difference between two looks came
 * about between them. */
static int64_t to_wall_ms(const comparison *c, int64_t store_ms)
{
    int64_t ago_ms;
    if (__builtin_sub_overflow(c->now->store_ms, store_ms, &ago_ms) || ago_ms < 0)
        return c->now->wall_ms;
    return ago_ms < c->now->wall_ms - c->last_wall_ms ? c->now->wall_ms - ago_ms : c->last_wall_ms;
}

/* Had the lease of this owner run out at that moment of the store's? */
static bool had_ended(const simba_owner *owner, int64_t store_ms)
{
    return owner->transition_at_ms > 0 && owner->transition_at_ms <= store_ms;
}

static void note_change(const comparison *c, table_row *row, const simba_owner *after, bool is_owned)
{
    const simba_owner *before = &row->owner;
    table_kind kind;
    int64_t at_ms = c->now->wall_ms;
    if (is_owned) {
        const bool known = after->acquired_at_ms > 0;
        const int64_t since_ms = known ? after->acquired_at_ms : c->now->store_ms;
        at_ms = to_wall_ms(c, since_ms);
        kind = !row->is_owned ? TABLE_ACQUIRED : had_ended(before, since_ms) ? TABLE_FAILED_OVER : TABLE_HANDED_OVER;
    } else if (had_ended(before, c->now->store_ms)) {
        kind = TABLE_EXPIRED;
        at_ms = to_wall_ms(c, before->transition_at_ms);
    } else {
        kind = TABLE_RELEASED;
    }
    if (row->is_owned && before->token == c->now->forced_token && strcmp(row->mutex, c->now->forced) == 0)
        kind = TABLE_FORCED;
    table_change *change = add_change(c->t, row, kind, at_ms);
    change->before = *before;
    change->after = *after;
    /* How long the owner before had had the mutex at that moment. */
    const int64_t ago_ms = c->now->wall_ms - at_ms;
    int64_t held_ms;
    if (before->acquired_at_ms > 0 && !__builtin_sub_overflow(c->now->store_ms, before->acquired_at_ms, &held_ms))
        change->held_ms = held_ms > ago_ms ? held_ms - ago_ms : 0;
}

/* `found` NULL: the store does not have it any more. */
static void compare_row(const comparison *c, table_row *row, const look_row *found)
{
    static const simba_owner nobody;
    const bool is_owned = found != NULL && lease_look(&found->owner, c->now->store_ms).owned;
    const simba_owner *owner = is_owned ? &found->owner : &nobody;
    const bool changed_hands = is_owned != row->is_owned || !same_grant(owner, &row->owner);
    const bool was_renewed =
        owner->ttl_at_ms != row->owner.ttl_at_ms || owner->transition_at_ms != row->owner.transition_at_ms;
    const bool is_new = row->revision == 0 || row->is_present != (found != NULL);
    const bool has_new_note = !has_note(row, found);
    const bool has_new_waiters = !has_waiters(row, found);
    if (changed_hands && !c->is_first)
        note_change(c, row, owner, is_owned);
    row->is_present = found != NULL;
    row->is_owned = is_owned;
    row->owner = *owner;
    if (has_new_note) {
        free(row->note);
        row->note = NULL;
        row->note_length = found != NULL ? found->note_length : 0;
        if (row->note_length > 0) {
            row->note = cli_alloc(row->note_length + 1);
            memcpy(row->note, found->note, row->note_length);
        }
        row->runs = runs_take(row->runs, row->note, row->note_length);
    }
    if (has_new_waiters) {
        const char *next = found != NULL ? found->next : NULL;
        free(row->next);
        row->next = next != NULL ? strcpy(cli_alloc(strlen(next) + 1), next) : NULL;
        row->waiters = found != NULL ? found->waiters : -1;
    }
    if (changed_hands || was_renewed || is_new || has_new_note || has_new_waiters) {
        row->revision = ++c->t->revision;
        TAILQ_REMOVE(&c->t->by_revision, row, in_all);
        TAILQ_INSERT_TAIL(&c->t->by_revision, row, in_all);
    }
}

/* Both are ordered by name: walk them side by side. */
static void compare_all(const comparison *c)
{
    table *t = c->t;
    const look *l = c->now;
    table_row **rows = cli_alloc((t->row_count + l->count + 1) * sizeof *rows);
    size_t count = 0;
    size_t old = 0;
    size_t new = 0;
    t->present = t->owned = t->overdue = 0;
    t->waiters = -1;
    while (old < t->row_count || new < l->count) {
        const int order = old == t->row_count ? 1
                          : new == l->count   ? -1
                                              : strcmp(t->rows[old]->mutex, l->rows[new].mutex);
        if (order < 0 && !t->rows[old]->is_present && t->rows[old]->change_count == 0) {
            free_row(t, t->rows[old++]); /* the streams have had that since the look before */
            continue;
        }
        table_row *row = order > 0 ? NULL : t->rows[old];
        if (row == NULL) {
            const size_t size = strlen(l->rows[new].mutex) + 1;
            row = cli_alloc(sizeof *row + size);
            memcpy(row->mutex, l->rows[new].mutex, size);
            TAILQ_INIT(&row->changes);
            row->waiters = -1;
            TAILQ_INSERT_TAIL(&t->by_revision, row, in_all);
        }
        compare_row(c, row, order >= 0 ? &l->rows[new] : NULL);
        if (row->is_present) {
            t->present++;
            t->owned += row->is_owned;
            t->overdue += row->is_owned && row->owner.ttl_at_ms <= t->store_ms;
            if (row->waiters >= 0)
                t->waiters = (t->waiters > 0 ? t->waiters : 0) + row->waiters;
        }
        rows[count++] = row;
        old += order <= 0;
        new += order >= 0;
    }
    free((void *)t->rows);
    t->rows = rows;
    t->row_count = count;
}

/* --- the table ------------------------------------------------------------------------------------- */

void table_init(table *t)
{
    *t = (table){.waiters = -1};
    TAILQ_INIT(&t->by_revision);
    TAILQ_INIT(&t->changes);
}

void table_fini(table *t)
{
    for (table_change *change = TAILQ_FIRST(&t->changes), *next; change != NULL; change = next) {
        next = TAILQ_NEXT(change, in_all);
        drop_change(t, change);
    }
    for (size_t i = 0; i < t->row_count; i++)
        free_row(t, t->rows[i]);
    free((void *)t->rows);
}

void table_apply(table *t, const look *l)
{
    const bool answers = l->code == 0;
    memcpy(t->error, l->error, sizeof t->error);
    if (t->since_ms == 0 || answers != t->answers) {
        /* The first answer is no news; that there is none is. */
        if (t->since_ms != 0 || !answers)
            add_change(t, NULL, answers ? TABLE_STORE_BACK : TABLE_STORE_LOST, l->wall_ms);
        t->answers = answers;
        t->since_ms = l->wall_ms;
    }
    if (!answers)
        return;
    const comparison c = {.t = t, .now = l, .last_wall_ms = t->wall_ms, .is_first = !t->was_answered};
    if (c.is_first)
        t->watched_since_ms = l->wall_ms;
    t->was_answered = true;
    t->wall_ms = l->wall_ms;
    t->mono_ms = l->mono_ms;
    t->took_ms = l->took_ms;
    t->store_ms = l->store_ms;
    t->truncated = l->truncated;
    compare_all(&c);
}

size_t table_after(const table *t, const char *mutex)
{
    size_t low = 0;
    size_t high = t->row_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(t->rows[middle]->mutex, mutex) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

table_row *table_find(const table *t, const char *mutex)
{
    const size_t after = table_after(t, mutex);
    return after > 0 && strcmp(t->rows[after - 1]->mutex, mutex) == 0 ? t->rows[after - 1] : NULL;
}

/* New entries stand at the end, so these functions walk from there. */
table_row *table_row_since(const table *t, uint64_t revision)
{
    table_row *row = TAILQ_LAST(&t->by_revision, table_rows);
    table_row *found = NULL;
    for (; row != NULL && row->revision > revision; row = TAILQ_PREV(row, table_rows, in_all))
        found = row;
    return found;
}

table_change *table_change_since(const table *t, uint64_t revision)
{
    table_change *change = TAILQ_LAST(&t->changes, table_changes);
    table_change *found = NULL;
    for (; change != NULL && change->revision > revision; change = TAILQ_PREV(change, table_changes, in_all))
        found = change;
    return found;
}
