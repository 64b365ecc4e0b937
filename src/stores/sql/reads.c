/* What the reader is asked: READs and polls, which share a select; a note; a list; the state of the store. Nothing locks. */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stores/sql/sql.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"
#include "util/text.h"

enum { FLAWS_TOLD = 10 /* rows that a LIST leaves out are named */ };

struct simba__sql_findings {
    simba__sql_store *store;
    simba_request *request; /* NULL: it has failed */
};

/* --- news ---------------------------------------------------------------------------------------------------- */

void simba__sql_saw(simba__sql_store *store, simba__sql_row *row, const simba_reply *reply, uint64_t began,
                    simba_local now)
{
    simba__sql_polled *polled = simba__sql_polling_find(&store->polling, row->mutex);
    simba_push push;
    if (row->version > 0)
        simba__sql_grants_saw(&store->grants, row->mutex, row->version, now);
    if (!polled)
        return;
    polled->is_found = true;
    if (simba__sql_polled_read(&store->polling, polled, reply, row->version, began, now, &push))
        store->host->push(store->host, polled->watch, &push);
    if (!row->flaw && simba__sql_polled_read_note(polled, row->row.note_token, row->row.note_number))
        store->host->push(store->host, polled->watch, &(simba_push){.kind = SIMBA_PUSH_NOTED});
}

/* --- READ and polls ------------------------------------------------------------------------------------------- */

static int64_t own_clock_ms(const simba__sql_store *store)
{
    return store->host->epoch_us(store->host) / 1000;
}

/* Every READ of this mutex has its answer. */
static void answer_reads(simba__sql_store *store, const simba__sql_row *row)
{
    simba__sql_list *const lists[] = {&store->asked, &store->expired};
    for (size_t i = 0; i < 2; i++)
        for (simba_request *r = simba__sql_list_take(lists[i]), *next; r; r = next) {
            next = r->next;
            if (row->mutex && strcmp(r->mutex, row->mutex) != 0) {
                simba__sql_list_append(lists[i], r);
                continue;
            }
            if (row->flaw) {
                store->host->fail(store->host, r, SIMBA_ECORRUPT,
                                  "%s %s: the row of this mutex in %s cannot be right: %s", store->place.store,
                                  store->place.where, store->place.table, row->flaw);
                continue;
            }
            r->reply = simba__sql_row_read(row);
            store->host->complete(store->host, r);
        }
}

static void take_read(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells, unsigned count)
{
    simba__sql_store *store = connection->store;
    simba__sql_row row = {.mutex = cells[0].text};
    if (result != 0 || count != SIMBA__SQL_READ_COLUMNS || !row.mutex)
        return;
    simba__sql_row_decode(&row, cells, connection->table.version_max);
    if (!simba__sql_clock(&cells[SIMBA__SQL_NOW], &row.now_ms))
        row.flaw = "the server's clock is out of range";
    if (!row.flaw) {
        const simba_reply shown = simba__sql_row_read(&row);
        simba__sql_saw(store, &row, &shown, store->began_tick, store->host->now(store->host));
    }
    answer_reads(store, &row);
}

/* --- READ_NOTE and LIST ------------------------------------------------------------------------------------------- */

static unsigned digit_of(char digit)
{
    const char *const digits = "0123456789abcdef0123456789ABCDEF";
    const char *at = digit ? strchr(digits, digit) : NULL;
    return at ? (unsigned)(at - digits) % 16 : 0;
}

/* The note in hexadecimal digits. False: there is none. If it is too long for a note, its size says so, and it has no bytes. */
static bool take_note(const simba__sql_cell *cells, char bytes[SIMBA_NOTE_MAX], simba_stored_note *ret_note)
{
    const simba__sql_cell *hex = &cells[SIMBA__SQL_NOTE];
    uint64_t token = 0, written_at = 0;
    (void)simba__sql_number(&cells[SIMBA__SQL_NOTE_TOKEN], &token);
    (void)simba__sql_number(&cells[SIMBA__SQL_NOTE_WRITTEN_AT], &written_at);
    *ret_note = (simba_stored_note){.size = hex->length / 2, .token = token, .written_at_ms = (int64_t)written_at};
    if (!hex->text || hex->length < 2)
        return false;
    for (size_t i = 0; i < ret_note->size && ret_note->size <= SIMBA_NOTE_MAX; i++)
        bytes[i] = (char)(digit_of(hex->text[2 * i]) << 4 | digit_of(hex->text[2 * i + 1]));
    ret_note->bytes = ret_note->size <= SIMBA_NOTE_MAX ? bytes : NULL;
    return true;
}

