/* Rows of SQL servers: texts of any kind in the columns of a result. */
#include <stdio.h>
#include <string.h>

#include "fuzz/targets.h"
#include "stores/sql/sql.h"

enum { TEXT_MOST = 1200 };

static void any_cells(fuzz_input *in, char texts[SIMBA__SQL_COLUMNS][TEXT_MOST + 32], simba__sql_cell *cells)
{
    for (int column = 0; column < SIMBA__SQL_COLUMNS; column++) {
        char *text = texts[column];
        size_t length;
        switch (fuzz_below(in, 4)) {
        case 0:
            cells[column] = (simba__sql_cell){0};
            continue;
        case 1:
            length = fuzz_text(in, text, 255);
            text[length] = '\0';
            break;
        case 2: /* longer than there is room for */
            length = TEXT_MOST - fuzz_byte(in);
            memset(text, 'x', length);
            text[length] = '\0';
            break;
        default:
            length = (size_t)snprintf(text, TEXT_MOST, "%lld", (long long)fuzz_number(in));
        }
        cells[column] = (simba__sql_cell){text, length};
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
    static char texts[SIMBA__SQL_COLUMNS][TEXT_MOST + 32];
    simba__sql_cell cells[SIMBA__SQL_COLUMNS];
    simba__sql_row row = {.mutex = "m"};
    any_cells(&in, texts, cells);
    simba__sql_row_decode(&row, cells, fuzz_below(&in, 2) ? INT64_MAX : INT32_MAX);
    row.presence = SIMBA__SQL_LOCKED;
    if (!simba__sql_clock(&cells[SIMBA__SQL_NOW], &row.now_ms))
        row.flaw = "clock";
    if (!row.flaw) {
        FUZZ_CHECK(strlen(row.row.owner.id) <= SIMBA_ID_MAX);
        any_requests(&in, &row);
    }
}
