/* Which slot to ask for, and what the turnstile's note says. */
#include "core/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* i: idle, a: asked, t: taken, h: held. */
static const struct {
    const char *slots;
    unsigned first;
    simba__slots_move move;
    unsigned slot;
} moves[] = {
    {"iii", 0, SIMBA__SLOTS_ASK, 0},   {"iii", 2, SIMBA__SLOTS_ASK, 2},   {"iia", 2, SIMBA__SLOTS_WAIT, 0},
    {"iit", 2, SIMBA__SLOTS_ASK, 0},   {"tit", 2, SIMBA__SLOTS_ASK, 1},   {"ttt", 2, SIMBA__SLOTS_FULL, 0},
    {"tht", 2, SIMBA__SLOTS_ENTER, 1}, {"aht", 0, SIMBA__SLOTS_ENTER, 1}, {"hht", 1, SIMBA__SLOTS_ENTER, 0},
    {"atit", 1, SIMBA__SLOTS_WAIT, 0}, {"i", 0, SIMBA__SLOTS_ASK, 0},     {"h", 0, SIMBA__SLOTS_ENTER, 0},
};

static void asks_one_after_another(void **state)
{
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        const unsigned count = (unsigned)strlen(moves[i].slots);
        simba__slot slots[8];
        unsigned slot = 99;
        for (unsigned j = 0; j < count; j++)
            slots[j] = (simba__slot)(strchr("iath", moves[i].slots[j]) - "iath");
        const simba__slots_move move = simba__slots_decide(slots, count, moves[i].first, &slot);
        const bool names_one = move == SIMBA__SLOTS_ASK || move == SIMBA__SLOTS_ENTER;
        if (move != moves[i].move || (names_one && slot != moves[i].slot))
            fail_msg("%s, %u: move %d, slot %u", moves[i].slots, moves[i].first, (int)move, slot);
    }
}

/* What the attempt before has left tells nothing about a slot, whatever it was. */
static void knows_its_own_answers(void **state)
{
    for (unsigned bits = 0; bits < 16; bits++) {
        const bool asked = bits & 1, running = bits & 2, refused = bits & 4, held = bits & 8;
        const simba__slot slot = simba__slots_state(asked, running, refused, held);
        assert_int_equal(slot == SIMBA__SLOT_HELD, asked && held);
        assert_int_equal(slot == SIMBA__SLOT_TAKEN, asked && refused && !held);
        assert_true(slot != SIMBA__SLOT_IDLE || !running);
        assert_true(asked || slot == (running ? SIMBA__SLOT_ASKED : SIMBA__SLOT_IDLE));
    }
}

static void the_note_counts(void **state)
{
    static const struct {
        const char *note;
        int rc;
        const char *text;
    } notes[] = {
        {"", 0, ""},
        {"slots=12", 1, ""},
        {"slots=1", SIMBA_ESTATE, "m has 1 slots, not 12"},
        {"slots=120", SIMBA_ESTATE, "m has 120 slots, not 12"},
        {"slots=12 ", SIMBA_ESTATE, "note of its own"},
        {"slots=\033[31m", SIMBA_ESTATE, "note of its own"},
        {"slot", SIMBA_ESTATE, "note of its own"},
        {"hello, this note is longer than any number of slots", SIMBA_ESTATE, "note of its own"},
    };
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        simba_error err = {0};
        char note[SIMBA__SLOTS_NOTE_MAX];
        assert_int_equal(simba__slots_check("m", 12, notes[i].note, strlen(notes[i].note), &err, note), notes[i].rc);
        assert_string_equal(note, "slots=12");
        if (!strstr(err.text, notes[i].text))
            fail_msg("%s: %s", notes[i].note, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_one_after_another),
        cmocka_unit_test(knows_its_own_answers),
        cmocka_unit_test(the_note_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
