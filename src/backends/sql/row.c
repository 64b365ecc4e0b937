/* See row.h. */
#include "backends/sql/row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/clock.h"

/* Later times are not believed: in nanoseconds, and with a lease added to them, they have to be numbers still. */
#define TIME_MAX_MS (INT64_MAX / SIMBA__NS_PER_MS / 2)
#define OVERTAKEN_MAX_MS 60000 /* longer than a statement can wait */

/* --- reading -------------------------------------------------------------------------------------------- */

const char *simba__sql_columns_clock_flaw(const simba__sql_columns *c)
{
    const bool is_number = !c->is_null[SIMBA__SQL_NOW] && !c->is_cut[SIMBA__SQL_NOW];
    return is_number && c->now_ms >= 0 && c->now_ms <= TIME_MAX_MS ? NULL : "the server's clock is out of range";
}

/* The flaw of a row that was read; NULL: it has none. */
static const char *flaw_of(const simba__sql_columns *c)
{
    static const char *const null[SIMBA__SQL_SHARED_COLUMNS] = {"mutex is null",    "acquired_at is null",
                                                                "ttl_at is null",   "transition_at is null",
                                                                "owner_id is null", "version is null"};
    for (size_t i = 0; i < SIMBA__SQL_SHARED_COLUMNS; i++)
        if (c->is_null[i])
            return null[i];
    if (c->is_cut[SIMBA__SQL_ACQUIRED_AT] || c->acquired_at > TIME_MAX_MS)
        return "acquired_at is out of range";
    if (c->is_cut[SIMBA__SQL_TTL_AT] || c->ttl_at > TIME_MAX_MS)
        return "ttl_at is out of range";
    if (c->is_cut[SIMBA__SQL_TRANSITION_AT] || c->transition_at > TIME_MAX_MS)
        return "transition_at is out of range";
    if (c->is_cut[SIMBA__SQL_VERSION])
        return "version is out of range";
    return simba__sql_columns_clock_flaw(c);
}

static int64_t since_epoch(int64_t ms)
{
    return ms < 0 ? 0 : ms;
}

static void decode_owner(const simba__sql_columns *c, simba__row *row)
{
    simba_owner *owner = &row->owner;
    /* An id that a JVM contender was given may be longer than ours can be. */
    const size_t length = c->owner_length < SIMBA_ID_MAX ? c->owner_length : SIMBA_ID_MAX;
    memcpy(owner->id, c->owner_id, length);
    if (length == 0)
        return;
    owner->acquired_at_ms = since_epoch(c->acquired_at);
    owner->ttl_at_ms = since_epoch(c->ttl_at);
    owner->transition_at_ms = since_epoch(c->transition_at);
    owner->token = c->version;
    /* Others may have it when transition_at is past, not when it is reached. */
    row->until_ns = (owner->transition_at_ms + 1) * SIMBA__NS_PER_MS;
}

void simba__sql_row_clear(simba__sql_row *row, int64_t now_ms)
{
    *row = (simba__sql_row){.mutex = row->mutex, .item = row->item, .now_ms = now_ms, .row = {.counts_tokens = true}};
}

void simba__sql_row_decode(simba__sql_row *row, const simba__sql_columns *c, uint64_t version_max)
{
    simba__sql_row_clear(row, row->now_ms);
    row->found = true;
    row->flaw = flaw_of(c);
    if (row->flaw)
        return;
    row->now_ms = c->now_ms;
    row->version = c->version;
    row->version_max = version_max;
    row->nonce_known =
        !c->is_null[SIMBA__SQL_NONCE] && !c->is_null[SIMBA__SQL_NONCE_VERSION] && c->nonce_version == c->version;
    row->foreign = !row->nonce_known && c->owner_length > 0;
    row->row.token = c->version;
    row->row.nonce = row->nonce_known ? c->nonce : 0;
    row->row.revoked_token = c->is_null[SIMBA__SQL_REVOKED_VERSION] ? 0 : c->revoked_version;
    row->is_forgotten = !c->is_null[SIMBA__SQL_FORGOTTEN_VERSION] && c->forgotten_version == c->version;
    row->row.note_token = c->is_null[SIMBA__SQL_NOTE_TOKEN] ? 0 : c->note_token;
    row->row.note_number = c->is_null[SIMBA__SQL_NOTE_NUMBER] ? 0 : c->note_number;
    decode_owner(c, &row->row);
}