/* The only request that is asked; NULL: nobody waits for it any more. */
static simba_request *single(const simba__sql_store *store)
{
    return store->asked.first ? store->asked.first : store->expired.first;
}

static simba_request *take_single(simba__sql_store *store)
{
    simba_request *request = simba__sql_list_take(&store->asked);
    return request ? request : simba__sql_list_take(&store->expired);
}

static void take_read_note(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells,
                           unsigned count)
{
    simba__sql_store *store = connection->store;
    simba_request *request = single(store);
    char bytes[SIMBA_NOTE_MAX];
    simba_stored_note note;
    if (!request || result != 0 || count != SIMBA__SQL_COLUMNS || !cells[0].text ||
        strcmp(cells[0].text, request->mutex) != 0)
        return;
    if (!simba__sql_clock(&cells[SIMBA__SQL_NOW], &request->reply.now_ms)) {
        store->host->fail(store->host, take_single(store), SIMBA_ECORRUPT, "%s %s: the server's clock is out of range",
                          store->place.store, store->place.where);
    } else if (take_note(cells, bytes, &note)) {
        const int rc = note.bytes ? store->host->noted(store->host, request, &note) : SIMBA_ECORRUPT;
        if (rc == SIMBA_ECORRUPT)
            store->host->fail(store->host, take_single(store), rc,
                              "%s: the note of this mutex is longer than a note can be", store->place.store);
        else if (rc < 0)
            store->host->fail(store->host, take_single(store), rc, "%s: out of memory", store->place.store);
    }
}

/* For the log: the beginning of a name that may have anything in it. */
static void show_name(const char *mutex, char *out, size_t size)
{
    size_t n = 0;
    for (; *mutex && n + sizeof "\\xFF…" <= size; mutex++) {
        const unsigned char byte = (unsigned char)*mutex;
        n += (size_t)snprintf(out + n, size - n, byte < 0x20 || byte >= 0x7F ? "\\x%02x" : "%c", byte);
    }
    snprintf(out + n, size - n, *mutex ? "…" : "");
}

static void tell_flaw(simba__sql_store *store, const char *mutex, const char *flaw)
{
    char name[80];
    if (++store->flaws > FLAWS_TOLD)
        return;
    show_name(mutex, name, sizeof name);
    store->host->log(store->host, SIMBA_LOG_WARN, "%s %s: a row of %s is not listed: %s: %s", store->place.store,
                     store->place.where, store->place.table, name, flaw);
}

static void take_listed(simba__sql_connection *connection, unsigned result, const simba__sql_cell *cells,
                        unsigned count)
{
    simba__sql_store *store = connection->store;
    simba_request *request = single(store);
    simba__sql_row row = {.mutex = cells[0].text ? cells[0].text : ""};
    char bytes[SIMBA_NOTE_MAX];
    simba_stored_note note;
    simba_error why = {0};
    if (!request || result != 0 || count != SIMBA__SQL_COLUMNS)
        return;
    simba__sql_row_decode(&row, cells, connection->table.version_max);
    const bool has_clock = simba__sql_clock(&cells[SIMBA__SQL_NOW], &row.now_ms);
    const bool has_note = take_note(cells, bytes, &note);
    if (row.is_forgotten || (request->mutex && fnmatch(request->mutex, row.mutex, 0) != 0))
        return;
    if (!row.flaw && simba__check_mutex(row.mutex, &why) < 0)
        row.flaw = why.text;
    else if (!row.flaw)
        row.flaw = !has_clock                ? "the server's clock is out of range"
                   : has_note && !note.bytes ? "its note is too long"
                                             : NULL;
    if (row.flaw) {
        tell_flaw(store, row.mutex, row.flaw);
        return;
    }
    const simba_reply reply = simba__sql_row_read(&row);
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = row.mutex,
                                   .owner = &reply.owner,
                                   .now_ms = reply.now_ms,
                                   .waiters = -1,
                                   .note = has_note ? note.bytes : NULL,
                                   .note_length = has_note ? note.size : 0,
                                   .note_token = has_note ? note.token : 0,
                                   .note_written_at_ms = has_note ? note.written_at_ms : 0};
    const int rc = store->host->listed(store->host, request, &listing);
    if (rc < 0)
        store->host->fail(store->host, take_single(store), rc, "%s: out of memory", store->place.store);
}

