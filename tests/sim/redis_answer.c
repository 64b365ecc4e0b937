/* What a model Redis server answers, and how that looks on the wire. */
#include <inttypes.h>
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
    if (text && (size_t)snprintf(item->text, sizeof item->text, "%s", text) >= sizeof item->text)
        abort();
}

void answer_text(sim_answer *answer, sim_answer_kind kind, const char *text)
{
    answer->kind = text ? kind : ANSWER_NIL;
    put_text(&answer->item[0], text);
}

void answer_add(sim_answer *answer, const char *text)
{
    answer->kind = ANSWER_LIST;
    if (answer->count == SIM_FIELDS)
        abort();
    put_text(&answer->item[answer->count++], text);
}

static void write_one(sim_answer_kind kind, const sim_element *item, FILE *out)
{
    switch (kind) {
    case ANSWER_NUMBER:
        fprintf(out, ":%" PRId64 "\r\n", item->number);
        break;
    case ANSWER_TEXT:
        fprintf(out, "$%zu\r\n%s\r\n", strlen(item->text), item->text);
        break;
    case ANSWER_STATUS:
        fprintf(out, "+%s\r\n", item->text);
        break;
    case ANSWER_ERROR:
        fprintf(out, "-%s\r\n", item->text);
        break;
    default:
        fputs("$-1\r\n", out);
    }
}

void answer_write(const sim_answer *answer, FILE *out)
{
    if (answer->kind == ANSWER_NONE)
        return;
    if (answer->kind != ANSWER_LIST) {
        write_one(answer->kind, &answer->item[0], out);
        return;
    }
    fprintf(out, "*%u\r\n", answer->count);
    for (unsigned i = 0; i < answer->count; i++)
        write_one(answer->item[i].kind, &answer->item[i], out);
}