bool simba__sql_columns_note(const simba__sql_columns *c, simba_stored_note *ret_note)
{
    const bool is_whole = c->note_length <= sizeof c->note;
    *ret_note = (simba_stored_note){.bytes = is_whole ? c->note : NULL,
                                    .size = c->note_length,
                                    .token = c->is_null[SIMBA__SQL_NOTE_TOKEN] ? 0 : c->note_token,
                                    .written_at_ms = c->is_null[SIMBA__SQL_NOTE_WRITTEN_AT] ? 0 : c->note_written_at};
    return !c->is_null[SIMBA__SQL_NOTE] && c->note_length > 0;
}

const char *simba__sql_columns_mutex(simba__sql_columns *c)
{
    const size_t most = sizeof c->mutex - 1;
    c->mutex[c->is_null[SIMBA__SQL_MUTEX] ? 0 : c->mutex_length < most ? c->mutex_length : most] = '\0';
    return c->mutex;
}

static void set_text(simba__sql_columns *c, int column, const char *text, size_t length)
{
    char *at = column == SIMBA__SQL_MUTEX ? c->mutex : column == SIMBA__SQL_NOTE ? c->note : c->owner_id;
    const size_t room = column == SIMBA__SQL_MUTEX  ? sizeof c->mutex - 1
                        : column == SIMBA__SQL_NOTE ? sizeof c->note
                                                    : sizeof c->owner_id;
    c->is_cut[column] = length > room;
    *(column == SIMBA__SQL_MUTEX  ? &c->mutex_length
      : column == SIMBA__SQL_NOTE ? &c->note_length
                                  : &c->owner_length) = length;
    memcpy(at, text, length < room ? length : room);
}

/* True: the column is a time, which has a sign. */
static bool store_number(simba__sql_columns *c, int column, uint64_t number)
{
    int64_t *const times[SIMBA__SQL_COLUMNS] = {[SIMBA__SQL_ACQUIRED_AT] = &c->acquired_at,
                                                [SIMBA__SQL_TTL_AT] = &c->ttl_at,
                                                [SIMBA__SQL_TRANSITION_AT] = &c->transition_at,
                                                [SIMBA__SQL_NOTE_WRITTEN_AT] = &c->note_written_at,
                                                [SIMBA__SQL_NOW] = &c->now_ms};
    uint64_t *const numbers[SIMBA__SQL_COLUMNS] = {[SIMBA__SQL_VERSION] = &c->version,
                                                   [SIMBA__SQL_NONCE] = &c->nonce,
                                                   [SIMBA__SQL_NONCE_VERSION] = &c->nonce_version,
                                                   [SIMBA__SQL_REVOKED_VERSION] = &c->revoked_version,
                                                   [SIMBA__SQL_NOTE_TOKEN] = &c->note_token,
                                                   [SIMBA__SQL_NOTE_NUMBER] = &c->note_number,
                                                   [SIMBA__SQL_FORGOTTEN_VERSION] = &c->forgotten_version,
                                                   [SIMBA__SQL_EXTRA] = &c->extra};
    if (times[column])
        *times[column] = (int64_t)number;
    else
        *numbers[column] = number;
    return times[column] != NULL;
}

static void set_number_from_text(simba__sql_columns *c, int column, const char *text)
{
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    c->is_cut[column] = errno != 0 || *end != '\0' || (column == SIMBA__SQL_VERSION && number < 0);
    (void)store_number(c, column, (uint64_t)number);
}

void simba__sql_columns_set(simba__sql_columns *c, int column, const char *text, size_t length)
{
    c->is_null[column] = !text;
    c->is_cut[column] = false;
    if (column == SIMBA__SQL_MUTEX || column == SIMBA__SQL_OWNER_ID || column == SIMBA__SQL_NOTE)
        set_text(c, column, text ? text : "", text ? length : 0);
    else if (text)
        set_number_from_text(c, column, text);
}

void simba__sql_columns_set_number(simba__sql_columns *c, int column, uint64_t number, bool is_unsigned)
{
    const bool is_time = store_number(c, column, number);
    c->is_null[column] = false;
    c->is_cut[column] = is_time == is_unsigned && number > INT64_MAX;
}