/* --- EXAMINE ------------------------------------------------------------------------------------------------------- */

void simba__sql_find(simba__sql_findings *findings, bool is_fine, simba_verdict otherwise, const char *what,
                     const char *remedy, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const simba_finding finding = {sizeof finding, is_fine ? SIMBA_VERDICT_OK : otherwise, what, text,
                                   is_fine ? NULL : remedy};
    simba_host *host = findings->store->host;
    if (!findings->request || host->found(host, findings->request, &finding) == 0)
        return;
    host->fail(host, take_single(findings->store), SIMBA_ENOMEM, "%s: out of memory", findings->store->place.store);
    findings->request = NULL;
}

/* --- asking ---------------------------------------------------------------------------------------------------------- */

static bool is_poll_due(const simba__sql_store *store, simba_local now)
{
    return store->polled.first || simba__sql_polling_due(&store->polling).ns <= now.ns;
}

bool simba__sql_reads_wait(const simba__sql_store *store, simba_local now)
{
    return store->reads.first || is_poll_due(store, now);
}

static void fail_asked(simba__sql_store *store, const simba__sql_failure *why, bool may_repeat)
{
    for (simba_request *r = simba__sql_list_take(&store->asked), *next; r; r = next) {
        next = r->next;
        const bool repeats = may_repeat && !(r->reply.status & SIMBA__SQL_WAS_REPEATED);
        r->reply = (simba_reply){.status = repeats ? SIMBA__SQL_WAS_REPEATED : 0};
        if (repeats)
            simba__sql_repeat(store, r);
        else
            simba__sql_tell(store, r, why);
    }
    for (simba_request *r = simba__sql_list_take(&store->expired), *next; r; r = next) {
        next = r->next;
        store->host->fail(store->host, r, SIMBA_ETIMEDOUT, "%s %s: no answer in time", store->place.store,
                          store->place.where);
    }
}

/* Those polls that were asked have been answered; or all have failed. */
static void end_polls(simba__sql_store *store, bool is_answered)
{
    const simba_local now = store->host->now(store->host);
    while (store->polled.first) {
        simba__sql_polled *polled = SIMBA__OF_ITEM(store->polled.first, simba__sql_polled, asked);
        if (is_answered && !polled->is_asked)
            break; /* the next ask is about the others */
        simba__list_remove(&polled->asked);
        if (is_answered && !polled->is_found) { /* there is no such row */
            simba__sql_row row = {.mutex = polled->watch->mutex};
            simba__sql_row_clear(&row, own_clock_ms(store));
            const simba_reply shown = simba__sql_row_read(&row);
            simba__sql_saw(store, &row, &shown, store->began_tick, now);
        }
        simba__sql_polled_came_back(&store->polling, polled, is_answered, store->began_tick, now);
    }
}

void simba__sql_reads_fail(simba__sql_store *store, const simba__sql_failure *why)
{
    const simba_local now = store->host->now(store->host);
    for (simba_request *r = simba__sql_list_take(&store->reads), *next; r; r = next) {
        next = r->next;
        simba__sql_tell(store, r, why);
    }
    if (!store->reads_by && !store->polled.first && store->life == SIMBA__SQL_OPEN)
        simba__sql_polling_take(&store->polling, now, &store->polled);
    if (!store->reads_by)
        end_polls(store, false);
}

static void answered(simba__sql_connection *connection, const simba__sql_failure *why)
{
    simba__sql_store *store = connection->store;
    const simba__sql_kind kind = store->read.kind;
    const size_t flaws = store->flaws;
    simba__sql_row none = {0};
    store->reads_by = NULL;
    store->flaws = 0;
    if (why) {
        fail_asked(store, why, why->effect == SIMBA__SQL_LOST && !connection->has_rows);
        end_polls(store, false);
        return;
    }
    if (kind == SIMBA__SQL_READ) {
        simba__sql_row_clear(&none, own_clock_ms(store));
        answer_reads(store, &none);
        end_polls(store, true);
        return;
    }
    simba_request *request = take_single(store);
    if (flaws > FLAWS_TOLD)
        store->host->log(store->host, SIMBA_LOG_WARN, "%s %s: %zu more rows of %s are not listed", store->place.store,
                         store->place.where, flaws - FLAWS_TOLD, store->place.table);
    if (!request)
        return;
    if (kind == SIMBA__SQL_READ_NOTE && request->reply.now_ms == 0)
        request->reply.now_ms = own_clock_ms(store);
    request->reply.status = 0;
    store->host->complete(store->host, request);
}

