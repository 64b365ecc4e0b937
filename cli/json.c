/* See json.h. */
#include "json.h"

#include <inttypes.h>
#include <stdbool.h>

/* How many bytes the character at `text` has; 0: it is not UTF-8. */
static size_t utf8_length(const unsigned char *text)
{
    const unsigned char c = text[0];
    size_t length = c < 0x80                ? 1
                    : c >= 0xc2 && c < 0xe0 ? 2
                    : c >= 0xe0 && c < 0xf0 ? 3
                    : c >= 0xf0 && c < 0xf5 ? 4
                                            : 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    const bool overlong = (c == 0xe0 && text[1] < 0xa0) || (c == 0xf0 && text[1] < 0x90);
    const bool outside = (c == 0xed && text[1] > 0x9f) || (c == 0xf4 && text[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

void json_string(FILE *stream, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    fputc('"', stream);
    while (*c != '\0') {
        const size_t length = utf8_length(c);
        if (length == 0)
            fputs("\\ufffd", stream);
        else if (*c == '"' || *c == '\\')
            fprintf(stream, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(stream, "\\u%04x", *c);
        else
            fwrite(c, 1, length, stream);
        c += length > 0 ? length : 1;
    }
    fputc('"', stream);
}

static void json_left(FILE *stream, const char *name, int64_t at_ms, int64_t now_ms)
{
    if (at_ms == INT64_MAX)
        fprintf(stream, ",\"%s\":null", name); /* a session: it has no end of its own */
    else
        fprintf(stream, ",\"%s\":%" PRId64, name, at_ms > now_ms ? at_ms - now_ms : 0);
}

void json_owner(FILE *stream, const simba_owner *owner, int64_t now_ms)
{
    if (!simba_owner_has_owner(owner, now_ms)) {
        fputs("\"owner\":null,\"token\":null,\"held_ms\":null,\"ttl_left_ms\":null,\"transition_left_ms\":null",
              stream);
        return;
    }
    fputs("\"owner\":", stream);
    json_string(stream, owner->id);
    fprintf(stream, ",\"token\":\"%" PRIu64 "\",\"held_ms\":%" PRId64, owner->token, now_ms - owner->acquired_at_ms);
    json_left(stream, "ttl_left_ms", owner->ttl_at_ms, now_ms);
    json_left(stream, "transition_left_ms", owner->transition_at_ms, now_ms);
}