simba__sql_mark simba__sql_row_mark(const simba__sql_row *row)
{
    return (simba__sql_mark){.is_known = !row->flaw, .token = row->row.note_token, .number = row->row.note_number};
}

/* --- changing --------------------------------------------------------------------------------------------- */

/* A row is somebody else's grant if its nonce is not known, unless the request can show the token: every grant has another
 * version. */
static void fill_in_nonce(simba__sql_row *row, const simba_request *request)
{
    if (!row->nonce_known)
        row->row.nonce = request->token != 0 && request->token == row->version ? request->nonce : ~request->nonce;
}

/* What core/row.c made of the row, as versions: a grant or its end is a new one, a renewal is not. */
static void number_change(simba__sql_row *row, uint64_t token_before)
{
    const bool ended = row->row.owner.id[0] == '\0';
    if (ended)
        row->row.token++; /* as the JVM does: a reader sees that something has changed */
    if (ended || row->row.token != token_before)
        row->version = row->row.token;
    row->nonce_known = !ended;
    row->nonce_version = ended ? 0 : row->version;
    row->foreign = false;
    row->is_forgotten = false;
}

/* A renewal goes by the time at which its statement began. If it had to wait for the row, one that began later may have
 * overtaken it, and its holder counts on what that one was answered. An end that is later by more than a minute was set before
 * the server's clock was set back; that is put right. */
static void keep_later_end(simba__sql_row *row, const simba_owner *before, simba_request *request)
{
    simba_owner *owner = &row->row.owner;
    const int64_t later_ms = before->transition_at_ms - owner->transition_at_ms;
    if (later_ms <= 0 || later_ms > OVERTAKEN_MAX_MS)
        return;
    owner->ttl_at_ms = before->ttl_at_ms;
    owner->transition_at_ms = before->transition_at_ms;
    row->row.until_ns = (owner->transition_at_ms + 1) * SIMBA__NS_PER_MS;
    request->reply.owner = *owner;
}

static void forget(simba__sql_row *row)
{
    const uint64_t token = row->row.token;
    row->row = (simba__row){.token = token, .counts_tokens = true};
    row->nonce_version = 0;
    row->nonce_known = row->foreign = false;
    row->is_forgotten = true;
}

bool simba__sql_row_apply(simba__sql_row *row, simba_request *request, uint64_t floor)
{
    SIMBA__ASSERT(!row->flaw);
    const simba__row_now now = {row->now_ms * SIMBA__NS_PER_MS, row->now_ms * 1000};
    const bool is_free = simba__row_is_free(&row->row, now);
    if (request->op == SIMBA_OP_ACQUIRE && is_free) {
        if (floor > row->row.token)
            row->row.token = floor;
        if (row->row.token >= row->version_max)
            return false;
    }
    fill_in_nonce(row, request);
    /* Without our columns the row does not say so, but the end of a grant is a release, and it was not ours. */
    const bool forced_away = row->row.owner.id[0] == '\0' && row->version == request->token + 1;
    const uint64_t token_before = row->row.token;
    const bool foreign = row->foreign && !is_free;
    const simba_owner before = row->row.owner;
    row->row.version = row->found && !row->is_forgotten; /* for FORGET: is it known? */
    const bool changed = simba__row_apply(&row->row, now, request);
    const bool is_of_lease = request->op != SIMBA_OP_WRITE_NOTE && request->op != SIMBA_OP_FORGET;
    row->changed |= changed;
    if (changed && is_of_lease && !is_free && row->row.owner.id[0] != '\0')
        keep_later_end(row, &before, request);
    if (changed && is_of_lease)
        number_change(row, token_before);
    else if (changed && request->op == SIMBA_OP_FORGET)
        forget(row);
    else if (foreign)
        request->reply.owner.token = 0;
    const bool is_holders = request->op == SIMBA_OP_RENEW || request->op == SIMBA_OP_WRITE_NOTE;
    if (is_holders && request->token != 0 && forced_away)
        request->reply.outcome = SIMBA_REVOKED;
    request->reply.now_ms = row->now_ms;
    return true;
}

simba_reply simba__sql_row_read(const simba__sql_row *row)
{
    simba__sql_row seen = *row;
    simba_request read = {.op = SIMBA_OP_READ, .id = ""};
    simba__sql_row_apply(&seen, &read, 0);
    return read.reply;
}