static void examined(simba__sql_connection *connection, const simba__sql_failure *why)
{
    simba__sql_store *store = connection->store;
    simba__sql_findings findings = {store, single(store)};
    if (!why && findings.request)
        store->dialect->examine(connection->conn, &findings);
    answered(connection, why);
}

/* One request of another kind than READ. */
static void begin_single(simba__sql_store *store, simba__sql_connection *connection)
{
    simba_request *request = store->reads.first;
    store->reads.first = request->next;
    if (!request->next)
        store->reads.end = &store->reads.first;
    simba__sql_list_append(&store->asked, request);
    store->reads_by = connection;
    store->latest_polled = false;
    if (request->op == SIMBA_OP_EXAMINE) {
        store->read.kind = SIMBA__SQL_TEXT;
        simba__sql_connection_look(connection, SIMBA__SQL_TO_EXAMINE, 1, examined);
        return;
    }
    const bool is_list = request->op == SIMBA_OP_LIST;
    store->names[0] = request->mutex;
    store->read =
        (simba__sql_ask){.kind = is_list ? SIMBA__SQL_LIST : SIMBA__SQL_READ_NOTE, .names = store->names, .count = 1};
    simba__sql_connection_ask(connection, &store->read, 1, is_list ? take_listed : take_read_note, answered);
}

/* All READs and the polls that are due, as many as a statement takes. */
static bool begin_reads(simba__sql_store *store, simba__sql_connection *connection, simba_local now)
{
    size_t count = 0, wanted = 0;
    for (simba_request *r = simba__sql_list_take(&store->reads), *next; r; r = next) {
        next = r->next;
        const bool is_taken = r->op == SIMBA_OP_READ && count < connection->table.rows_max;
        simba__sql_list_append(is_taken ? &store->asked : &store->reads, r);
        if (is_taken)
            store->names[count++] = r->mutex;
    }
    wanted = count;
    if (!store->polled.first && simba__sql_polling_due(&store->polling).ns <= now.ns)
        simba__sql_polling_take(&store->polling, now, &store->polled);
    store->began_tick = simba__sql_polling_begin(&store->polling);
    for (simba__list_item *item = store->polled.first; item; item = item->next) {
        simba__sql_polled *polled = SIMBA__OF_ITEM(item, simba__sql_polled, asked);
        polled->is_found = false;
        polled->is_asked = count < connection->table.rows_max;
        if (polled->is_asked)
            store->names[count++] = polled->watch->mutex;
    }
    if (count == 0)
        return false;
    store->reads_by = connection;
    store->latest_polled = true;
    store->read = (simba__sql_ask){.kind = SIMBA__SQL_READ, .names = store->names, .count = count};
    simba__sql_connection_ask(connection, &store->read, wanted, take_read, answered);
    return true;
}

bool simba__sql_reads_begin(simba__sql_store *store, simba__sql_connection *connection)
{
    const simba_local now = store->host->now(store->host);
    const simba_request *first = store->reads.first;
    const bool polls = is_poll_due(store, now);
    if (!simba__sql_reads_wait(store, now))
        return false;
    if (!store->names && !(store->names = simba__malloc(SIMBA__SQL_ROWS_MAX * sizeof *store->names))) {
        simba__sql_failure why;
        (void)simba__sql_fail(&why, SIMBA__SQL_TELL, SIMBA_ENOMEM, "%s: out of memory", store->place.store);
        simba__sql_reads_fail(store, &why);
        return false;
    }
    const bool is_examine = first && first->op == SIMBA_OP_EXAMINE;
    if (connection->unusable.error.code < 0 && !is_examine) {
        const simba__sql_failure why = connection->unusable;
        simba__sql_connection_close(connection);
        simba__sql_reads_fail(store, &why);
    } else if (first && first->op != SIMBA_OP_READ && (store->latest_polled || !polls || is_examine)) {
        begin_single(store, connection);
    } else {
        return begin_reads(store, connection, now);
    }
    return true;
}
