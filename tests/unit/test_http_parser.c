/* The bytes of an HTTP server: whatever the pieces in which they come, they mean the same; and what has no certain meaning, or is
 * longer than it may be, is refused. */
#include "net/http_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

/* What one answer was. */
typedef struct seen {
    simba__http_event last;
    simba__http_head head;
    unsigned heads;
    char body[256];
    size_t length, used;
    const char *why;
} seen;

/* Feed pieces of this many bytes, each in memory of its own. `closes`: and then the connection is closed. */
static seen read_answer(const char *bytes, size_t length, size_t piece, bool closes)
{
    static simba__http_parser parser;
    seen all = {.last = SIMBA__HTTP_MORE};
    memset(&parser, 0xAA, sizeof parser);
    simba__http_parser_reset(&parser);
    for (size_t at = 0; at < length && (all.last == SIMBA__HTTP_MORE);) {
        const size_t size = piece < length - at ? piece : length - at;
        char *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, bytes + at, size);
        size_t used = 0;
        do {
            size_t more, body;
            all.last = simba__http_parse(&parser, copy + used, size - used, &more, &body);
            assert_true(more <= size - used && body <= more);
            used += more;
            if (all.last == SIMBA__HTTP_HEAD) {
                all.heads++;
            } else if (all.last == SIMBA__HTTP_BODY) {
                assert_true(body > 0 && all.length + body <= sizeof all.body);
                memcpy(all.body + all.length, copy + used - body, body);
                all.length += body;
            }
        } while (all.last == SIMBA__HTTP_HEAD || all.last == SIMBA__HTTP_BODY);
        free(copy);
        at += used;
        all.used = at;
    }
    if (closes && all.last == SIMBA__HTTP_MORE)
        all.last = simba__http_parse_eof(&parser);
    all.head = parser.head;
    all.why = parser.why;
    return all;
}

static seen read_text(const char *text, size_t piece)
{
    return read_answer(text, strlen(text), piece, false);
}

static void answers_are_read_in_any_pieces(void **state)
{
    static const struct {
        const char *bytes;
        const char *body;
        int status;
        bool closes;
    } answers[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false},
        {"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", "", 200, false},
        {"HTTP/1.1 204 No Content\r\n\r\n", "", 204, false},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", "", 204, false},
        {"HTTP/1.1 304\r\nTransfer-Encoding: chunked\r\n\r\n", "", 304, false},
        {"HTTP/1.1 503 \r\nConnection: keep-alive , Close\r\nContent-Length: 1\r\n\r\nx", "x", 503, true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 200, true},
        {"HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.1 102 x\r\nTransfer-Encoding: chunked\r\n\r\n"
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
         "ok", 200, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n001;a=\"b\"\r\n \r\nA "
         "\r\n0123456789\r\n0\r\n\r\n",
         "hello 0123456789", 200, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 7\r\nX: y\r\n\r\n", "", 200, false},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const size_t length = strlen(answers[i].bytes);
        for (size_t piece = 1; piece <= length; piece++) {
            const seen all = read_text(answers[i].bytes, piece);
            assert_int_equal(all.last, SIMBA__HTTP_END);
            assert_int_equal(all.heads, 1);
            assert_int_equal(all.used, length);
            assert_int_equal(all.head.status, answers[i].status);
            assert_int_equal(all.head.closes, answers[i].closes);
            assert_int_equal(all.length, strlen(answers[i].body));
            assert_memory_equal(all.body, answers[i].body, all.length);
        }
        for (size_t cut = 0; cut < length; cut++)
            assert_int_equal(read_answer(answers[i].bytes, cut, 7, true).last, SIMBA__HTTP_INVALID);
    }
}

/* The first byte of the next answer is not taken. */
static void an_answer_ends_where_it_says(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n";
    const seen all = read_text(text, sizeof text);
    assert_int_equal(all.last, SIMBA__HTTP_END);
    assert_string_equal(text + all.used, "HTTP/1.1 200 OK\r\n");
}

static void a_body_without_a_length_lasts_until_the_end(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello";
    for (size_t piece = 1; piece < sizeof text; piece++) {
        const seen all = read_answer(text, sizeof text - 1, piece, true);
        assert_int_equal(all.last, SIMBA__HTTP_END);
        assert_true(all.head.closes);
        assert_int_equal(all.length, 5);
    }
    assert_int_equal(read_text(text, 100).last, SIMBA__HTTP_MORE);
}

