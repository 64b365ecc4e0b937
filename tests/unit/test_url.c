/* A store URL is the one text that people type, paste and log, and the one that may carry a password. These tests pin
 * what each part is, that no malformed text can hurt, and above all that a password comes out of the accessor made for
 * it and nowhere else: not in the URL as shown, not in any message. */
#include "util/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"
#include "util/random.h"

enum { LONGEST = 4096, SETTINGS = 32 };

static simba_url *parse(const char *text)
{
    simba_error err = {.code = 1, .text = "untouched"};
    simba_url *url = NULL;
    if (simba_url_parse(text, &err, &url) != 0)
        fail_msg("\"%s\" is refused: %s", text, err.text);
    assert_int_equal(err.code, 1);
    assert_string_equal(err.text, "untouched");
    assert_non_null(url);
    return url;
}

static void assert_refused(const char *text, const char *because)
{
    simba_error err = {0};
    simba_url *url = (simba_url *)&err; /* anything that is not NULL */
    assert_int_equal(simba_url_parse(text, &err, &url), SIMBA_EURL);
    assert_int_equal(err.code, SIMBA_EURL);
    if (!strstr(err.text, because))
        fail_msg("\"%s\" does not say \"%s\"", err.text, because);
    assert_ptr_equal(url, &err);
    assert_int_equal(simba_url_parse(text, NULL, &url), SIMBA_EURL);
}

static void assert_same(const char *got, const char *expected)
{
    if (!expected)
        assert_null(got);
    else
        assert_string_equal(got, expected);
}

/* --- the parts ------------------------------------------------------------------------------------ */

