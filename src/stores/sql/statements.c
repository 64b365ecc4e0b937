/* The text of what a server is asked. What comes from outside is a quoted value, never a part of a statement. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/sql/sql.h"
#include "util/digits.h"

#define COLUMNS                                                                                                        \
    "mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, revoked_version, "            \
    "note_token, "                                                                                                     \
    "note_number, forgotten_version"

static void put(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, text, strlen(text));
}

static void put_number(simba__buffer *out, const simba__sql_words *words, uint64_t number)
{
    char digits[SIMBA__DIGITS_SIZE];
    const bool is_negative = words->is_signed && (int64_t)number < 0;
    if (is_negative)
        put(out, "-");
    simba__buffer_put(out, digits, simba__digits(digits, is_negative ? 0 - number : number, 1));
}

static void put_names(simba__buffer *out, const simba__sql_words *words, const char *const *names, size_t count)
{
    put(out, " where mutex in (");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            put(out, ", ");
        words->put_text(out, names[i]);
    }
    put(out, ")");
}

static void put_lock(simba__buffer *out, const simba__sql_words *words, const simba__sql_ask *ask)
{
    put(out, words->begin);
    put(out, "; select " COLUMNS " from ");
    put(out, words->table);
    put_names(out, words, ask->names, ask->count);
    put(out, " order by mutex for update skip locked; ");
    if (ask->waited_count > 0) {
        put(out, "select mutex, nonce, channel, since, until, invited from ");
        put(out, words->waiters);
        put_names(out, words, ask->waited, ask->waited_count);
        put(out, "; ");
    }
    put(out, words->last);
}

static void put_read(simba__buffer *out, const simba__sql_words *words, const simba__sql_ask *ask)
{
    const bool has_note = ask->kind == SIMBA__SQL_READ_NOTE || ask->kind == SIMBA__SQL_LIST;
    put(out, "select " COLUMNS ", ");
    put(out, words->now);
    put(out, has_note ? words->note : "");
    put(out, " from ");
    put(out, words->table);
    if (ask->kind == SIMBA__SQL_LIST)
        put(out, " order by mutex");
    else
        put_names(out, words, ask->names, ask->count);
}

static void put_make(simba__buffer *out, const simba__sql_words *words, const simba__sql_ask *ask)
{
    put(out, words->write);
    put(out, "rollback; insert into ");
    put(out, words->table);
    put(out, " (mutex, acquired_at, ttl_at, transition_at, owner_id, version) values ");
    for (size_t i = 0; i < ask->count; i++) {
        put(out, i > 0 ? ", (" : "(");
        words->put_text(out, ask->names[i]);
        put(out, ", 0, 0, 0, '', 0)");
    }
    put(out, words->keep);
}

/* --- packet 2 -------------------------------------------------------------------------------------------------- */

/* After "insert into …": rows that exist get these columns. */
static void put_upsert(simba__buffer *out, const simba__sql_words *words, const char *key, const char *const *columns)
{
    char conflict[64];
    snprintf(conflict, sizeof conflict, words->on_conflict, key); // NOLINT(clang-diagnostic-format-nonliteral)
    put(out, conflict);
    for (size_t i = 0; columns[i]; i++) {
        put(out, i > 0 ? ", " : "");
        put(out, columns[i]);
        put(out, " = ");
        put(out, words->new_begin);
        put(out, columns[i]);
        put(out, words->new_end);
    }
    put(out, "; ");
}

static void put_rows(simba__buffer *out, const simba__sql_words *words, const simba__sql_batch *batch)
{
    static const char *const columns[] = {"acquired_at", "ttl_at",        "transition_at",   "owner_id", "version",
                                          "nonce",       "nonce_version", "revoked_version", NULL};
    size_t count = 0;
    for (size_t i = 0; i < batch->row_count; i++) {
        const simba__sql_row *row = &batch->rows[i];
        const simba_owner *owner = &row->row.owner;
        const uint64_t numbers[2][3] = {
            {(uint64_t)owner->acquired_at_ms, (uint64_t)owner->ttl_at_ms, (uint64_t)owner->transition_at_ms},
            {row->row.nonce, row->nonce_version, row->row.revoked_token}};
        if (!row->is_put || row->presence != SIMBA__SQL_LOCKED)
            continue;
        if (count++ == 0) {
            put(out, "insert into ");
            put(out, words->table);
            put(out, " (mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, "
                     "revoked_version) values (");
        } else {
            put(out, ", (");
        }
        words->put_text(out, row->mutex);
        for (size_t n = 0; n < 3; n++) {
            put(out, ", ");
            put_number(out, words, numbers[0][n]);
        }
        put(out, ", ");
        words->put_text(out, owner->id);
        put(out, ", ");
        put_number(out, words, row->version);
        for (size_t n = 0; n < 3; n++) {
            put(out, ", ");
            put_number(out, words, numbers[1][n]);
        }
        put(out, ")");
    }
    if (count > 0)
        put_upsert(out, words, "mutex", columns);
}

