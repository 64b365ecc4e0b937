/* JSON and base64: what is taken, what is refused, and what is read from it and written. */
#include "net/json.h"

#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

/* In memory of its own, so that reading beyond its end is found out. */
static bool is_json(const char *text, size_t length)
{
    char *copy = malloc(length + (length == 0));
    simba__json value;
    assert_non_null(copy);
    memcpy(copy, text, length);
    const bool good = simba__json_read(copy, length, &value);
    free(copy);
    return good;
}

static simba__json parse(const char *text)
{
    simba__json value = {0};
    assert_true(simba__json_read(text, strlen(text), &value));
    return value;
}

static void json_is_taken(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " { } ",
        "0",
        "-0.5e+10",
        "12E3",
        "true",
        "null",
        "\"\"",
        "[1,2 ,\t[3]\r\n]",
        "{\"a\":{\"b\":[{},null,false]},\"\":\"\"}",
        "\"\\u00e4\\uD83D\\ude00\\n\\/\\\"\\\\\"",
        "\"\xC3\xA4\xF0\x9F\x98\x80\x7F\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_true(is_json(texts[i], strlen(texts[i])));
}

/* Each of them whole, and each beginning of a good one. */
static void what_is_not_json_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "01",
        "+1",
        "-",
        "1.",
        ".5",
        "1e",
        "tru",
        "nul",
        "truefalse",
        "[1]x",
        "'a'",
        "\"",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\n\"",
        "\"\xC3\"",
        "\"\xED\xA0\x80\"",
        "\"\xC0\xAF\"",
        "\"\xFF\"",
    };
    static const char good[] = "{\"a\":[1,-2.5e3,\"\\u00e4\xC3\xA4\"],\"b\":{\"c\":true}}";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (is_json(texts[i], strlen(texts[i])))
            fail_msg("%s", texts[i]);
    for (size_t length = 0; length < sizeof good - 1; length++)
        assert_false(is_json(good, length));
    assert_false(is_json("\"a\0b\"", 5));
    assert_false(is_json("1\0", 2));
}

static void depth_has_a_limit(void **state)
{
    for (size_t depth = 1; depth < 40; depth++) {
        char text[80];
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(is_json(text, 2 * depth), depth <= 32);
    }
}

static void members_and_elements_are_found(void **state)
{
    const simba__json all =
        parse("{ \"first\" : null , \"a\":1,\"a\":2, \"ab\" : {\"a\\u002fb\":[ 1 , [2,3],\"x\" ]},\"last\":true}");
    int64_t number = 0;
    assert_true(simba__json_int(simba__json_get(all, "a"), &number));
    assert_int_equal(number, 1);
    assert_int_equal(simba__json_get(all, "first").length, 0);
    assert_int_equal(simba__json_get(all, "").length, 0);
    assert_int_equal(simba__json_get(all, "abc").length, 0);
    assert_int_equal(simba__json_get(simba__json_get(all, "no"), "such").length, 0);
    assert_true(simba__json_bool(simba__json_get(all, "last")));
    assert_false(simba__json_bool(simba__json_get(all, "a")));
    const simba__json array = simba__json_get(simba__json_get(all, "ab"), "a/b");
    simba__json element = {0};
    assert_true(simba__json_next(array, &element));
    assert_int_equal(element.length, 1);
    assert_true(simba__json_next(array, &element));
    assert_int_equal(element.length, strlen("[2,3]"));
    assert_true(simba__json_next(array, &element));
    assert_int_equal(element.at[0], '"');
    assert_false(simba__json_next(array, &element));
    element = (simba__json){0};
    assert_false(simba__json_next(parse("[ ]"), &element));
    assert_false(simba__json_next(parse("{}"), &element));
    assert_false(simba__json_next(simba__json_get(all, "no"), &element));
}

