/* See row.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stores/sql/row.h"
#include "util/assert.h"
#include "util/clock.h"

/* Later times are not believed: in nanoseconds, and with a lease added to them, they must be numbers still. */
#define TIME_MAX_MS (INT64_MAX / SIMBA__NS_PER_MS / 2)

/* --- reading -------------------------------------------------------------------------------------------- */

bool simba__sql_number(const simba__sql_cell *cell, uint64_t *ret_number)
{
    const char *text = cell->text;
    char *end;
    if (!text || cell->length == 0 || cell->length > 20 || strchr("-0123456789", text[0]) == NULL)
        return false;
    errno = 0;
    *ret_number = text[0] == '-' ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    return errno == 0 && end == text + cell->length;
}

/* Null, and what is no number, are 0. */
static uint64_t number_or_0(const simba__sql_cell *cell)
{
    uint64_t number;
    return simba__sql_number(cell, &number) ? number : 0;
}

static bool take_time(const simba__sql_cell *cell, int64_t *ret_ms)
{
    uint64_t number;
    if (!simba__sql_number(cell, &number))
        return false;
    const int64_t ms = (int64_t)number;
    *ret_ms = ms < 0 ? 0 : ms;
    return cell->text[0] == '-' || number <= TIME_MAX_MS;
}

bool simba__sql_clock(const simba__sql_cell *cell, int64_t *ret_now_ms)
{
    return cell->text && cell->text[0] != '-' && take_time(cell, ret_now_ms);
}

void simba__sql_row_clear(simba__sql_row *row, int64_t now_ms)
{
    *row = (simba__sql_row){.mutex = row->mutex,
                            .first = row->first,
                            .last = row->last,
                            .now_ms = now_ms,
                            .version_max = INT64_MAX,
                            .row = {.counts_tokens = true}};
}

static const char *take_shared(const simba__sql_cell *cells, simba_owner *owner, uint64_t *ret_version)
{
    static const char *const null[SIMBA__SQL_SHARED_COLUMNS] = {"mutex is null",    "acquired_at is null",
                                                                "ttl_at is null",   "transition_at is null",
                                                                "owner_id is null", "version is null"};
    for (size_t i = 0; i < SIMBA__SQL_SHARED_COLUMNS; i++)
        if (!cells[i].text)
            return null[i];
    if (!take_time(&cells[SIMBA__SQL_ACQUIRED_AT], &owner->acquired_at_ms))
        return "acquired_at is out of range";
    if (!take_time(&cells[SIMBA__SQL_TTL_AT], &owner->ttl_at_ms))
        return "ttl_at is out of range";
    if (!take_time(&cells[SIMBA__SQL_TRANSITION_AT], &owner->transition_at_ms))
        return "transition_at is out of range";
    if (!simba__sql_number(&cells[SIMBA__SQL_VERSION], ret_version) || *ret_version > INT64_MAX)
        return "version is out of range";
    return NULL;
}

void simba__sql_row_decode(simba__sql_row *row, const simba__sql_cell *cells, uint64_t version_max)
{
    simba_owner owner = {0};
    simba__sql_row_clear(row, row->now_ms);
    row->presence = SIMBA__SQL_SEEN;
    row->flaw = take_shared(cells, &owner, &row->version);
    if (row->flaw)
        return;
    const simba__sql_cell *id = &cells[SIMBA__SQL_OWNER_ID];
    row->version_max = version_max;
    row->nonce_version = number_or_0(&cells[SIMBA__SQL_NONCE_VERSION]);
    row->nonce_known = simba__sql_number(&cells[SIMBA__SQL_NONCE], &row->row.nonce) &&
                       cells[SIMBA__SQL_NONCE_VERSION].text && row->nonce_version == row->version;
    row->is_foreign = !row->nonce_known && id->length > 0;
    row->row.token = row->version;
    row->row.nonce = row->nonce_known ? row->row.nonce : 0;
    row->row.revoked_token = number_or_0(&cells[SIMBA__SQL_REVOKED_VERSION]);
    row->forgotten_version = number_or_0(&cells[SIMBA__SQL_FORGOTTEN_VERSION]);
    row->is_forgotten = cells[SIMBA__SQL_FORGOTTEN_VERSION].text && row->forgotten_version == row->version;
    row->row.note_token = number_or_0(&cells[SIMBA__SQL_NOTE_TOKEN]);
    row->row.note_number = number_or_0(&cells[SIMBA__SQL_NOTE_NUMBER]);
    if (id->length == 0)
        return;
    /* An id that a JVM contender was given may be longer than one of simba's. */
    memcpy(owner.id, id->text, id->length < SIMBA_ID_MAX ? id->length : SIMBA_ID_MAX);
    owner.token = row->version;
    row->row.owner = owner;
    /* Others may have it when transition_at is past, not when it is reached. */
    row->row.until_ns = (owner.transition_at_ms + 1) * SIMBA__NS_PER_MS;
}

/* --- changing --------------------------------------------------------------------------------------------- */

static simba__row_now now_of(const simba__sql_row *row)
{
    return (simba__row_now){row->now_ms * SIMBA__NS_PER_MS, row->now_ms * 1000};
}

bool simba__sql_row_is_free(const simba__sql_row *row)
{
    return simba__row_is_free(&row->row, now_of(row));
}

/* What core/row.c made of the lease, as versions: a grant or its end is a new one, a renewal is not. */
static void number_change(simba__sql_row *row, uint64_t token_before)
{
    const bool ended = row->row.owner.id[0] == '\0';
    if (ended)
        row->row.token++; /* as the JVM does: a reader sees that something has changed */
    if (ended || row->row.token != token_before)
        row->version = row->row.token;
    row->nonce_known = !ended;
    row->nonce_version = ended ? 0 : row->version;
    row->is_foreign = row->is_forgotten = false;
    row->is_put = true;
    row->is_freed = ended;
}

static void forget(simba__sql_row *row)
{
    const uint64_t token = row->row.token;
    row->is_noted = row->row.note_token != 0;
    row->row = (simba__row){.token = token, .counts_tokens = true};
    row->nonce_version = 0;
    row->nonce_known = row->is_foreign = false;
    row->is_forgotten = row->is_forgotten_now = row->is_put = true;
    row->forgotten_version = row->version;
    row->note = NULL;
}

bool simba__sql_row_apply(simba__sql_row *row, simba_request *request, uint64_t floor)
{
    SIMBA__ASSERT(!row->flaw);
    const bool is_free = simba__sql_row_is_free(row);
    if (request->op == SIMBA_OP_ACQUIRE && is_free) {
        if (floor > row->row.token)
            row->row.token = floor;
        if (row->row.token >= row->version_max)
            return false;
    }
    /* Without a nonce it is somebody else's grant, unless the request can show the token: every grant has another version. */
    if (!row->nonce_known)
        row->row.nonce = request->token != 0 && request->token == row->version ? request->nonce : ~request->nonce;
    const uint64_t token_before = row->row.token;
    const bool is_foreign = row->is_foreign && !is_free;
    row->row.version = row->presence != SIMBA__SQL_MISSING && !row->is_forgotten; /* for FORGET: is it known? */
    const bool changed = simba__row_apply(&row->row, now_of(row), request);
    if (changed && request->op == SIMBA_OP_WRITE_NOTE) {
        row->note = request;
        row->is_noted = true;
    } else if (changed && request->op == SIMBA_OP_FORGET) {
        forget(row);
    } else if (changed) {
        number_change(row, token_before);
    } else if (is_foreign) {
        request->reply.owner.token = 0;
    }
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
