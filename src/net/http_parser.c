/* See http_parser.h. A line is gathered until it is complete, and then read; the bytes of a body are not copied. */
#include "net/http_parser.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { STATUS, HEADERS, BODY, CHUNK_SIZE, CHUNK_END, TRAILERS, DONE, BROKEN };
enum { DIGITS_MOST = 15 }; /* of a length, so that it fits into 64 bits */

void simba__http_parser_reset(simba__http_parser *parser)
{
    parser->state = STATUS;
    parser->head = (simba__http_head){.retry_after_s = -1};
    parser->left = 0;
    parser->chunked = parser->sized = false;
    parser->head_bytes = parser->headers = parser->length = 0;
    parser->why = NULL;
}

static bool refuse(simba__http_parser *parser, const char *why)
{
    parser->state = BROKEN;
    parser->why = why;
    return false;
}

/* --- headers ------------------------------------------------------------------------------------------ */

/* Nothing but digits. False: it is something else, or too long. */
static bool read_number(const char *text, int base, size_t length, int64_t *ret_number)
{
    static const char digits[] = "0123456789abcdef";
    int64_t number = 0;
    if (length == 0 || length > DIGITS_MOST)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char lower = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] + 'a' - 'A') : text[i];
        const char *digit = memchr(digits, lower, (size_t)base);
        if (!digit)
            return false;
        number = number * base + (digit - digits);
    }
    *ret_number = number;
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", the only form that servers write today. 0: it is another. */
static int64_t read_date(const char *text)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char month[4];
    struct tm at = {0};
    if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT", &at.tm_mday, month, &at.tm_year, &at.tm_hour,
               &at.tm_min, &at.tm_sec) != 6 || // NOLINT(cert-err34-c): two digits
        strlen(month) != 3)
        return 0;
    const char *found = strstr(months, month);
    if (!found || (found - months) % 3 != 0)
        return 0;
    at.tm_mon = (int)(found - months) / 3;
    at.tm_year -= 1900;
    return timegm(&at);
}

/* Is the word one of those of a list with commas? */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; *at;) {
        at += strspn(at, ", \t");
        const size_t size = strcspn(at, ", \t");
        if (size == length && strncasecmp(at, word, length) == 0)
            return true;
        at += size;
    }
    return false;
}

static bool take_status(simba__http_parser *parser, size_t length)
{
    const char *line = parser->line;
    int64_t status;
    const size_t version = sizeof "HTTP/1.1" - 1;
    if (length < version + 4 || (strncmp(line, "HTTP/1.1 ", version + 1) && strncmp(line, "HTTP/1.0 ", version + 1)))
        return refuse(parser, "it does not begin like an answer of HTTP/1.1");
    if (!read_number(line + version + 1, 10, 3, &status) || (line[version + 4] != ' ' && line[version + 4] != '\0') ||
        status < 100 || status > 599 || status == 101)
        return refuse(parser, "its status is none that an answer may have");
    parser->is_old = line[version - 1] == '0';
    parser->head = (simba__http_head){.status = (int)status, .retry_after_s = -1, .closes = parser->is_old};
    parser->state = HEADERS;
    return true;
}

