/* The table of events and the page that lists them are the same. */
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

#include "client/log.h"

static const struct {
    const char *event, *level, *sentence;
    unsigned facts;
} notices[] = {
#define ROW(name, event, level, sentence, facts) {event, #level, sentence, facts},
    SIMBA__NOTICES(ROW)
#undef ROW
};

static const char *const keys[] = {
#define KEY(name, member, kind) #member,
    SIMBA__FACTS(KEY)
#undef KEY
};

enum { NOTICES = sizeof notices / sizeof *notices };

static void write_row(size_t i, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "| `%s` | %s |", notices[i].event, notices[i].level);
    for (size_t k = 0; k < SIMBA__FACT_COUNT; k++)
        if (notices[i].facts & (1U << k))
            at += (size_t)snprintf(out + at, size - at, " `%s`", keys[k]);
    snprintf(out + at, size - at, " | ");
}

/* Every event has its row in docs/log.md, in the same order, and there is none more. */
static void events_are_documented(void **state)
{
    FILE *page = fopen(SIMBA_TEST_SOURCES "/../docs/log.md", "re");
    assert_non_null(page);
    char line[1024];
    size_t row = 0;
    bool inside = false;
    while (fgets(line, sizeof line, page)) {
        inside = inside ? line[0] == '|' : strncmp(line, "| event |", 9) == 0;
        if (!inside || strncmp(line, "| `", 3) != 0)
            continue;
        char expected[256] = "";
        if (row < NOTICES)
            write_row(row, expected, sizeof expected);
        if (!expected[0] || strncmp(line, expected, strlen(expected)) != 0)
            fail_msg("row %zu of docs/log.md is %snot %s", row + 1, line, expected);
        row++;
    }
    fclose(page);
    assert_int_equal(row, NOTICES);
}

/* And in simba(1). */
static void events_are_in_the_manual(void **state)
{
    FILE *page = fopen(SIMBA_TEST_SOURCES "/../man/simba.1", "re");
    assert_non_null(page);
    char line[1024];
    size_t row = 0;
    bool inside = false;
    while (fgets(line, sizeof line, page)) {
        inside = inside ? strncmp(line, ".El", 3) != 0 : strcmp(line, ".Ss Log\n") == 0;
        if (!inside || strncmp(line, ".It Cm ", 7) != 0)
            continue;
        char expected[256];
        assert_true(row < NOTICES);
        size_t at = (size_t)snprintf(expected, sizeof expected, ".It Cm %s Va", notices[row].event);
        for (size_t k = 0; k < SIMBA__FACT_COUNT; k++)
            if (notices[row].facts & (1U << k))
                at += (size_t)snprintf(expected + at, sizeof expected - at, " %s", keys[k]);
        line[strcspn(line, "\n")] = '\0';
        assert_string_equal(line, expected);
        row++;
    }
    fclose(page);
    assert_int_equal(row, NOTICES);
}

/* A program can rely on how keys look, and a person on a sentence. */
static void events_are_well_formed(void **state)
{
    for (size_t i = 0; i < NOTICES; i++) {
        assert_true(strspn(notices[i].event, "abcdefghijklmnopqrstuvwxyz-") == strlen(notices[i].event));
        assert_true(notices[i].sentence == NULL || (notices[i].sentence[0] && !strchr(notices[i].sentence, '=')));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(notices[i].event, notices[j].event);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(events_are_documented),
                                       cmocka_unit_test(events_are_in_the_manual),
                                       cmocka_unit_test(events_are_well_formed)};
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
