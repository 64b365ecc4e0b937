/* Text from outside becomes text that can be shown: nothing in it has an effect, and nothing that is harmless changes. */
#include "util/escape.h"

#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

static void assert_escaped(const char *text, const char *shown)
{
    char once[256];
    char twice[256];
    assert_ptr_equal(simba__escape(text, once, sizeof once), once);
    assert_string_equal(once, shown);
    assert_string_equal(simba__escape(once, twice, sizeof twice), shown);
}

/* Letters of all languages, signs and pictures stay. */
static void harmless_text_stays(void **state)
{
    assert_escaped("", "");
    assert_escaped("0:17@10.0.0.1 \\ \"quoted\" %41", "0:17@10.0.0.1 \\ \"quoted\" %41");
    assert_escaped("Löwe 通 🦁 \xC2\xA0", "Löwe 通 🦁 \xC2\xA0");
    assert_escaped("\xF4\x8F\xBF\xBD", "\xF4\x8F\xBF\xBD"); /* U+10FFFD */
}

/* What a terminal or a reader of lines would act upon. */
static void control_characters_are_escaped(void **state)
{
    assert_escaped("\x01\t\n\r\x1B[31m\x1F\x7F", "\\x01\\x09\\x0A\\x0D\\x1B[31m\\x1F\\x7F");
    assert_escaped("\xC2\x80\xC2\x9B\xC2\x9F", "\\xC2\\x80\\xC2\\x9B\\xC2\\x9F");
    assert_escaped("\u2028\u2029", "\\xE2\\x80\\xA8\\xE2\\x80\\xA9");
    assert_escaped("\u202E\u2066\u2069\u200F", "\\xE2\\x80\\xAE\\xE2\\x81\\xA6\\xE2\\x81\\xA9\\xE2\\x80\\x8F");
    assert_escaped("\xEF\xBF\xBE", "\\xEF\\xBF\\xBE"); /* U+FFFE, which no XML may have */
}

/* Bytes that are not UTF-8, each by itself; a character that follows is whole. */
static void broken_utf8_is_escaped(void **state)
{
    assert_escaped("\x80\xBF\xFF", "\\x80\\xBF\\xFF");
    assert_escaped("\xC3", "\\xC3");
    assert_escaped("\xE2\x82", "\\xE2\\x82");
    assert_escaped("\xE2\x82z\xC3ö", "\\xE2\\x82z\\xC3ö");
    assert_escaped("\xC0\xAF\xE0\x80\xAF\xF0\x80\x80\xAF", "\\xC0\\xAF\\xE0\\x80\\xAF\\xF0\\x80\\x80\\xAF");
    assert_escaped("\xED\xA0\x80", "\\xED\\xA0\\x80");                   /* a surrogate */
    assert_escaped("\xF4\x90\x80\x80\xF8", "\\xF4\\x90\\x80\\x80\\xF8"); /* past the last character */
}

/* What does not fit is cut between two characters, or two escapes, and marked. */
static void long_text_is_cut(void **state)
{
    char out[16];
    assert_string_equal(simba__escape("0123456789abcde", out, sizeof out), "0123456789abcde");
    assert_string_equal(simba__escape("0123456789abcdef", out, sizeof out), "0123456789ab…");
    assert_string_equal(simba__escape("0123456789aööö", out, sizeof out), "0123456789a…");
    assert_string_equal(simba__escape("0123456789\n\n", out, sizeof out), "0123456789…");
    assert_string_equal(simba__escape("\n\n\n\n", out, sizeof out), "\\x0A\\x0A\\x0A…");
}

/* A value behind "key=" is one word, or quoted so that its end can be found. */
static void values_are_quoted(void **state)
{
    static const struct {
        const char *value, *quoted;
    } cases[] = {
        {"", ""},
        {"web-3.1742.k7f2q9ab", "web-3.1742.k7f2q9ab"},
        {"h\xC3\xB6st", "h\xC3\xB6st"},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"a\"b", "\"a\\\"b\""},
        {"a\\b", "\"a\\\\b\""},
        {"a\nb", "\"a\\x0Ab\""},
        {"\xFF", "\"\\xFF\""},
    };
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(simba__quote(cases[i].value, out, sizeof out), cases[i].quoted);
    char small[12];
    assert_string_equal(simba__quote("123456789012", small, sizeof small), "\"123456…\"");
    assert_string_equal(simba__quote("\"\"\"\"\"\"\"\"", small, sizeof small), "\"\\\"\\\"\\\"…\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harmless_text_stays),    cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(broken_utf8_is_escaped), cmocka_unit_test(long_text_is_cut),
        cmocka_unit_test(values_are_quoted),
    };
    return cmocka_run_group_tests_name("escape", tests, NULL, NULL);
}
