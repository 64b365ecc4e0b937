/* Names travel into every store, into file contents and onto terminals, and other programs contend under the same ones:
 * what may stand in them is decided once, and these tests are the list. UTF-8 is judged against a second, slower
 * decoder, over every code point and over random bytes. */
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

/* --- a decoder that takes its time ---------------------------------------------------------------- */

/* The code point at *text, which moves past it; -1: that is no character. Arithmetic where the library has tables. */
static long decode(const unsigned char **text)
{
    static const long smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = *text;
    int length;
    long point;
    if (s[0] < 0x80) {
        length = 1;
        point = s[0];
    } else if (s[0] >= 0xC0 && s[0] < 0xE0) {
        length = 2;
        point = s[0] - 0xC0;
    } else if (s[0] >= 0xE0 && s[0] < 0xF0) {
        length = 3;
        point = s[0] - 0xE0;
    } else if (s[0] >= 0xF0 && s[0] < 0xF8) {
        length = 4;
        point = s[0] - 0xF0;
    } else {
        return -1;
    }
    for (int i = 1; i < length; i++) {
        if (s[i] < 0x80 || s[i] >= 0xC0)
            return -1;
        point = point * 64 + (s[i] - 0x80);
    }
    if (point < smallest[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return -1;
    *text += length;
    return point;
}

static size_t encode(long point, char out[5])
{
    size_t length = 0;
    if (point < 0x80) {
        out[length++] = (char)point;
    } else if (point < 0x800) {
        out[length++] = (char)(0xC0 | (point >> 6));
        out[length++] = (char)(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
        out[length++] = (char)(0xE0 | (point >> 12));
        out[length++] = (char)(0x80 | ((point >> 6) & 0x3F));
        out[length++] = (char)(0x80 | (point & 0x3F));
    } else {
        out[length++] = (char)(0xF0 | (point >> 18));
        out[length++] = (char)(0x80 | ((point >> 12) & 0x3F));
        out[length++] = (char)(0x80 | ((point >> 6) & 0x3F));
        out[length++] = (char)(0x80 | (point & 0x3F));
    }
    out[length] = '\0';
    return length;
}

static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s)
        if (decode(&s) < 0)
            return false;
    return true;
}

/* What the rules make of a name that has no blank at either end. */
static bool is_clean(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        const long point = decode(&s);
        if (point < 0x20 || point == 0x7F)
            return false;
    }
    return text[0] != '\0';
}

/* --- helpers -------------------------------------------------------------------------------------- */

static void repeat(char *out, const char *piece, size_t times)
{
    const size_t length = strlen(piece);
    for (size_t i = 0; i < times; i++)
        memcpy(out + i * length, piece, length);
    out[times * length] = '\0';
}

typedef int (*check_fn)(const char *text, simba_error *err);

static void assert_refused(check_fn check, const char *text, const char *because)
{
    simba_error err = {.code = 1, .text = "untouched"};
    assert_int_equal(check(text, &err), SIMBA_EINVAL);
    assert_int_equal(err.code, SIMBA_EINVAL);
    assert_non_null(strstr(err.text, because));
    assert_true(is_utf8(err.text));
    assert_int_equal(check(text, NULL), SIMBA_EINVAL);
}

static const check_fn both[] = {simba__check_mutex, simba__check_id};

/* --- tests ---------------------------------------------------------------------------------------- */

/* Every code point there is, encoded as it should be, is a name; surrogates are not. */
static void every_code_point_is_judged_right(void **state)
{
    for (long point = 0x21; point <= 0x10FFFF; point++) {
        char name[5];
        encode(point, name);
        const bool fine = point != 0x7F && (point < 0xD800 || point > 0xDFFF);
        if ((simba__check_mutex(name, NULL) == 0) != fine)
            fail_msg("U+%04lX is judged wrong", point);
    }
}

static void assert_agrees(const char *name)
{
    const bool fine = is_clean(name);
    for (size_t c = 0; c < 2; c++)
        if ((both[c](name, NULL) == 0) != fine) {
            for (const unsigned char *s = (const unsigned char *)name; *s; s++)
                fprintf(stderr, "%02X ", *s);
            fail_msg("the bytes above are judged wrong");
        }
}

/* Every string of one and of two bytes. */
static void all_short_byte_strings_agree_with_the_decoder(void **state)
{
    for (int a = 1; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            if (a == ' ' || b == ' ' || (a == '@' && b == '@'))
                continue;
            const char name[] = {(char)a, (char)b, '\0'};
            assert_agrees(name);
        }
}

/* A message may show the beginning of a bad name, but never half a character of it. */
static void messages_do_not_cut_characters(void **state)
{
    static const char *const characters[] = {"é", "通", "🦁"};
    for (size_t i = 0; i < 3; i++)
        for (size_t shift = 0; shift < 4; shift++) {
            char name[1024] = "xxx";
            repeat(name + shift, characters[i], 200);
            assert_refused(simba__check_mutex, name, "characters, at most");
            assert_refused(simba__check_id, name, "bytes, at most");
            strcat(name, " ");
            assert_refused(simba__check_mutex, name, "blank");
            assert_refused(simba__check_id, name, "blank");
        }
}

/* The cut itself: all of a text that fits, and whole characters of one that does not. */
static void cut_keeps_whole_characters(void **state)
{
    assert_int_equal(simba__text_cut("", 4), 0);
    assert_int_equal(simba__text_cut("abc", 4), 3);
    assert_int_equal(simba__text_cut("abcd", 4), 4);
    assert_int_equal(simba__text_cut("abcde", 4), 4);
    assert_int_equal(simba__text_cut("ab通", 5), 5);
    assert_int_equal(simba__text_cut("ab通", 4), 2);
    assert_int_equal(simba__text_cut("ab通x", 5), 5);
    assert_int_equal(simba__text_cut("🦁", 3), 0);
    assert_int_equal(simba__text_cut("\x80\x80\x80", 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_judged_right),
        cmocka_unit_test(all_short_byte_strings_agree_with_the_decoder),
        cmocka_unit_test(messages_do_not_cut_characters),
        cmocka_unit_test(cut_keeps_whole_characters),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