static void times_are_read(void **state)
{
    seen all = read_text("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 120\r\n"
                         "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n",
                         100);
    assert_int_equal(all.head.retry_after_s, 120);
    assert_true(all.head.date_s == 784111777);
    all = read_text("HTTP/1.1 200 OK\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                    "Date: 1994-11-06\r\nContent-Length: 0\r\n\r\n",
                    100);
    assert_int_equal(all.last, SIMBA__HTTP_END);
    assert_int_equal(all.head.retry_after_s, -1);
    assert_true(all.head.date_s == 0);
    assert_true(read_text("HTTP/1.1 200 OK\r\nDate: Sun, 06 anF 1994 08:49:37 GMT\r\n", 100).head.date_s == 0);
}

static void what_two_readers_could_understand_differently_is_refused(void **state)
{
    static const char *const heads[] = {
        "HTTP/2 200 OK\r\n",
        "HTTP/1.2 200 OK\r\n",
        "HTTP/1.1  200 OK\r\n",
        "HTTP/1.1 20 OK\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 099 OK\r\n",
        "HTTP/1.1 600 OK\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n",
        "\r\n",
        "ICY 200 OK\r\n",
        "+OK\r\n",
        "HTTP/1.1 200 OK\n",
        "HTTP/1.1 200 OK\r\nA: b\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n",
        "HTTP/1.1 200 OK\r\nA: \x01\r\n",
        "HTTP/1.1 200 OK\r\n A: b\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n",
        "HTTP/1.1 200 OK\r\nno header\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ng\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\n",
    };
    static const char with_zero[] = "HTTP/1.1 200 OK\r\nA: b\0c\r\n";
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t piece = 1; piece < 100; piece += 9) {
            const seen all = read_text(heads[i], piece);
            assert_int_equal(all.last, SIMBA__HTTP_INVALID);
            assert_non_null(all.why);
        }
    assert_int_equal(read_answer(with_zero, sizeof with_zero - 1, 100, false).last, SIMBA__HTTP_INVALID);
}

/* `count` lines of `length` bytes after a beginning. */
static simba__http_event many_lines(const char *beginning, size_t count, size_t length)
{
    const size_t size = strlen(beginning) + count * (length + 2);
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'a', size);
    for (size_t i = 0; i < strlen(beginning); i++)
        text[i] = beginning[i];
    for (char *line = text + strlen(beginning); line < text + size; line += length + 2) {
        line[1] = ':';
        line[length] = '\r';
        line[length + 1] = '\n';
    }
    const simba__http_event last = read_answer(text, size, 16384, false).last;
    free(text);
    return last;
}

static void everything_has_a_limit(void **state)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    static const char trailers[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    char *again = malloc(4096 * 30 + 1);
    assert_int_equal(many_lines(head, 1, SIMBA__HTTP_LINE_MOST - 2), SIMBA__HTTP_MORE);
    assert_int_equal(many_lines(head, 1, SIMBA__HTTP_LINE_MOST - 1), SIMBA__HTTP_INVALID);
    assert_int_equal(many_lines(head, 7, 8000), SIMBA__HTTP_MORE);
    assert_int_equal(many_lines(head, 9, 8000), SIMBA__HTTP_INVALID);
    assert_int_equal(many_lines(head, SIMBA__HTTP_HEADERS_MOST, 8), SIMBA__HTTP_MORE);
    assert_int_equal(many_lines(head, SIMBA__HTTP_HEADERS_MOST + 2, 8), SIMBA__HTTP_INVALID);
    assert_int_equal(many_lines(trailers, SIMBA__HTTP_HEADERS_MOST + 2, 8), SIMBA__HTTP_INVALID);
    again[0] = '\0';
    for (char *at = again; at < again + 4096 * 25; at += strlen(at))
        strcpy(at, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(read_text(again, 16384).last, SIMBA__HTTP_INVALID);
    free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_read_in_any_pieces),
        cmocka_unit_test(an_answer_ends_where_it_says),
        cmocka_unit_test(a_body_without_a_length_lasts_until_the_end),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(what_two_readers_could_understand_differently_is_refused),
        cmocka_unit_test(everything_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