static bool take_header(simba__http_parser *parser)
{
    static const char of_names[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char *name = parser->line;
    const size_t size = strspn(name, of_names);
    if (size == 0 || name[size] != ':')
        return refuse(parser, "a header has no name");
    name[size] = '\0';
    char *value = name + size + 1;
    value += strspn(value, " \t");
    size_t length = strlen(value);
    while (length > 0 && strchr(" \t", value[length - 1]))
        value[--length] = '\0';
    if (strcasecmp(name, "content-length") == 0) {
        if (parser->sized || !read_number(value, 10, length, &parser->left))
            return refuse(parser, "its Content-Length is not one number");
        parser->sized = true;
    } else if (strcasecmp(name, "transfer-encoding") == 0) {
        if (parser->chunked || strcasecmp(value, "chunked") != 0)
            return refuse(parser, "its Transfer-Encoding is another than chunked");
        parser->chunked = true;
    } else if (strcasecmp(name, "connection") == 0) {
        parser->head.closes = parser->head.closes || has_word(value, "close");
    } else if (strcasecmp(name, "retry-after") == 0) {
        read_number(value, 10, length,
                    &parser->head.retry_after_s); /* a date, which it may also be, is nobody's need */
    } else if (strcasecmp(name, "date") == 0) {
        parser->head.date_s = read_date(value);
    }
    return true;
}

/* The empty line after the headers. */
static bool end_head(simba__http_parser *parser)
{
    const int status = parser->head.status;
    if (parser->chunked && (parser->sized || parser->is_old))
        return refuse(parser, "the length of its body is not certain");
    if (status == 204 || status == 304) { /* no body, whatever the headers say */
        parser->left = 0;
        parser->chunked = false;
    } else if (!parser->chunked && !parser->sized) {
        parser->left = -1;
        parser->head.closes = true;
    }
    if (status < 200) { /* the answer itself follows */
        parser->state = STATUS;
        parser->chunked = parser->sized = false;
    } else {
        parser->state = parser->chunked ? CHUNK_SIZE : parser->left != 0 ? BODY : DONE;
    }
    return true;
}

/* --- lines -------------------------------------------------------------------------------------------- */

/* Gather bytes into parser->line. 1: it is complete, and its end is cut off; 0: more bytes are needed; -1: refused. */
static int gather(simba__http_parser *parser, const char *data, size_t length, size_t *used)
{
    const char *end = length > 0 ? memchr(data, '\n', length) : NULL;
    const size_t take = end ? (size_t)(end - data) + 1 : length;
    if (take > sizeof parser->line - parser->length) {
        refuse(parser, "a line is too long");
        return -1;
    }
    if (take > 0)
        memcpy(parser->line + parser->length, data, take);
    parser->length += take;
    *used += take;
    if (!end)
        return 0;
    if (parser->length < 2 || parser->line[parser->length - 2] != '\r') {
        refuse(parser, "a line does not end as in HTTP");
        return -1;
    }
    parser->length -= 2;
    parser->line[parser->length] = '\0';
    for (size_t i = 0; i < parser->length; i++)
        if (((unsigned char)parser->line[i] < ' ' && parser->line[i] != '\t') || parser->line[i] == 0x7F) {
            refuse(parser, "a line has a control character");
            return -1;
        }
    return 1;
}

/* True: go on. */
static bool take_line(simba__http_parser *parser)
{
    const size_t length = parser->length;
    parser->length = 0;
    if (parser->state == CHUNK_SIZE) {
        const size_t digits = strcspn(parser->line, "; \t");
        const char *rest = parser->line + digits + strspn(parser->line + digits, " \t");
        if (!read_number(parser->line, 16, digits, &parser->left) || (*rest != '\0' && *rest != ';'))
            return refuse(parser, "the size of a chunk is not a number");
        parser->state = parser->left > 0 ? BODY : TRAILERS;
        return true;
    }
    if (parser->state == CHUNK_END) {
        parser->state = CHUNK_SIZE;
        return length == 0 || refuse(parser, "a chunk is longer than it says");
    }
    parser->head_bytes += length + 2;
    if (parser->head_bytes > SIMBA__HTTP_HEAD_MOST || parser->headers > SIMBA__HTTP_HEADERS_MOST)
        return refuse(parser, "it has too many headers");
    if (parser->state == STATUS)
        return take_status(parser, length);
    parser->headers++;
    if (parser->state == HEADERS)
        return length == 0 ? end_head(parser) : take_header(parser);
    parser->state = length == 0 ? DONE : TRAILERS;
    return true;
}

/* --- events ------------------------------------------------------------------------------------------- */

simba__http_event simba__http_parse(simba__http_parser *parser, const char *data, size_t length, size_t *ret_used,
                                    size_t *ret_body)
{
    size_t used = 0, body = 0;
    simba__http_event event = SIMBA__HTTP_MORE;
    while (event == SIMBA__HTTP_MORE) {
        if (parser->state == BROKEN) {
            event = SIMBA__HTTP_INVALID;
        } else if (parser->state == DONE) {
            event = SIMBA__HTTP_END;
        } else if (parser->state == BODY) {
            body = length - used;
            if (body == 0)
                break;
            if (parser->left >= 0 && (uint64_t)parser->left < body)
                body = (size_t)parser->left;
            used += body;
            if (parser->left > 0)
                parser->left -= (int64_t)body;
            if (parser->left == 0)
                parser->state = parser->chunked ? CHUNK_END : DONE;
            event = SIMBA__HTTP_BODY;
        } else if (gather(parser, data + used, length - used, &used) == 0) {
            break;
        } else if (parser->state != BROKEN) {
            const bool in_headers = parser->state == HEADERS;
            if (take_line(parser) && in_headers && parser->state != HEADERS && parser->state != STATUS)
                event = SIMBA__HTTP_HEAD;
        }
    }
    *ret_used = used;
    *ret_body = body;
    return event;
}

simba__http_event simba__http_parse_eof(simba__http_parser *parser)
{
    if (parser->state == BODY && parser->left < 0)
        parser->state = DONE;
    if (parser->state == DONE)
        return SIMBA__HTTP_END;
    refuse(parser, "it is cut off");
    return SIMBA__HTTP_INVALID;
}
