/* What comes from HTTP servers: answers, and JSON in them. */
#include <string.h>

#include "fuzz/targets.h"
#include "net/http_parser.h"
#include "net/json.h"

/* --- answers ---------------------------------------------------------------------------------------------------------- */

enum { ANSWERS = 8 };

/* What was read: the ends of answers, and a sum over statuses and bodies. */
typedef struct reading {
    simba__http_event last;
    size_t ends, body;
    uint64_t sum;
} reading;

static reading read_all(const uint8_t *data, size_t size, size_t piece)
{
    static simba__http_parser parser;
    reading all = {.last = SIMBA__HTTP_MORE};
    simba__http_parser_reset(&parser);
    for (size_t at = 0; at < size;) {
        const size_t length = piece < size - at ? piece : size - at;
        char *copy = malloc(length); /* so that reading beyond it is found out */
        FUZZ_CHECK(copy);
        memcpy(copy, data + at, length);
        size_t used = 0;
        do {
            size_t more, body;
            all.last = simba__http_parse(&parser, copy + used, length - used, &more, &body);
            FUZZ_CHECK(more <= length - used && body <= more && (body > 0) == (all.last == SIMBA__HTTP_BODY));
            FUZZ_CHECK(all.last != SIMBA__HTTP_MORE || more == length - used);
            used += more;
            for (size_t i = used - body; i < used; i++)
                all.sum = all.sum * 31 + (uint8_t)copy[i];
            all.body += body;
            if (all.last == SIMBA__HTTP_HEAD) {
                FUZZ_CHECK(parser.head.status >= 200 && parser.head.status <= 599 && parser.head.retry_after_s >= -1);
                all.sum = all.sum * 31 + (unsigned)parser.head.status;
            } else if (all.last == SIMBA__HTTP_END) {
                if (++all.ends == ANSWERS)
                    break;
                simba__http_parser_reset(&parser);
            }
        } while (all.last != SIMBA__HTTP_MORE && all.last != SIMBA__HTTP_INVALID);
        free(copy);
        if (all.last != SIMBA__HTTP_MORE)
            break;
        at += length;
    }
    FUZZ_CHECK(all.last != SIMBA__HTTP_INVALID || parser.why);
    if (all.last == SIMBA__HTTP_MORE)
        all.last = simba__http_parse_eof(&parser);
    return all;
}

/* The pieces in which the bytes come make no difference. */
void fuzz_http_answer(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const size_t piece = fuzz_byte(&in) + 1;
    const reading whole = read_all(in.at, in.left, in.left);
    const reading pieces = read_all(in.at, in.left, piece);
    FUZZ_CHECK(whole.last == pieces.last && whole.ends == pieces.ends && whole.body == pieces.body &&
               whole.sum == pieces.sum);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------- */

/* Read everything of a value in every way. */
static void visit(simba__json value, unsigned depth)
{
    char text[64];
    int64_t number;
    size_t length;
    simba__json again;
    FUZZ_CHECK(value.length > 0 && depth <= 33);
    FUZZ_CHECK(simba__json_read(value.at, value.length, &again) && again.length == value.length);
    if (simba__json_text(value, text, sizeof text)) {
        simba__buffer out = {0};
        char back[sizeof text];
        simba__json_put(&out, "[%s]", text);
        FUZZ_CHECK(!out.failed && simba__json_read(out.data, out.length, &again));
        simba__json element = {0};
        FUZZ_CHECK(simba__json_next(again, &element) && simba__json_text(element, back, sizeof back));
        FUZZ_CHECK(strcmp(text, back) == 0);
        simba__buffer_free(&out);
    }
    if (simba__json_base64(value, text, sizeof text, &length))
        FUZZ_CHECK(length < sizeof text && text[length] == '\0');
    (void)simba__json_int(value, &number);
    (void)simba__json_bool(value);
    for (simba__json element = {0}; simba__json_next(value, &element);)
        visit(element, depth + 1);
    const simba__json member = simba__json_get(value, "a");
    if (member.length > 0)
        visit(member, depth + 1);
}

void fuzz_json(const uint8_t *data, size_t size)
{
    char *text = malloc(size + (size == 0));
    simba__json value;
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    if (simba__json_read(text, size, &value))
        visit(value, 0);
    free(text);
}
