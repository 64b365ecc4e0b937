/* See batch.h. */
#include "backends/sqlite/batch.h"

#include <string.h>

#include "util/assert.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/random.h"

#define OPEN_PATIENCE_NS (5000 * SIMBA__NS_PER_MS)
#define NOTIFY_CHECK_NS (1000 * SIMBA__NS_PER_MS)
#define CELLS_AGE_NS (1000 * SIMBA__NS_PER_MS)

/* --- the files ------------------------------------------------------------------------------------ */

bool simba__sqlite_batch_reserve(simba__sqlite_batch *batch, size_t count)
{
    if (count <= batch->capacity)
        return true;
    const size_t capacity = count > 2 * batch->capacity ? count : 2 * batch->capacity;
    void *items = simba__realloc(batch->items, capacity * sizeof *batch->items);
    if (!items)
        return false;
    batch->items = items;
    batch->capacity = capacity;
    return true;
}

simba__sqlite_batch_item *simba__sqlite_batch_add(simba__sqlite_batch *batch, const simba_request *request)
{
    SIMBA__ASSERT(batch->count < batch->capacity);
    simba__sqlite_batch_item *item = &batch->items[batch->count++];
    *item = (simba__sqlite_batch_item){.ask = *request};
    return item;
}

bool simba__sqlite_batch_expire(simba__sqlite_batch *batch, simba_request *request)
{
    simba__sqlite_batch_item *item = request->backend_data;
    pthread_mutex_lock(&batch->lock);
    const bool out = !batch->begun;
    if (out)
        item->request = NULL;
    pthread_mutex_unlock(&batch->lock);
    return out;
}

int simba__sqlite_batch_init(simba__sqlite_batch *batch, simba_host *host, const char *path, bool sync_full,
                             simba_error *err)
{
    batch->host = host;
    batch->seed = host->random(host);
    batch->host_offset_ns = simba__clock_host_offset_ns();
    pthread_mutex_init(&batch->lock, NULL);
    if (!simba__sqlite_batch_reserve(batch, 16))
        return simba__fail(err, SIMBA_ENOMEM, "sqlite: out of memory");
    int rc = simba__sqlite_db_init(&batch->db, host, path, sync_full, err);
    if (rc < 0)
        return rc;
    simba__sqlite_patience_set(&batch->db.patience, (simba_local){host->now(host).ns + OPEN_PATIENCE_NS});
    bool opened;
    rc = simba__sqlite_db_refresh(&batch->db, &opened, err);
    return rc < 0 ? rc : simba__sqlite_notify_open(simba__sqlite_db_real_path(&batch->db), err, &batch->notify);
}

void simba__sqlite_batch_fini(simba__sqlite_batch *batch)
{
    simba__sqlite_notify_close(batch->fresh);
    simba__sqlite_notify_close(batch->notify);
    simba__sqlite_db_fini(&batch->db);
    simba__free(batch->items);
}

int64_t simba__sqlite_batch_host_ns(const simba__sqlite_batch *batch)
{
    return batch->host->now(batch->host).ns + batch->host_offset_ns;
}

static void drop_results(simba__sqlite_batch_item *item)
{
    simba__free(item->effect.fault);
    simba__free(item->note);
    for (simba__sqlite_listing *found = item->found, *next; found; found = next) {
        next = found->next;
        simba__free(found);
    }
    item->effect = (simba__sqlite_effect){0};
    item->note = NULL;
    item->found = NULL;
}

void simba__sqlite_batch_answered(simba__sqlite_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        drop_results(&batch->items[i]);
    batch->count = 0;
    batch->opened = false;
    batch->begun = false;
}

/* Make sure that the open files are those at their paths. The database is checked every time, because a grant in a file
 * that nobody else sees is worth nothing; only a release belongs into the file that has the grant. The notify file is
 * checked now and then, since a wrong one costs at worst a late wake-up. */
