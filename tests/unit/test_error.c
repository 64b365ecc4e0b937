/* Programs branch on the codes and people read the sentences. The numbers are a promise, so they are written down here
 * a second time; the sentences have to survive being too long, and being passed outward through several hands. */
#include "util/error.h"

#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

static const struct {
    int code, number;
    const char *name;
    bool transient;
} codes[] = {
    {SIMBA_EINVAL, -1, "SIMBA_EINVAL", false},       {SIMBA_ENOMEM, -2, "SIMBA_ENOMEM", true},
    {SIMBA_ESTATE, -3, "SIMBA_ESTATE", false},       {SIMBA_ETIMEDOUT, -4, "SIMBA_ETIMEDOUT", true},
    {SIMBA_ECANCELED, -5, "SIMBA_ECANCELED", true},  {SIMBA_ECLOSED, -6, "SIMBA_ECLOSED", false},
    {SIMBA_EFORKED, -7, "SIMBA_EFORKED", false},     {SIMBA_EURL, -8, "SIMBA_EURL", false},
    {SIMBA_ENOTBUILT, -9, "SIMBA_ENOTBUILT", false}, {SIMBA_EUNAVAILABLE, -10, "SIMBA_EUNAVAILABLE", true},
    {SIMBA_ESTORE, -11, "SIMBA_ESTORE", false},      {SIMBA_EPERM, -12, "SIMBA_EPERM", false},
    {SIMBA_ECORRUPT, -13, "SIMBA_ECORRUPT", false},  {SIMBA_ELOST, -14, "SIMBA_ELOST", false},
    {SIMBA_ENOTSUP, -15, "SIMBA_ENOTSUP", false},    {SIMBA_ENOTFOUND, -16, "SIMBA_ENOTFOUND", false},
    {SIMBA_ESYSTEM, -17, "SIMBA_ESYSTEM", false},    {SIMBA_ETOOSOON, -18, "SIMBA_ETOOSOON", false},
};
enum { CODES = sizeof codes / sizeof *codes };

/* A number, once given, stays; a new code has to be added here too. */
static void numbers_are_stable(void **state)
{
    size_t known = 0;
#define COUNT(name, number, text) known++;
    SIMBA_ERRORS(COUNT)
#undef COUNT
    assert_int_equal(known, CODES);
    for (size_t i = 0; i < CODES; i++) {
        assert_int_equal(codes[i].code, codes[i].number);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(codes[i].number, codes[j].number);
    }
}

/* Every code has its name and a text of its own. */
static void codes_have_names_and_texts(void **state)
{
    for (size_t i = 0; i < CODES; i++) {
        assert_string_equal(simba_error_name(codes[i].code), codes[i].name);
        assert_true(strlen(simba_error_text(codes[i].code)) > 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(simba_error_text(codes[i].code), simba_error_text(codes[j].code));
    }
    assert_string_equal(simba_error_text(SIMBA_EINVAL), "bad argument");
}

/* What is no code still has words, never NULL. */
static void other_numbers_have_words_too(void **state)
{
    static const int others[] = {1, -19, -1000, 42, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_string_equal(simba_error_name(others[i]), "SIMBA_E?");
        assert_string_equal(simba_error_text(others[i]), "unknown error");
    }
    assert_string_equal(simba_error_text(0), "no error");
    assert_string_equal(simba_error_name(0), "0");
}

/* Which errors are worth another try is the same list everywhere. */
static void transient_codes_are_these(void **state)
{
    for (size_t i = 0; i < CODES; i++)
        assert_int_equal(simba__is_transient(codes[i].code), codes[i].transient);
    assert_false(simba__is_transient(0));
    assert_false(simba__is_transient(-1000));
}

/* The code and the sentence arrive, and the code is returned, also where nobody listens. */
static void fail_fills_in(void **state)
{
    simba_error err = {0};
    assert_int_equal(simba__fail(&err, SIMBA_EURL, "%s is %d", "answer", 42), SIMBA_EURL);
    assert_int_equal(err.code, SIMBA_EURL);
    assert_string_equal(err.text, "answer is 42");
    assert_int_equal(simba__fail(NULL, SIMBA_EPERM, "%s", "unheard"), SIMBA_EPERM);
}

/* A text that just fits is whole; one byte more, and its end is marked. */
static void long_texts_are_marked(void **state)
{
    simba_error err;
    char text[sizeof err.text + 1];
    memset(text, 'x', sizeof text);
    text[sizeof err.text - 1] = '\0';
    simba__fail(&err, SIMBA_EINVAL, "%s", text);
    assert_string_equal(err.text, text);

    text[sizeof err.text - 1] = 'x';
    text[sizeof err.text] = '\0';
    simba__fail(&err, SIMBA_EINVAL, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(strspn(err.text, "x"), sizeof err.text - sizeof "…");
    assert_string_equal(err.text + sizeof err.text - sizeof "…", "…");
}

/* The text is `shift` times "x", then as many whole characters as there is room for, then the mark. */
static void assert_whole(const char *text, size_t shift, const char *character)
{
    assert_int_equal(strspn(text, "x"), shift);
    text += shift;
    const size_t size = strlen(character);
    size_t count = 0;
    for (; strncmp(text, character, size) == 0; text += size)
        count++;
    assert_string_equal(text, "…");
    const size_t room = sizeof((simba_error *)NULL)->text - sizeof "…" - shift;
    assert_int_equal(count, room / size);
}

/* The cut never goes through a character, wherever it falls. */
static void the_cut_keeps_characters_whole(void **state)
{
    static const char *const characters[] = {"é", "通", "🦁"};
    for (size_t c = 0; c < 3; c++)
        for (size_t shift = 0; shift < 8; shift++) {
            char text[1024] = "xxxxxxxx";
            text[shift] = '\0';
            for (size_t i = 0; i < 200; i++)
                strcat(text, characters[c]);
            simba_error err;
            simba__fail(&err, SIMBA_EINVAL, "%s", text);
            assert_whole(err.text, shift, characters[c]);
        }
}

/* Each caller puts in front what it was doing, and the code stays what the innermost said. */
static void wrap_puts_in_front(void **state)
{
    simba_error err;
    const int rc = simba__fail(&err, SIMBA_EPERM, "cannot write");
    assert_int_equal(simba__wrap(&err, rc, "file %d", 7), SIMBA_EPERM);
    assert_int_equal(simba__wrap(&err, rc, "opening %s", "it"), SIMBA_EPERM);
    assert_string_equal(err.text, "opening it: file 7: cannot write");
    assert_int_equal(err.code, SIMBA_EPERM);
    assert_int_equal(simba__wrap(NULL, SIMBA_EPERM, "unheard"), SIMBA_EPERM);
}

/* A percent sign in an inner text is text, not a format. */
static void wrap_does_not_read_formats_twice(void **state)
{
    simba_error err;
    simba__fail(&err, SIMBA_EURL, "%s", "100%s %n %d");
    simba__wrap(&err, SIMBA_EURL, "%s", "50%s");
    assert_string_equal(err.text, "50%s: 100%s %n %d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_stable),
        cmocka_unit_test(codes_have_names_and_texts),
        cmocka_unit_test(other_numbers_have_words_too),
        cmocka_unit_test(transient_codes_are_these),
        cmocka_unit_test(fail_fills_in),
        cmocka_unit_test(long_texts_are_marked),
        cmocka_unit_test(the_cut_keeps_characters_whole),
        cmocka_unit_test(wrap_puts_in_front),
        cmocka_unit_test(wrap_does_not_read_formats_twice),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
