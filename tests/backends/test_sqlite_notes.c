/* Notes in the database, at the level of the contract: who may write, what another process sees, and
 * tables that somebody else has written into. */
#include "backends/test_sqlite.h"

/* Id, nonce and token are checked in the transaction that writes. */
static void written_by_the_grant(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    open_store(f, &f->b);
    const uint64_t token = acquire(&f->a, "m", "a", 1).owner.token;
    assert_mine(write_note(&f->a, "m", "a", 1, token, 2, "first"));
    assert_owned_by(write_note(&f->b, "m", "b", 1, token, 3, "other id"), "a");
    assert_owned_by(write_note(&f->b, "m", "a", 2, token, 3, "other nonce"), "a");
    assert_owned_by(write_note(&f->b, "m", "a", 1, token - 1, 3, "other token"), "a");
    assert_owned_by(write_note(&f->b, "m", "a", 1, token, 1, "overtaken"), "a");
    assert_mine(write_note(&f->a, "m", "a", 1, token, 2, "first")); /* the same write comes twice */
    const simba_note note = read_note(&f->b, "m");
    assert_string_equal(note.bytes, "first");
    assert_int_equal(note.token, token);
    assert_int_equal(f->b.noted_count, 1);
    f->a.now_shift_ns = 16001 * SIMBA__NS_PER_MS;
    assert_owned_by(write_note(&f->a, "m", "a", 1, token, 3, "too late"), "");
    assert_string_equal(read_note(&f->b, "m").bytes, "first");
    testhost_close(&f->a);
    testhost_close(&f->b);
}

static void refuse_note(fixture *f, const char *sql, const char *words)
{
    raw_once(f, sql);
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_READ_NOTE, "m", "", 0, 0);
    testhost_ask(&f->a, &r);
    assert_int_equal(r.error.code, SIMBA_ECORRUPT);
    assert_non_null(strstr(r.error.text, words));
}

/* What nobody of us has written is refused in words, and is in nobody else's way. */
static void about_damaged(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    const uint64_t token = acquire(&f->a, "m", "a", 1).owner.token;
    assert_mine(write_note(&f->a, "m", "a", 1, token, 1, "good"));
    refuse_note(f, "UPDATE simba_note SET note = 'a text'", "note is not a blob");
    refuse_note(f, "UPDATE simba_note SET note = zeroblob(1025)", "note is too long");
    refuse_note(f, "UPDATE simba_note SET note = x'00', note_token = 'x'", "note_token is not a number");
    refuse_note(f, "UPDATE simba_note SET note_token = -1", "note_token is negative");
    assert_mine(ask(&f->a, SIMBA_OP_RENEW, "m", "a", 1, token));
    testhost_close(&f->a);
}

/* The mutex and its note are gone, and tokens grow although the clock was set back. */
static void about_forgotten(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    const uint64_t token = acquire(&f->a, "m", "a", 1).owner.token;
    assert_mine(write_note(&f->a, "m", "a", 1, token, 1, "gone soon"));
    assert_owned_by(ask(&f->a, SIMBA_OP_FORGET, "m", "", 0, 0), "a");
    assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "m", "a", 1, token));
    assert_mine(ask(&f->a, SIMBA_OP_FORGET, "m", "", 0, 0));
    assert_owned_by(ask(&f->a, SIMBA_OP_FORGET, "m", "", 0, 0), "");
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_lock"), "0");
    assert_string_equal(raw_text(f, "SELECT count(*) FROM simba_note WHERE mutex = 'm'"), "0");
    f->a.listed_count = 0;
    ask(&f->a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(f->a.listed_count, 0);
    raw_once(f, "INSERT INTO simba_lock (mutex, version, token) VALUES ('lower', 1, 5)");
    assert_mine(ask(&f->a, SIMBA_OP_FORGET, "lower", "", 0, 0));
    f->a.epoch_shift_us = -INT64_C(3600000000);
    assert_true(acquire(&f->a, "m", "b", 2).owner.token > token);
    assert_true(acquire(&f->a, "other", "b", 2).owner.token > token);
    testhost_close(&f->a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(written_by_the_grant),
        TEST(about_damaged),
        TEST(about_forgotten),
    };
    return cmocka_run_group_tests_name("sqlite notes", tests, NULL, NULL);
}