static int refresh(simba__sqlite_batch *batch)
{
    const bool gives_back = batch->count > 0 && !batch->grants && simba__sqlite_db_is_sound(&batch->db);
    bool opened = false;
    const int rc = gives_back ? 0 : simba__sqlite_db_refresh(&batch->db, &opened, &batch->error);
    if (rc < 0)
        return rc;
    batch->opened |= opened;
    const int64_t now_ns = batch->host->now(batch->host).ns;
    batch->notify_stale |= opened;
    if (!batch->notify_stale && (now_ns - batch->notify_checked_ns >= NOTIFY_CHECK_NS || batch->count == 0)) {
        batch->notify_checked_ns = now_ns;
        batch->notify_stale = !simba__sqlite_notify_is_current(batch->notify);
    }
    if (!batch->notify_stale)
        return 0;
    batch->cells_read_ns = 0;
    simba__sqlite_notify_close(batch->fresh); /* of an earlier run of this batch */
    batch->fresh = NULL;
    const int code = simba__sqlite_notify_open(simba__sqlite_db_real_path(&batch->db), &batch->error, &batch->fresh);
    batch->notify_stale = code < 0;
    return code;
}

static simba__sqlite_notify *current_notify(const simba__sqlite_batch *batch)
{
    return batch->fresh ? batch->fresh : batch->notify;
}

/* --- requests ------------------------------------------------------------------------------------- */

typedef struct list_arg {
    simba__sqlite_listing **end;
    simba__row_now now;
} list_arg;

static int list_one(void *user, const char *mutex, const simba__row *row, const simba_stored_note *note,
                    const simba_error *fault)
{
    list_arg *arg = user;
    const char *text = row ? mutex : fault->text;
    const size_t text_size = strlen(text) + 1;
    simba__sqlite_listing *found = simba__calloc(1, sizeof *found + text_size + note->size);
    if (!found)
        return SIMBA_ENOMEM;
    memcpy(found->text, text, text_size);
    found->note = *note;
    if (note->size > 0)
        found->note.bytes = memcpy(found->text + text_size, note->bytes, note->size);
    if (row)
        simba__row_show(row, arg->now, &found->owner, &found->now_ms);
    else
        found->fault = found->text;
    *arg->end = found;
    arg->end = &found->next;
    return 0;
}

static int carry_out_list(simba__sqlite_batch *batch, simba__row_now now, simba__sqlite_batch_item *item,
                          simba_error *err)
{
    list_arg arg = {&item->found, now};
    const int rc = simba__sqlite_db_list(&batch->db, item->ask.mutex, list_one, &arg, err);
    return rc == SIMBA_ENOMEM ? simba__fail(err, rc, "sqlite: out of memory") : rc;
}

/* One request has failed: the transaction goes on without it. */
static int fail_row(simba__sqlite_batch *batch, const simba_request *request, const char *what, simba_error *err)
{
    batch->db.row_failed = true;
    return simba__fail(err, request->reply.status, "sqlite: %s: %s", batch->db.path, what);
}

/* True if others have to hear of it; they do not have to hear of a renewal. */
static bool is_handover(const simba_request *request, uint64_t token_before, const simba__row *row)
{
    return request->op == SIMBA_OP_RELEASE || request->op == SIMBA_OP_FORCE_RELEASE ||
           request->op == SIMBA_OP_WRITE_NOTE || request->op == SIMBA_OP_FORGET || row->token != token_before;
}

/* A request about the note, or a look for watchers, has to know which note there is. */
static bool concerns_note(const simba__sqlite_batch_item *item)
{
    const simba_op op = item->ask.op;
    return op == SIMBA_OP_WRITE_NOTE || op == SIMBA_OP_READ_NOTE || op == SIMBA_OP_FORGET || item->probe;
}

/* Read the row of a mutex. A mutex that was forgotten goes on with greater tokens, and with versions that nobody has
 * seen. */
