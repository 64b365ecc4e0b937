/* Notes as ZooKeeper's nodes: what is in them, and what they are called. */
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

#include "stores/zookeeper/zookeeper.h"
#include "util/mem.h"

static bool reads(const char *data, size_t length)
{
    /* A copy of exactly that size, so that reading beyond it is found out. */
    char *copy = malloc(length ? length : 1);
    zk_stored_note note;
    assert_non_null(copy);
    memcpy(copy, data, length);
    const bool good = simba__zk_stored_note_read(copy, length, &note);
    free(copy);
    return good;
}

/* What is written is read again, whatever the bytes are. */
static void round_trip(void **state)
{
    (void)state;
    char bytes[SIMBA_NOTE_MAX];
    char data[ZK_STORED_NOTE_MAX];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    const zk_stored_note notes[] = {
        {UINT64_MAX, UINT64_MAX, bytes, sizeof bytes}, {7, 1, bytes, 1}, {7, 2, "", 0}, {0}};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        zk_stored_note back;
        const size_t length = simba__zk_stored_note_write(&notes[i], data);
        assert_true(simba__zk_stored_note_read(data, length, &back));
        assert_int_equal(back.token, notes[i].token);
        assert_int_equal(back.number, notes[i].number);
        assert_int_equal(back.size, notes[i].size);
        assert_memory_equal(back.bytes, notes[i].bytes ? notes[i].bytes : "", back.size);
    }
}

/* Anybody can write to a node. What is no stored note is not taken for one, however long it is. */
static void about_garbage(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",         "1",         "1 ",       "1 7", "1 7 ",     "1 7 1",
        "2 7 1\nx", "1 -7 1\nx", "1 7 x\n",  "x",   "1  7 1\n", "1 7 1 \n",
        "1 0 0\nx", "1 0 3\nx",  "1 7\n1\n", "\n",  "1 7 +1\n", "1 99999999999999999999 1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reads(bad[i], strlen(bad[i])))
            fail_msg("\"%s\"", bad[i]);
    zk_stored_note none;
    assert_false(simba__zk_stored_note_read(NULL, 0, &none)); /* as a node without data is told */
    assert_true(reads("1 7 1\nx", 7));
    char large[ZK_STORED_NOTE_MAX + 8] = "1 7 1\n";
    memset(large + 6, 'x', sizeof large - 6);
    assert_true(reads(large, 6 + SIMBA_NOTE_MAX));
    assert_false(reads(large, 6 + SIMBA_NOTE_MAX + 1));
    assert_false(reads(large, sizeof large));
}

/* A later write of the same grant, or of a later grant, is not undone. */
static void about_later(void **state)
{
    (void)state;
    const simba_request request = {.token = 7, .note_number = 3};
    assert_true(simba__zk_stored_note_order(&(zk_stored_note){.token = 7, .number = 2}, &request) < 0);
    assert_true(simba__zk_stored_note_order(&(zk_stored_note){.token = 7, .number = 3}, &request) == 0);
    assert_true(simba__zk_stored_note_order(&(zk_stored_note){.token = 7, .number = 4}, &request) > 0);
    assert_true(simba__zk_stored_note_order(&(zk_stored_note){.token = 8, .number = 1}, &request) > 0);
    assert_true(simba__zk_stored_note_order(&(zk_stored_note){.token = 6, .number = 9}, &request) < 0);
}

/* Two mutexes never share a note, and each name leads back to its mutex. */
static void about_names(void **state)
{
    (void)state;
    static const struct {
        const char *mutex, *name;
    } cases[] = {{"orders", "orders"},           {"a/b", "a%2Fb"}, {"a%2Fb", "a%252Fb"}, {"100%", "100%25"},
                 {"caf\xc3\xa9", "caf\xc3\xa9"}, {"%", "%25"}};
    char mutex[SIMBA_MUTEX_BYTES + 1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = simba__zk_note_name(cases[i].mutex);
        assert_string_equal(name, cases[i].name);
        assert_true(simba__zk_mutex_of_note(name, mutex));
        assert_string_equal(mutex, cases[i].mutex);
        simba__free(name);
    }
    static const char *const bad[] = {"",    "a/b",      "a%2fb", "a%2", "a%",   "%41",
                                      "%2F", "a%2F%2Fb", "a%2F",  ".",   "\xff", "a\x01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (simba__zk_mutex_of_note(bad[i], mutex))
            fail_msg("\"%s\" is \"%s\"", bad[i], mutex);
    char longest[SIMBA_MUTEX_BYTES + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(simba__zk_mutex_of_note(longest, mutex));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(about_garbage),
        cmocka_unit_test(about_later),
        cmocka_unit_test(about_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
