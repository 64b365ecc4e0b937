/* What the SQL stores promise about notes and about forgetting a mutex, by requests to the store and by looks at its table: the
 * same for MySQL and PostgreSQL. The program that includes this has `say`, `expire` and `open_store` for its server, and
 * `lengthen_note`, by which somebody else makes the note longer than a note can be. */
#ifndef SIMBA_TESTS_BACKENDS_SQL_NOTES_H
#define SIMBA_TESTS_BACKENDS_SQL_NOTES_H

#include <string.h>

#include "backends/asking.h"

static inline void assert_note(testhost *h, const char *text)
{
    const simba_note note = read_note(h, "orders");
    assert_int_equal(note.length, strlen(text));
    assert_memory_equal(note.bytes, text, strlen(text));
}

/* One statement checks the grant, all of it, and writes. The lease stays as it is. */
static inline void note_by_its_grant(void **state)
{
    (void)state;
    open_store(&a);
    open_store(&b);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    char before[256];
    const char *lease =
        "select acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version from simba_mutex";
    snprintf(before, sizeof before, "%s", say("%s", lease));
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "page 1").outcome, SIMBA_MINE);
    assert_int_equal(write_note(&a, "orders", "you", 1, token, 2, "id").outcome, SIMBA_NOT_MINE);
    assert_int_equal(write_note(&a, "orders", "me", 2, token, 2, "nonce").outcome, SIMBA_NOT_MINE);
    assert_int_equal(write_note(&a, "orders", "me", 1, token + 1, 2, "token").outcome, SIMBA_NOT_MINE);
    assert_int_equal(write_note(&a, "orders", "me", 1, 0, 2, "no token").outcome, SIMBA_NOT_MINE);
    assert_note(&b, "page 1");
    assert_int_equal(b.note.token, token);
    assert_string_equal(say("%s", lease), before);
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 2, "").outcome, SIMBA_MINE);
    assert_note(&b, "");
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 3, "page 3").outcome, SIMBA_MINE);
    expire("orders");
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 4, "late").outcome, SIMBA_NOT_MINE);
    assert_note(&b, "page 3");
    testhost_close(&a);
    testhost_close(&b);
}

/* A write that the next one of the same grant has overtaken is without effect; one that comes twice counts once. */
static inline void note_overtaken(void **state)
{
    (void)state;
    open_store(&a);
    const uint64_t first = acquire(&a, "orders", "me", 1).owner.token;
    assert_int_equal(write_note(&a, "orders", "me", 1, first, 7, "page 7").outcome, SIMBA_MINE);
    assert_int_equal(write_note(&a, "orders", "me", 1, first, 6, "page 6").outcome, SIMBA_NOT_MINE);
    assert_int_equal(write_note(&a, "orders", "me", 1, first, 7, "page 7").outcome, SIMBA_MINE);
    assert_note(&a, "page 7");
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, first);
    const uint64_t second = acquire(&a, "orders", "me", 2).owner.token;
    assert_int_equal(write_note(&a, "orders", "me", 2, second, 1, "page 8").outcome,
                     SIMBA_MINE); /* another grant counts anew */
    assert_note(&a, "page 8");
    ask(&a, SIMBA_OP_FORCE_RELEASE, "orders", "", 0, 0);
    assert_int_equal(write_note(&a, "orders", "me", 2, second, 2, "page 9").outcome, SIMBA_REVOKED);
    assert_note(&a, "page 8");
    testhost_close(&a);
}

/* A mutex that is forgotten leaves its row behind, for its version: tokens do not go back, whoever is granted it next. */
static inline void about_forget(void **state)
{
    (void)state;
    open_store(&a);
    assert_int_equal(ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0).outcome, SIMBA_NOT_MINE);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_int_equal(write_note(&a, "orders", "me", 1, token, 1, "page 1").outcome, SIMBA_MINE);
    const simba_reply held = ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0);
    assert_int_equal(held.outcome, SIMBA_NOT_MINE);
    assert_string_equal(held.owner.id, "me");
    assert_note(&a, "page 1");
    expire("orders");
    assert_mine(ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0));
    assert_note(&a, "");
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 0);
    assert_int_equal(ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0).outcome, SIMBA_NOT_MINE);
    testhost_close(&a); /* it would remember the token by itself */
    open_store(&b);
    const uint64_t next = acquire(&b, "orders", "you", 2).owner.token;
    assert_true(next > token);
    ask(&b, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(b.listed_count, 1);
    assert_int_equal(write_note(&b, "orders", "you", 2, next, 1, "page 2").outcome, SIMBA_MINE);
    testhost_close(&b);
}

/* Whoever watches is told of a note, of the next one, and that the note is gone. */
static inline void note_is_told(void **state)
{
    (void)state;
    simba_watch watched = {.mutex = "orders", .observed = true};
    open_store(&a);
    open_store(&b);
    const uint64_t token = acquire(&a, "orders", "me", 1).owner.token;
    assert_int_equal(testhost_watch(&b, &watched), 0);
    for (uint64_t number = 1; number <= 2; number++) {
        b.noted_pushes = 0;
        assert_int_equal(write_note(&a, "orders", "me", 1, token, number, "page").outcome, SIMBA_MINE);
        assert_true(await_noted(&b, 1500));
    }
    ask(&a, SIMBA_OP_RELEASE, "orders", "me", 1, token);
    testhost_pump(&b, NULL, 100);
    b.noted_pushes = 0;
    assert_mine(ask(&a, SIMBA_OP_FORGET, "orders", "", 0, 0));
    assert_true(await_noted(&b, 1500));
    testhost_unwatch(&b, &watched);
    testhost_close(&a);
    testhost_close(&b);
}

/* That is an error for its mutex alone. */
static inline void too_long(void **state)
{
    (void)state;
    open_store(&a);
    acquire(&a, "orders", "me", 1);
    lengthen_note();
    assert_int_equal(refused(&a, SIMBA_OP_READ_NOTE, "orders", "").code, SIMBA_ECORRUPT);
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 0);
    assert_in(a.log, "note");
    testhost_close(&a);
}

#define SQL_NOTES_TESTS                                                                                                \
    cmocka_unit_test_setup(note_by_its_grant, setup), cmocka_unit_test_setup(note_overtaken, setup),                   \
        cmocka_unit_test_setup(about_forget, setup), cmocka_unit_test_setup(note_is_told, setup),                      \
        cmocka_unit_test_setup(too_long, setup)

#endif