static int load(simba__sqlite_batch *batch, const simba__sqlite_batch_item *item, simba__row *row, bool *ret_exists,
                simba_error *err)
{
    int rc = simba__sqlite_db_load(&batch->db, item->ask.mutex, row, ret_exists, err);
    if (rc == 0 && concerns_note(item))
        rc = simba__sqlite_note_identify(&batch->db, item->ask.mutex, row, err);
    if (rc < 0 || *ret_exists || item->ask.op != SIMBA_OP_ACQUIRE)
        return rc;
    rc = simba__sqlite_note_floor(&batch->db, &row->token, err);
    row->version = row->token;
    return rc;
}

static int store(simba__sqlite_batch *batch, const simba_request *request, const simba__row *row, bool exists,
                 simba_error *err)
{
    switch (request->op) {
    case SIMBA_OP_WRITE_NOTE:
        return simba__sqlite_note_store(&batch->db, request, row, err);
    case SIMBA_OP_FORGET:
        return simba__sqlite_note_forget(&batch->db, request->mutex, row->token, err);
    default:
        return simba__sqlite_db_store(&batch->db, request->mutex, row, exists, err);
    }
}

static int carry_out(simba__sqlite_batch *batch, simba__row_now now, simba__sqlite_batch_item *item, simba_error *err)
{
    simba_request *request = &item->ask;
    simba__sqlite_effect *effect = &item->effect;
    if (request->op == SIMBA_OP_LIST)
        return carry_out_list(batch, now, item, err);
    simba__row row;
    bool exists;
    int rc = load(batch, item, &row, &exists, err);
    if (rc == 0 && request->op == SIMBA_OP_READ_NOTE)
        rc = simba__sqlite_note_load(&batch->db, request->mutex, &item->note, err);
    if (rc < 0)
        return rc;
    const uint64_t token_before = row.token;
    effect->before = row.version;
    if (simba__row_apply(&row, now, request)) {
        rc = store(batch, request, &row, exists, err);
        if (is_handover(request, token_before, &row))
            effect->marked =
                simba__sqlite_notify_value(effect->hash, row.owner.id[0] == '\0', simba__random_next(&batch->seed));
    }
    effect->after = row.version;
    effect->concerns_note = concerns_note(item);
    effect->note_token = request->op == SIMBA_OP_FORGET && request->reply.outcome == SIMBA_MINE ? 0 : row.note_token;
    effect->note_number = row.note_number;
    if (rc == 0 && request->reply.status < 0)
        rc = fail_row(batch, request, "no greater token is left for it", err);
    return rc;
}

/* A client that watches something needs the values of this moment, see news.h. For a grant any value will do that the slot had
 * before: the holder only looks whether somebody has marked the slot since (held.h), and an older value at worst makes it ask
 * once in vain. */
static void read_slots(simba__sqlite_batch *batch, int64_t now_ns)
{
    const simba__sqlite_notify *notify = current_notify(batch);
    if (!batch->watches && (batch->cells_read_ns == 0 || now_ns - batch->cells_read_ns >= CELLS_AGE_NS)) {
        simba__sqlite_notify_read_all(notify, &batch->cells);
        batch->cells_read_ns = now_ns;
    }
    for (size_t i = 0; i < batch->count; i++) {
        simba__sqlite_batch_item *item = &batch->items[i];
        if (item->effect.code < 0 || item->ask.op == SIMBA_OP_LIST)
            continue;
        item->effect.hash = simba__sqlite_notify_hash(item->ask.mutex);
        const size_t slot = simba__sqlite_notify_slot(item->effect.hash);
        item->effect.seen = batch->watches ? simba__sqlite_notify_read(notify, slot) : batch->cells.slots[slot];
    }
}