/* The note was removed with everything else; and then, perhaps, written. */
static void put_notes(simba__buffer *out, const simba__sql_words *words, const simba__sql_row *row)
{
    if (row->is_forgotten_now) {
        put(out, "update ");
        put(out, words->table);
        put(out,
            " set note = null, note_token = null, note_number = null, note_written_at = null, forgotten_version = ");
        put_number(out, words, row->forgotten_version);
        put_names(out, words, &row->mutex, 1);
        put(out, "; ");
    }
    if (row->note) {
        put(out, "update ");
        put(out, words->table);
        put(out, " set note = ");
        if (row->note->note_size > 0)
            words->put_bytes(out, row->note->note, row->note->note_size);
        else
            put(out, "null");
        put(out, ", note_token = ");
        put_number(out, words, row->row.note_token);
        put(out, ", note_number = ");
        put_number(out, words, row->row.note_number);
        put(out, ", note_written_at = ");
        put_number(out, words, (uint64_t)row->row.note_written_at_ms);
        put_names(out, words, &row->mutex, 1);
        put(out, "; ");
    }
}

static void put_waiters(simba__buffer *out, const simba__sql_words *words, const simba__sql_batch *batch)
{
    static const char *const columns[] = {"channel", "until", "invited", NULL};
    size_t changed = 0, gone = 0;
    for (size_t i = 0; i < batch->waiter_count; i++) {
        const simba__sql_waiter *waiter = &batch->waiters[i];
        if (waiter->is_gone || !waiter->is_changed)
            continue;
        if (changed++ == 0) {
            put(out, "insert into ");
            put(out, words->waiters);
            put(out, " (mutex, nonce, channel, since, until, invited) values (");
        } else {
            put(out, ", (");
        }
        words->put_text(out, batch->rows[waiter->row].mutex);
        put(out, ", ");
        put_number(out, words, waiter->nonce);
        put(out, ", ");
        words->put_text(out, waiter->channel);
        put(out, ", ");
        put_number(out, words, (uint64_t)waiter->since);
        put(out, ", ");
        put_number(out, words, (uint64_t)waiter->until);
        put(out, ", ");
        put_number(out, words, (uint64_t)waiter->invited);
        put(out, ")");
    }
    if (changed > 0)
        put_upsert(out, words, "mutex, nonce", columns);
    for (size_t i = 0; i < batch->waiter_count; i++) {
        const simba__sql_waiter *waiter = &batch->waiters[i];
        if (!waiter->is_gone)
            continue;
        if (gone++ == 0) {
            put(out, "delete from ");
            put(out, words->waiters);
            put(out, " where (mutex, nonce) in ((");
        } else {
            put(out, ", (");
        }
        words->put_text(out, batch->rows[waiter->row].mutex);
        put(out, ", ");
        put_number(out, words, waiter->nonce);
        put(out, ")");
    }
    put(out, gone > 0 ? "); " : "");
}

static void put_notify(simba__buffer *out, const simba__sql_words *words, const char *channel, const char *payload)
{
    put(out, "select pg_notify(");
    words->put_text(out, channel);
    put(out, ", ");
    words->put_text(out, payload);
    put(out, ")");
}

static void put_write(simba__buffer *out, const simba__sql_words *words, const simba__sql_batch *batch)
{
    put(out, batch->writes ? words->write : words->write_waiters);
    put_rows(out, words, batch);
    for (size_t i = 0; i < batch->row_count; i++)
        if (batch->rows[i].presence == SIMBA__SQL_LOCKED)
            put_notes(out, words, &batch->rows[i]);
    put_waiters(out, words, batch);
    for (size_t i = 0; i < batch->notice_count; i++) {
        char payload[SIMBA_MUTEX_BYTES + 3];
        snprintf(payload, sizeof payload, "%c %s", batch->notices[i].kind, batch->notices[i].mutex);
        put_notify(out, words, batch->notices[i].channel, payload);
        put(out, "; ");
    }
    put(out, "commit");
}

void simba__sql_put_ask(simba__buffer *out, const simba__sql_words *words, const simba__sql_ask *ask)
{
    switch (ask->kind) {
    case SIMBA__SQL_TEXT:
        put(out, ask->text);
        break;
    case SIMBA__SQL_LOCK:
        put_lock(out, words, ask);
        break;
    case SIMBA__SQL_MAKE:
        put_make(out, words, ask);
        break;
    case SIMBA__SQL_WRITE:
        put_write(out, words, ask->batch);
        break;
    case SIMBA__SQL_ROLLBACK:
        put(out, words->write);
        put(out, "rollback");
        break;
    case SIMBA__SQL_LISTEN:
        put(out, "listen ");
        put(out, ask->text);
        break;
    case SIMBA__SQL_NOTIFY:
        put_notify(out, words, ask->text, "0");
        break;
    default:
        put_read(out, words, ask);
    }
}

int simba__sql_name(const simba_url *url, const char *key, size_t most, char *ret_name, simba_error *err)
{
    const char *text = simba_url_query(url, key);
    if (!text)
        return 0;
    if (text[0] == '\0' || strlen(text) > most ||
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$") != strlen(text))
        return simba__fail(err, SIMBA_EURL, "%s: %s is \"%.64s\"; it may have letters, digits, _ and $",
                           simba_url_scheme(url), key, text);
    strcpy(ret_name, text);
    return 0;
}