static void numbers_have_64_bits(void **state)
{
    static const struct {
        const char *text;
        int64_t number;
    } good[] = {{"0", 0},
                {"-1", -1},
                {"\"42\"", 42},
                {"\"-42\"", -42},
                {"9223372036854775807", INT64_MAX},
                {"\"-9223372036854775808\"", INT64_MIN}};
    static const char *const bad[] = {"1.0",
                                      "1e3",
                                      "\"\"",
                                      "\"-\"",
                                      "\" 1\"",
                                      "\"1 \"",
                                      "\"+1\"",
                                      "\"0x1\"",
                                      "true",
                                      "[1]",
                                      "\"\\u0031\"",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "\"99999999999999999999\""};
    int64_t number = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(simba__json_int(parse(bad[i]), &number));
    assert_int_equal(number, 7);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(simba__json_int(parse(good[i].text), &number));
        assert_true(number == good[i].number);
    }
    assert_true(simba__json_int((simba__json){0}, &number));
    assert_int_equal(number, 0);
}

static void texts_lose_their_escapes(void **state)
{
    char out[16];
    assert_true(simba__json_text(parse("\"a\\u00e4\\ud83d\\ude00\\n\\\"\""), out, sizeof out));
    assert_string_equal(out, "a\xC3\xA4\xF0\x9F\x98\x80\n\"");
    assert_true(simba__json_text(parse("\"123456789012345\""), out, sizeof out));
    assert_string_equal(out, "123456789012345");
    assert_false(simba__json_text(parse("\"1234567890123456\""), out, sizeof out));
    assert_string_equal(out, "");
    assert_false(simba__json_text(parse("\"12345678901234\xC3\xA4\""), out, sizeof out));
    assert_false(simba__json_text(parse("\"a\\u0000b\""), out, sizeof out));
    assert_string_equal(out, "");
    assert_false(simba__json_text(parse("12"), out, sizeof out));
    assert_false(simba__json_text((simba__json){0}, out, sizeof out));
}

static void base64_there_and_back(void **state)
{
    static const char *const texts[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"\xFF\xFE\xFD", "//79"},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zg=v", "=g==", "====", "Z===", "Zg==Zg==", "Zm 9", "Zm9\xC3", "Zm9-"};
    char out[SIMBA__BASE64_SIZE(6)], back[7];
    size_t length;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t size = strlen(texts[i][0]);
        assert_string_equal(simba__base64(texts[i][0], size, out), texts[i][1]);
        assert_int_equal(strlen(out) + 1, SIMBA__BASE64_SIZE(size));
        assert_true(simba__base64_decode(out, strlen(out), back, size, &length));
        assert_int_equal(length, size);
        assert_memory_equal(back, texts[i][0], size);
        if (size > 0)
            assert_false(simba__base64_decode(out, strlen(out), back, size - 1, &length));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(simba__base64_decode(bad[i], strlen(bad[i]), back, sizeof back, &length));
    assert_true(simba__json_base64(parse("\"Zm9vYmFy\""), back, sizeof back, &length));
    assert_string_equal(back, "foobar");
    assert_false(simba__json_base64(parse("\"Zm9vYmFy\""), back, sizeof back - 1, &length));
    assert_false(simba__json_base64(parse("12"), back, sizeof back, &length));
    assert_true(simba__json_base64((simba__json){0}, back, sizeof back, &length));
    assert_int_equal(length, 0);
    assert_string_equal(back, "");
}

static void what_is_written_can_be_read(void **state)
{
    simba__buffer out = {0};
    simba__json value;
    simba__json_put(&out, "{'a':%s,'n':%lld,'t':'%lld',%s:[%s]}", "it's \"\\\n\x01\xC3\xA4\xFF", -5LL,
                    -8070450532247928832LL, "k/1", "xy");
    assert_false(out.failed);
    static const char expected[] = "{\"a\":\"it's \\u0022\\u005c\\u000a\\u0001\xC3\xA4\xEF\xBF\xBD\",\"n\":-5,"
                                   "\"t\":\"-8070450532247928832\",\"k/1\":[\"xy\"]}";
    assert_int_equal(out.length, sizeof expected - 1);
    assert_memory_equal(out.data, expected, out.length);
    assert_true(simba__json_read(out.data, out.length, &value));
    simba__buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_taken),         cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(depth_has_a_limit),     cmocka_unit_test(members_and_elements_are_found),
        cmocka_unit_test(numbers_have_64_bits),  cmocka_unit_test(texts_lose_their_escapes),
        cmocka_unit_test(base64_there_and_back), cmocka_unit_test(what_is_written_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