static int carry_out_all(simba__sqlite_batch *batch)
{
    /* Read the slots and the clock while holding the write lock: news.h says why for the slots; and a lease may have
     * ended while we waited for the lock. */
    const simba__row_now now = {.ns = simba__sqlite_batch_host_ns(batch),
                                .epoch_us = batch->host->epoch_us(batch->host)};
    read_slots(batch, now.ns);
    for (size_t i = 0; i < batch->count; i++) {
        simba__sqlite_effect *effect = &batch->items[i].effect;
        simba_error error;
        if (effect->code < 0)
            continue; /* it was taken out */
        effect->code = carry_out(batch, now, &batch->items[i], &error);
        if (effect->code < 0 && !batch->db.row_failed) {
            batch->error = error;
            return effect->code;
        }
        if (effect->code < 0)
            effect->fault = simba__strdup(error.text);
    }
    return 0;
}

static void mark_slots(simba__sqlite_batch *batch, simba__sqlite_notify *notify)
{
    const simba__sqlite_notify_marking marking = simba__sqlite_notify_begin(notify);
    for (size_t i = 0; i < batch->count; i++) {
        simba__sqlite_effect *effect = &batch->items[i].effect;
        if (effect->code == 0 && effect->marked)
            effect->replaced =
                simba__sqlite_notify_mark(&marking, simba__sqlite_notify_slot(effect->hash), effect->marked);
    }
    simba__sqlite_notify_end(&marking, simba__random_next(&batch->seed));
}

static void ring_bells(simba__sqlite_batch *batch, const simba__sqlite_notify *notify, bool revokes)
{
    simba__sqlite_ringing *ringing = &batch->ringing;
    simba__sqlite_ringing_begin(ringing, notify, simba__sqlite_batch_host_ns(batch));
    for (size_t i = 0; i < batch->count; i++) {
        simba__sqlite_effect *effect = &batch->items[i].effect;
        if (effect->code == 0 && effect->marked)
            effect->invited = simba__sqlite_ringing_tell(
                ringing, effect->hash, simba__sqlite_notify_says_released(effect->marked, effect->hash));
    }
    if (revokes)
        simba__sqlite_ringing_tell_revoked(ringing);
    simba__sqlite_ringing_end(ringing);
    batch->in_reserve = ringing->in_reserve;
}

/* Never before the commit: whoever is woken has to find the change. */
static void notify_others(simba__sqlite_batch *batch)
{
    simba__sqlite_notify *notify = current_notify(batch);
    bool changes = false;
    bool revokes = false;
    for (size_t i = 0; i < batch->count; i++) {
        simba__sqlite_effect *effect = &batch->items[i].effect;
        if (effect->code < 0 || !effect->marked)
            continue;
        effect->replaced = SIMBA__SQLITE_NOTIFY_UNSURE; /* until it is marked */
        changes = true;
        revokes |= batch->items[i].ask.op == SIMBA_OP_FORCE_RELEASE;
    }
    if (!changes || (!revokes && !simba__sqlite_notify_is_heard(notify)))
        return;
    mark_slots(batch, notify);
    if (revokes)
        simba__sqlite_notify_revoke(notify, simba__random_next(&batch->seed));
    ring_bells(batch, notify, revokes);
}

/* From here on no request can be taken out any more. Those that have been are not carried out, and their strings may be gone. */
static void begin_items(simba__sqlite_batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    batch->begun = true;
    pthread_mutex_unlock(&batch->lock);
    for (size_t i = 0; i < batch->count; i++) {
        simba__sqlite_batch_item *item = &batch->items[i];
        drop_results(item); /* of an earlier run */
        if (!item->request && !item->probe)
            item->effect.code = SIMBA_ECANCELED;
    }
}

void simba__sqlite_batch_run(simba__sqlite_batch *batch)
{
    batch->in_reserve = false;
    int rc = refresh(batch);
    if (rc == 0 && batch->count > 0) {
        rc = simba__sqlite_db_begin(&batch->db, batch->writes, &batch->error);
        if (rc == 0) {
            begin_items(batch);
            rc = carry_out_all(batch);
        }
        if (rc == 0)
            rc = simba__sqlite_db_commit(&batch->db, &batch->error);
        if (rc == 0)
            notify_others(batch);
        else
            simba__sqlite_db_rollback(&batch->db);
    }
    batch->error.code = rc;
}
