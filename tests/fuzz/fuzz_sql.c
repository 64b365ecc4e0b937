/* Rows of SQL servers: texts of any kind in the columns of a result. */
#include <stdio.h>
#include <string.h>

#include "backends/sql/row.h"
#include "fuzz/targets.h"

enum { TEXT_MOST = 1200 };

static void any_columns(fuzz_input *in, simba__sql_columns *columns)
{
    char text[TEXT_MOST + 32];
    for (int column = 0; column < SIMBA__SQL_COLUMNS; column++) {
        size_t length;
        if (column == SIMBA__SQL_NOTE) { /* bytes: each dialect takes them in its own way */
            columns->is_null[column] = (char)fuzz_below(in, 2);
            columns->note_length = (unsigned long)fuzz_number(in);
            continue;
        }
        switch (fuzz_below(in, 4)) {
        case 0:
            simba__sql_columns_set(columns, column, NULL, 0);
            continue;
        case 1:
            length = fuzz_text(in, text, 255);
            break;
        case 2: /* longer than there is room for */
            length = TEXT_MOST - fuzz_byte(in);
            memset(text, 'x', length);
            text[length] = '\0';
            break;
        default:
            length = (size_t)snprintf(text, sizeof text, "%lld", (long long)fuzz_number(in));
        }
        simba__sql_columns_set(columns, column, text, length);
    }
}

/* A row without a flaw takes any request, and its token never goes back. */
static void any_requests(fuzz_input *in, simba__sql_row *row)
{
    while (in->left > 0) {
        simba_request request = {.op = (simba_op)fuzz_below(in, 6), .mutex = "m"};
        request.id = fuzz_below(in, 2) ? "me" : row->row.owner.id[0] ? "you" : "";
        request.nonce = fuzz_below(in, 2) ? row->row.nonce : fuzz_byte(in);
        request.token = fuzz_below(in, 2) ? row->version : fuzz_byte(in);
        request.ttl_ms = 1 + (int64_t)fuzz_byte(in) * 1000;
        request.transition_ms = (int64_t)fuzz_byte(in) * 1000;
        const uint64_t before = row->row.token;
        const bool done = simba__sql_row_apply(row, &request, (uint64_t)fuzz_byte(in));
        FUZZ_CHECK(row->row.token >= before);
        FUZZ_CHECK(!done || request.reply.status <= 0);
        (void)simba__sql_row_read(row);
        if (!done)
            return;
    }
}

void fuzz_sql_row(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    simba__sql_columns *columns = calloc(1, sizeof *columns);
    simba__sql_row row = {.mutex = "m"};
    FUZZ_CHECK(columns);
    any_columns(&in, columns);
    FUZZ_CHECK(strlen(simba__sql_columns_mutex(columns)) < sizeof columns->mutex);
    (void)simba__sql_columns_clock_flaw(columns);
    simba_stored_note note;
    if (simba__sql_columns_note(columns, &note))
        FUZZ_CHECK(!note.bytes || note.size <= SIMBA_NOTE_MAX);
    simba__sql_row_decode(&row, columns, fuzz_below(&in, 2) ? INT64_MAX : INT32_MAX);
    FUZZ_CHECK(row.found);
    if (!row.flaw) {
        FUZZ_CHECK(strlen(row.row.owner.id) <= SIMBA_ID_MAX);
        any_requests(&in, &row);
    }
    free(columns);
}