/* Every combination of parts that is there or not, and what the accessors make of it. */
static void parts_are_told_apart(void **state)
{
    static const struct {
        const char *text, *scheme, *user, *password, *authority, *path, *shown;
    } cases[] = {
        {"memory://x", "memory", NULL, NULL, "x", "", "memory://x"},
        {"memory://", "memory", NULL, NULL, "", "", "memory://"},
        {"sqlite:///var/a.db", "sqlite", NULL, NULL, "", "/var/a.db", "sqlite:///var/a.db"},
        {"sqlite:///home/a@b/c.db", "sqlite", NULL, NULL, "", "/home/a@b/c.db", "sqlite:///home/a@b/c.db"},
        {"redis://h", "redis", NULL, NULL, "h", "", "redis://h"},
        {"redis://h:1/", "redis", NULL, NULL, "h:1", "/", "redis://h:1/"},
        {"redis://h?a=1", "redis", NULL, NULL, "h", "", "redis://h?a=1"},
        {"redis://h/?a=1", "redis", NULL, NULL, "h", "/", "redis://h/?a=1"},
        {"redis://h/0?", "redis", NULL, NULL, "h", "/0", "redis://h/0?"},
        {"redis://u@h", "redis", "u", NULL, "h", "", "redis://u@h"},
        {"redis://@h", "redis", "", NULL, "h", "", "redis://@h"},
        {"redis://u:p@h/0", "redis", "u", "p", "h", "/0", "redis://u:***@h/0"},
        {"redis://:p@h", "redis", "", "p", "h", "", "redis://:***@h"},
        {"redis://u:@h", "redis", "u", "", "h", "", "redis://u:***@h"},
        {"redis://u:p@", "redis", "u", "p", "", "", "redis://u:***@"},
        {"redis://u:p:q@h", "redis", "u", "p:q", "h", "", "redis://u:***@h"},
        {"redis://u:p@q@h", "redis", "u", "p@q", "h", "", "redis://u:***@h"},
        {"redis://u:p@h1:1,h2:2,h3/0?a=1", "redis", "u", "p", "h1:1,h2:2,h3", "/0", "redis://u:***@h1:1,h2:2,h3/0?a=1"},
        {"redis://u:p@[::1]:6379/0", "redis", "u", "p", "[::1]:6379", "/0", "redis://u:***@[::1]:6379/0"},
        {"a+b-c.9://h", "a+b-c.9", NULL, NULL, "h", "", "a+b-c.9://h"},
        {"x://h/a//b/../c", "x", NULL, NULL, "h", "/a//b/../c", "x://h/a//b/../c"},
        {"x://h/a://b", "x", NULL, NULL, "h", "/a://b", "x://h/a://b"},
        {"x://u:a#b@h", "x", "u", "a#b", "h", "", "x://u:***@h"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        simba_url *url = parse(cases[i].text);
        assert_same(simba_url_scheme(url), cases[i].scheme);
        assert_same(simba_url_user(url), cases[i].user);
        assert_same(simba_url_password(url), cases[i].password);
        assert_same(simba_url_authority(url), cases[i].authority);
        assert_same(simba_url_path(url), cases[i].path);
        assert_same(simba_url_shown(url), cases[i].shown);
        simba_url_free(url);
    }
}

/* Each setting by its name, in any number up to the limit. */
static void settings_are_found(void **state)
{
    simba_url *url = parse("x://h/?ttl=10s&transition=6s&empty=&eq=a=b&UPPER=1&q=what?");
    assert_string_equal(simba_url_query(url, "ttl"), "10s");
    assert_string_equal(simba_url_query(url, "transition"), "6s");
    assert_string_equal(simba_url_query(url, "empty"), "");
    assert_string_equal(simba_url_query(url, "eq"), "a=b");
    assert_string_equal(simba_url_query(url, "UPPER"), "1");
    assert_string_equal(simba_url_query(url, "q"), "what?");
    assert_null(simba_url_query(url, "upper"));
    assert_null(simba_url_query(url, "tt"));
    assert_null(simba_url_query(url, ""));
    simba_url_free(url);
}

/* Escapes are undone in every part, after the parts were told apart; the URL as shown stays as it was written. */
static void escapes_are_undone(void **state)
{
    static const char text[] = "x://us%40er:p%3A%2F%3f@h%2Ci/a%20b%3Fc?k%3D1=v%26w%25&%c3%a9=%F0%9f%a6%81";
    simba_url *url = parse(text);
    assert_string_equal(simba_url_user(url), "us@er");
    assert_string_equal(simba_url_password(url), "p:/?");
    assert_string_equal(simba_url_authority(url), "h,i");
    assert_string_equal(simba_url_path(url), "/a b?c");
    assert_string_equal(simba_url_query(url, "k=1"), "v&w%");
    assert_string_equal(simba_url_query(url, "é"), "🦁");
    assert_string_equal(simba_url_shown(url), "x://us%40er:***@h%2Ci/a%20b%3Fc?k%3D1=v%26w%25&%c3%a9=%F0%9f%a6%81");
    simba_url_free(url);
    /* A plus sign is a plus sign. */
    url = parse("x://h/a+b?k=c+d");
    assert_string_equal(simba_url_path(url), "/a+b");
    assert_string_equal(simba_url_query(url, "k"), "c+d");
    simba_url_free(url);
}

/* --- what is refused ------------------------------------------------------------------------------ */

/* Texts that are no URLs, each with a word about why. */
static void malformed_texts_are_refused(void **state)
{
    static const struct {
        const char *text, *because;
    } cases[] = {
        {NULL, "NULL"},
        {"", "empty"},
        {"x", "begins with a scheme"},
        {"://h", "begins with a scheme"},
        {"/var/lib/a.db", "begins with a scheme"},
        {"sqlite:/var/lib/a.db", "begins with a scheme"},
        {"host:6379", "begins with a scheme"},
        {"x y://h", "the scheme"},
        {" x://h", "the scheme"},
        {"x%41://h", "the scheme"},
        {"\xC3\xA9://h", "the scheme"},
        {"x://%zz@h", "the user of the URL has a broken %-escape"},
        {"x://u:%4@h", "the password of the URL has a broken %-escape"},
        {"x://%", "the host of the URL has a broken %-escape"},
        {"x://h%4", "the host of the URL has a broken %-escape"},
        {"x://h%g0", "the host of the URL has a broken %-escape"},
        {"x://h/%0", "the path of the URL has a broken %-escape"},
        {"x://h/%0?41", "the path of the URL has a broken %-escape"},
        {"x://h/%00", "the path of the URL has a broken %-escape"},
        {"x://h?a=%", "the query of the URL has a broken %-escape"},
        {"x://h?%=a", "the query of the URL has a broken %-escape"},
        {"x://h?a%3=4", "the query of the URL has a broken %-escape"},
        {"x://h?a=b%4&1=2", "the query of the URL has a broken %-escape"},
        {"x://h?a", "\"a\" in the URL is not of the form key=value"},
        {"x://h?=a", "\"=a\" in the URL is not of the form key=value"},
        {"x://h?a=1&&b=2", "\"\" in the URL is not of the form key=value"},
        {"x://h?a=1&b", "\"b\" in the URL is not of the form key=value"},
        {"x://h?a=1&b=2&a=3", "\"a\" stands twice"},
        {"x://h?a=1&%61=3", "\"a\" stands twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].text, cases[i].because);
}

/* A URL may have 4096 bytes, and 32 settings. */
static void limits_are_kept(void **state)
{
    char text[LONGEST + 2] = "x://h/";
    memset(text + 6, 'a', sizeof text - 7);
    text[LONGEST] = '\0';
    simba_url *url = parse(text);
    assert_int_equal(strlen(simba_url_path(url)), LONGEST - 5);
    assert_string_equal(simba_url_shown(url), text);
    simba_url_free(url);
    text[LONGEST] = 'a';
    text[LONGEST + 1] = '\0';
    assert_refused(text, "longer than 4096 bytes");

    size_t length = (size_t)snprintf(text, sizeof text, "x://h?k0=v");
    for (int i = 1; i < SETTINGS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "&k%d=v%d", i, i);
    url = parse(text);
    assert_string_equal(simba_url_query(url, "k31"), "v31");
    simba_url_free(url);
    strcat(text, "&k32=v32");
    assert_refused(text, "more than 32 settings");
}

/* An "@" behind the host may be the end of a password that was not escaped: refused when there is a ":" before it. */
static void an_at_sign_behind_the_host_is_refused(void **state)
{
    static const char *const refused[] = {"x://u:p/q@h",   "x://u:p?q@h",     "x://u:p@q/r@h", "x://u:p@q?r=s@h",
                                          "x://:p/q@h",    "x://u/v:p@h",     "x:///u:p@h",    "x://h:1/a@b",
                                          "x://u:p@h/a@b", "x://u:p@h?k=a@b", "x://u:/@h",     "x://u:p/q/r?s@h/0"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(refused[i], "write it as %40");
    static const char *const accepted[] = {"x:///a@b",        "x://h/a@b",     "x://h?k=a@b",
                                           "x://u:p@h/a%40b", "x://u:p%2Fq@h", "x:///a@b:c"};
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        simba_url_free(parse(accepted[i]));
}

/* --- passwords ------------------------------------------------------------------------------------ */

/* The password, as written or decoded, is made of these words, which stand nowhere else in a URL or a message. */
static void assert_no_secret(const char *text, const char *where)
{
    static const char *const secrets[] = {"hunter", "zebra", "quokka", "HUNTER"};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (strstr(where, secrets[i]))
            fail_msg("of \"%s\" it says \"%s\"", text, where);
}

static void assert_keeps_secret(const char *text)
{
    static const char *const keys[] = {"known", NULL};
    simba_error err = {0};
    simba_url *url = NULL;
    const int rc = simba_url_parse(text, &err, &url);
    assert_no_secret(text, err.text);
    if (rc < 0)
        return;
    assert_no_secret(text, simba_url_shown(url));
    assert_no_secret(text, simba_url_authority(url));
    assert_no_secret(text, simba_url_path(url));
    int64_t ms;
    simba__url_check_keys(url, keys, NULL, &err);
    assert_no_secret(text, err.text);
    simba__url_duration(url, "known", &ms, &err);
    assert_no_secret(text, err.text);
    simba_url_free(url);
}

/* Every way to write a password that we could think of, in URLs that are fine and in URLs that are broken elsewhere. */
static void passwords_are_never_shown(void **state)
{
    static const char *const passwords[] = {
        "hunter",
        "hunter@zebra",
        "hunter/zebra",
        "hunter?zebra",
        "hunter:zebra",
        "hunter#zebra",
        "hunter&zebra",
        "hunter=zebra",
        "hunter%zebra",
        "hunter%",
        "hunter%4",
        "hunter%00zebra",
        "hunter%40zebra",
        "hunter%2Fzebra",
        "%68unter",
        "/hunter",
        "?hunter",
        "@hunter",
        "hunter@",
        "hunter/",
        "hunter?",
        "hunter/zebra@quokka",
        "hunter@zebra/quokka",
        "hunter?zebra@quokka",
        "hunter@zebra?quokka",
        "hunter?a=zebra",
        "hunter?a=1&zebra",
        "hunter?a=1&a=zebra",
        "hunter://zebra",
        "://hunter",
        "hunter//zebra",
        "hunter\\zebra",
        "hunter zebra",
        "hunter\nzebra",
        "hunter\x80zebra",
        "hunter?known=zebra",
        "hunter/%zzzebra",
        "hunter%zz/zebra",
        "%zzhunter/zebra@quokka",
        "***hunter",
    };
    static const struct {
        const char *before, *after;
    } places[] = {
        {"redis://user:", "@host/0"},
        {"redis://:", "@host"},
        {"redis://user:", "@h1:1,h2:2/0"},
        {"redis://user:", "@[::1]:1"},
        {"redis://user:", "@"},
        {"redis://user:", "@host/%zz"},
        {"redis://user:", "@%zz"},
        {"redis://%zz:", "@host"},
        {"redis://user:", "@host?a"},
        {"redis://user:", "@host?=a"},
        {"redis://user:", "@host?a=1&a=2"},
        {"redis://user:", "@host?a=%"},
        {"redis://user:", "@host?known=bad"},
        {"redis://user:", "@host?unknown=1"},
        {"redis://user:", "@host/a@b"},
        {"redis://user:", "@host?a=b@c"},
        {"redis:///user:", "@host"},
        {"redis:/user:", "@host"},
        {"redis:user:", "@host"},
        {"user:", "@host"},
        {"//user:", "@host"},
        {"re dis://user:", "@host"},
        {"://user:", "@host"},
        {"redis:://user:", "@host"},
    };
    for (size_t w = 0; w < sizeof passwords / sizeof *passwords; w++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            char text[256];
            snprintf(text, sizeof text, "%s%s%s", places[p].before, passwords[w], places[p].after);
            assert_keeps_secret(text);
        }
}

/* The same where the URL is too long or has too many settings. */
static void passwords_are_not_shown_by_limits(void **state)
{
    static char text[2 * LONGEST];
    int length = snprintf(text, sizeof text, "redis://user:hunter@host/");
    memset(text + length, 'a', LONGEST);
    assert_keeps_secret(text);
    memset(text, 0, sizeof text);
    length = snprintf(text, sizeof text, "redis://user:hunter@host/?k0=v");
    for (int i = 1; i <= SETTINGS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "&k%d=v", i);
    assert_keeps_secret(text);
    memset(text, 0, sizeof text);
    strcpy(text, "redis://user:");
    memset(text + strlen(text), 'a', LONGEST);
    strcat(text, "hunter@host");
    assert_keeps_secret(text);
}

/* The password itself reaches whoever has to log in. */
static void passwords_reach_the_accessor(void **state)
{
    simba_url *url = parse("redis://user:hunter%2F%40%3F%25@host/0");
    assert_string_equal(simba_url_password(url), "hunter/@?%");
    simba_url_free(url);
}

/* Random passwords full of what means something in a URL; "7" stands in them and nowhere else. */
static void random_passwords_are_never_shown(void **state)
{
    static const char alphabet[] = "7777@/?:%&=#+,;[]. 7";
    static const char *const before[] = {"x://u:", "x://:", "x://u%40v:", "x:///u:"};
    static const char *const after[] = {"@h", "@h:1/p", "@h/p?k=v", "@h?k", "@h/%zz", "@h1,h2?k=1&k=2", "@"};
    uint64_t seed = 7;
    size_t parsed = 0;
    for (int round = 0; round < 100000; round++) {
        char text[64];
        int length = snprintf(text, sizeof text, "%s7", before[simba__random_next(&seed) % 4]);
        for (uint64_t left = simba__random_next(&seed) % 8; left > 0; left--)
            text[length++] = alphabet[simba__random_next(&seed) % (sizeof alphabet - 1)];
        strcpy(text + length, after[simba__random_next(&seed) % 7]);

        simba_error err = {0};
        simba_url *url = NULL;
        if (simba_url_parse(text, &err, &url) == 0) {
            parsed++;
            if (strchr(simba_url_shown(url), '7'))
                fail_msg("\"%s\" is shown as \"%s\"", text, simba_url_shown(url));
            simba_url_free(url);
        } else if (strchr(err.text, '7')) {
            fail_msg("of \"%s\" it says \"%s\"", text, err.text);
        }
    }
    assert_true(parsed > 1000);
}

/* --- what the runtime adds ------------------------------------------------------------------------ */

/* A setting that nobody knows is a typing error, and the message says what there is. */
static void unknown_settings_are_named(void **state)
{
    static const char *const common[] = {"ttl", "transition", NULL};
    static const char *const own[] = {"sync", NULL};
    simba_error err = {0};
    simba_url *url = parse("x://h?ttl=1s&sync=full&transition=0s");
    assert_int_equal(simba__url_check_keys(url, common, own, &err), 0);
    assert_int_equal(err.code, 0);
    assert_int_equal(simba__url_check_keys(url, common, NULL, &err), SIMBA_EURL);
    assert_string_equal(err.text, "x:// does not know the setting \"sync\"; it knows ttl, transition");
    assert_int_equal(simba__url_check_keys(url, NULL, own, NULL), SIMBA_EURL);
    simba_url_free(url);

    url = parse("x://h?tll=1s");
    assert_int_equal(simba__url_check_keys(url, common, own, &err), SIMBA_EURL);
    assert_string_equal(err.text, "x:// does not know the setting \"tll\" (did you mean \"ttl\"?)");
    simba_url_free(url);

    url = parse("x://h?colour=red");
    assert_int_equal(simba__url_check_keys(url, common, own, &err), SIMBA_EURL);
    assert_string_equal(err.text, "x:// does not know the setting \"colour\"; it knows ttl, transition, sync");
    simba_url_free(url);

    url = parse("x://h");
    assert_int_equal(simba__url_check_keys(url, NULL, NULL, NULL), 0);
    simba_url_free(url);
}

/* Durations come out in milliseconds, and what was not given stays as it was. */
static void durations_are_read(void **state)
{
    simba_url *url = parse("x://h?ttl=10s&bad=10&long=1234567890123456789012345678901234567890123456789");
    simba_error err = {0};
    int64_t ms = -7;
    assert_int_equal(simba__url_duration(url, "transition", &ms, &err), 0);
    assert_int_equal(ms, -7);
    assert_int_equal(simba__url_duration(url, "ttl", &ms, &err), 0);
    assert_int_equal(ms, 10000);
    assert_int_equal(simba__url_duration(url, "bad", &ms, &err), SIMBA_EURL);
    assert_int_equal(ms, 10000);
    assert_string_equal(err.text, "\"bad=10\" in the URL is not a duration such as 500ms, 10s, 2m or 1h");
    assert_int_equal(simba__url_duration(url, "long", &ms, &err), SIMBA_EURL);
    assert_non_null(strstr(err.text, "\"long=1234567890123456789012345678901234567890\""));
    simba_url_free(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_told_apart),
        cmocka_unit_test(settings_are_found),
        cmocka_unit_test(escapes_are_undone),
        cmocka_unit_test(malformed_texts_are_refused),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(an_at_sign_behind_the_host_is_refused),
        cmocka_unit_test(passwords_are_never_shown),
        cmocka_unit_test(passwords_are_not_shown_by_limits),
        cmocka_unit_test(passwords_reach_the_accessor),
        cmocka_unit_test(random_passwords_are_never_shown),
        cmocka_unit_test(unknown_settings_are_named),
        cmocka_unit_test(durations_are_read),
    };
    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
