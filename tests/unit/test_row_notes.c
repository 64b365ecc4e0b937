/* Who may write the note of a row, and which mutexes may be forgotten. */
#include <string.h>

#include "core/row.h"
#include "lib/cm.h"
#include "util/clock.h"

#define MS SIMBA__NS_PER_MS

static const simba__row_now start = {.ns = 5000000123, .epoch_us = 1700000000123456};

static simba__row_now later(int64_t ms)
{
    return (simba__row_now){start.ns + ms * MS, start.epoch_us + ms * 1000};
}

static simba_reply ask(simba__row *row, simba__row_now now, simba_op op, const char *id, uint64_t nonce, uint64_t token,
                       uint64_t number)
{
    simba_request request = {.op = op,
                             .mutex = "m",
                             .id = id,
                             .nonce = nonce,
                             .token = token,
                             .ttl_ms = 10000,
                             .transition_ms = 6000,
                             .note = "note",
                             .note_size = 4,
                             .note_number = number};
    const bool changed = simba__row_apply(row, now, &request);
    assert_int_equal(request.reply.status, 0);
    assert_int_equal(changed, request.reply.outcome == SIMBA_MINE);
    return request.reply;
}

static simba_outcome write_note(simba__row *row, simba__row_now now, const char *id, uint64_t nonce, uint64_t token,
                                uint64_t number)
{
    return ask(row, now, SIMBA_OP_WRITE_NOTE, id, nonce, token, number).outcome;
}

static uint64_t acquire(simba__row *row, simba__row_now now, const char *id, uint64_t nonce)
{
    const simba_reply reply = ask(row, now, SIMBA_OP_ACQUIRE, id, nonce, 0, 0);
    assert_int_equal(reply.outcome, SIMBA_MINE);
    return reply.owner.token;
}

/* The write is of the holder's token and the store's time, and leaves the lease as it is. */
static void the_holder_writes(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "a", 1);
    const simba__row before = row;
    const simba_reply reply = ask(&row, later(3000), SIMBA_OP_WRITE_NOTE, "a", 1, token, 1);
    assert_int_equal(reply.outcome, SIMBA_MINE);
    assert_int_equal(reply.now_ms, later(3000).epoch_us / 1000);
    assert_int_equal(row.note_token, token);
    assert_int_equal(row.note_number, 1);
    assert_int_equal(row.note_written_at_ms, reply.now_ms);
    assert_int_equal(row.until_ns, before.until_ns);
    assert_int_equal(row.version, before.version);
    assert_memory_equal(&row.owner, &before.owner, sizeof row.owner);
}

/* The wall clock is set back during the lease. The times of the note are on it; what is left of the lease is not. */
static void times_are_on_the_wall_clock(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "a", 1);
    const simba__row_now back = {start.ns + MS, start.epoch_us - 3600000000};
    const simba_reply reply = ask(&row, back, SIMBA_OP_WRITE_NOTE, "a", 1, token, 1);
    assert_int_equal(reply.now_ms, back.epoch_us / 1000);
    assert_int_equal(row.note_written_at_ms, back.epoch_us / 1000);
    assert_int_equal(ask(&row, back, SIMBA_OP_READ_NOTE, "", 0, 0, 0).now_ms, back.epoch_us / 1000);
}

/* Id, nonce and token all have to be those of the grant; 0 stands for no token here. */
static void a_write_has_to_match_in_everything(void **state)
{
    simba__row row = {0};
    assert_int_equal(write_note(&row, start, "a", 1, 7, 1), SIMBA_NOT_MINE);
    const uint64_t token = acquire(&row, start, "a", 1);
    assert_int_equal(write_note(&row, start, "b", 1, token, 1), SIMBA_NOT_MINE);
    assert_int_equal(write_note(&row, start, "a", 2, token, 1), SIMBA_NOT_MINE);
    assert_int_equal(write_note(&row, start, "a", 1, token + 1, 1), SIMBA_NOT_MINE);
    assert_int_equal(write_note(&row, start, "a", 1, 0, 1), SIMBA_NOT_MINE);
    assert_int_equal(row.note_token, 0);
}

