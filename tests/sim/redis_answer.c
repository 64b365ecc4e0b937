/* The answers of a model Redis server, and their form on the wire. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"

void answer_number(sim_answer *answer, int64_t number)
{
    answer->kind = ANSWER_NUMBER;
    answer->item[0].number = number;
}

static void put_text(sim_element *item, const char *text)
{
    item->kind = text ? ANSWER_TEXT : ANSWER_NIL;
    const size_t length = text ? strlen(text) : 0;
    if (length >= sizeof item->text)
        abort();
    if (text)
        memcpy(item->text, text, length + 1);
}

void answer_text(sim_answer *answer, sim_answer_kind kind, const char *text)
{
    answer->kind = text ? kind : ANSWER_NIL;
    put_text(&answer->item[0], text);
}

void answer_add(sim_answer *answer, const char *text)
{
    answer->kind = ANSWER_LIST;
    if (answer->count == SIM_ELEMENTS)
        abort();
    put_text(&answer->item[answer->count++], text);
}

/* --- on the wire -------------------------------------------------------------------------------------- */

void bytes_put(sim_bytes *out, const char *text)
{
    const size_t length = strlen(text);
    if (sizeof out->data - out->length < length)
        abort();
    memcpy(out->data + out->length, text, length);
    out->length += length;
}

void bytes_put_number(sim_bytes *out, char mark, int64_t number)
{
    char text[32];
    char *at = text + sizeof text - 3;
    memcpy(at, "\r\n", 3);
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        *--at = '-';
    *--at = mark;
    bytes_put(out, at);
}

void bytes_put_text(sim_bytes *out, const char *text)
{
    bytes_put_number(out, '$', (int64_t)strlen(text));
    bytes_put(out, text);
    bytes_put(out, "\r\n");
}

static void put_one(sim_answer_kind kind, const sim_element *item, sim_bytes *out)
{
    switch (kind) {
    case ANSWER_NUMBER:
        bytes_put_number(out, ':', item->number);
        break;
    case ANSWER_LIST:
        bytes_put_number(out, '*', item->number);
        break;
    case ANSWER_TEXT:
        bytes_put_text(out, item->text);
        break;
    case ANSWER_STATUS:
    case ANSWER_ERROR:
        bytes_put(out, kind == ANSWER_STATUS ? "+" : "-");
        bytes_put(out, item->text);
        bytes_put(out, "\r\n");
        break;
    default:
        bytes_put(out, "$-1\r\n");
    }
}

void answer_write(const sim_answer *answer, sim_bytes *out)
{
    if (answer->kind == ANSWER_NONE)
        return;
    if (answer->kind != ANSWER_LIST) {
        put_one(answer->kind, &answer->item[0], out);
        return;
    }
    unsigned items = answer->count;
    for (unsigned i = 0; i < answer->count; i++)
        items -= answer->item[i].kind == ANSWER_LIST ? (unsigned)answer->item[i].number : 0;
    bytes_put_number(out, '*', items);
    for (unsigned i = 0; i < answer->count; i++)
        put_one(answer->item[i].kind, &answer->item[i], out);
}