/* On the nanosecond at which the lease ends, before anybody else has it. */
static void a_write_after_the_end_is_refused(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "a", 1);
    const simba__row_now end = later(16000);
    assert_int_equal(write_note(&row, (simba__row_now){end.ns - 1, end.epoch_us}, "a", 1, token, 1), SIMBA_MINE);
    assert_int_equal(write_note(&row, end, "a", 1, token, 2), SIMBA_NOT_MINE);
    acquire(&row, end, "b", 2);
    assert_int_equal(write_note(&row, end, "a", 1, token, 2), SIMBA_NOT_MINE);
    assert_int_equal(row.note_number, 1);
}

static void a_revoked_writer_is_told(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "a", 1);
    ask(&row, start, SIMBA_OP_FORCE_RELEASE, "", 0, 0, 0);
    assert_int_equal(write_note(&row, start, "a", 1, token, 1), SIMBA_REVOKED);
    const uint64_t next = acquire(&row, start, "b", 2);
    assert_int_equal(write_note(&row, start, "a", 1, token, 1), SIMBA_REVOKED);
    assert_int_equal(write_note(&row, start, "b", 2, next, 1), SIMBA_MINE);
}

/* A write that was given up may arrive after the next one: it does not undo that. One that comes twice is answered twice. */
static void an_overtaken_write_is_refused(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "a", 1);
    assert_int_equal(write_note(&row, start, "a", 1, token, 2), SIMBA_MINE);
    assert_int_equal(write_note(&row, start, "a", 1, token, 1), SIMBA_NOT_MINE);
    assert_int_equal(write_note(&row, start, "a", 1, token, 2), SIMBA_MINE);
    assert_int_equal(write_note(&row, start, "a", 1, token, 3), SIMBA_MINE);
    ask(&row, start, SIMBA_OP_RELEASE, "a", 1, token, 0);
    const uint64_t next = acquire(&row, start, "b", 2);
    assert_int_equal(write_note(&row, start, "b", 2, next, 1), SIMBA_MINE); /* counts anew */
}

/* A row whose note is of a greater token than its grant was restored from two backups, or the like. */
static void a_note_of_a_greater_token_stays(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "a", 1);
    row.note_token = token + 1;
    assert_int_equal(write_note(&row, start, "a", 1, token, 1), SIMBA_NOT_MINE);
}

/* Releases, ends and new owners leave it. */
static void a_note_stays(void **state)
{
    simba__row row = {0};
    const uint64_t token = acquire(&row, start, "a", 1);
    write_note(&row, start, "a", 1, token, 1);
    ask(&row, start, SIMBA_OP_RENEW, "a", 1, token, 0);
    ask(&row, start, SIMBA_OP_RELEASE, "a", 1, token, 0);
    acquire(&row, start, "b", 2);
    ask(&row, start, SIMBA_OP_FORCE_RELEASE, "", 0, 0, 0);
    acquire(&row, start, "b", 3);
    acquire(&row, later(16000), "c", 4);
    assert_int_equal(row.note_token, token);
}

/* Only a mutex that was known and that nobody owns is forgotten. */
static void only_what_is_free_is_forgotten(void **state)
{
    simba__row row = {0};
    assert_int_equal(ask(&row, start, SIMBA_OP_FORGET, "", 0, 0, 0).outcome, SIMBA_NOT_MINE);
    const uint64_t token = acquire(&row, start, "a", 1);
    const simba_reply held = ask(&row, start, SIMBA_OP_FORGET, "", 0, 0, 0);
    assert_int_equal(held.outcome, SIMBA_NOT_MINE);
    assert_string_equal(held.owner.id, "a");
    assert_int_equal(ask(&row, later(16000), SIMBA_OP_FORGET, "", 0, 0, 0).outcome, SIMBA_MINE);
    ask(&row, start, SIMBA_OP_RELEASE, "a", 1, token, 0);
    assert_int_equal(ask(&row, start, SIMBA_OP_FORGET, "", 0, 0, 0).outcome, SIMBA_MINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_holder_writes),
        cmocka_unit_test(times_are_on_the_wall_clock),
        cmocka_unit_test(a_write_has_to_match_in_everything),
        cmocka_unit_test(a_write_after_the_end_is_refused),
        cmocka_unit_test(a_revoked_writer_is_told),
        cmocka_unit_test(an_overtaken_write_is_refused),
        cmocka_unit_test(a_note_of_a_greater_token_stays),
        cmocka_unit_test(a_note_stays),
        cmocka_unit_test(only_what_is_free_is_forgotten),
    };
    return cmocka_run_group_tests_name("row notes", tests, NULL, NULL);
}
