/* See slots.h. */
#include "core/slots.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"

simba__slot simba__slots_state(bool asked, bool running, bool refused, bool held)
{
    if (asked && held)
        return SIMBA__SLOT_HELD;
    if (asked && refused)
        return SIMBA__SLOT_TAKEN;
    return running ? SIMBA__SLOT_ASKED : SIMBA__SLOT_IDLE;
}

simba__slots_move simba__slots_decide(const simba__slot *slots, unsigned count, unsigned first, unsigned *ret_slot)
{
    simba__slots_move move = SIMBA__SLOTS_FULL;
    for (unsigned i = count; i-- > 0;) {
        const unsigned slot = (first + i) % count;
        if (slots[slot] == SIMBA__SLOT_HELD) {
            *ret_slot = slot;
            return SIMBA__SLOTS_ENTER;
        }
        if (slots[slot] == SIMBA__SLOT_ASKED) {
            move = SIMBA__SLOTS_WAIT; /* its answer may be a grant */
        } else if (slots[slot] == SIMBA__SLOT_IDLE && move != SIMBA__SLOTS_WAIT) {
            move = SIMBA__SLOTS_ASK;
            *ret_slot = slot;
        }
    }
    return move;
}

int simba__slots_check(const char *mutex, unsigned count, const void *note, size_t length, simba_error *err,
                       char ret_note[SIMBA__SLOTS_NOTE_MAX])
{
    static const char begins[] = "slots=";
    char text[SIMBA__SLOTS_NOTE_MAX] = "";
    snprintf(ret_note, SIMBA__SLOTS_NOTE_MAX, "slots=%u", count);
    if (length == 0)
        return 0;
    if (length == strlen(ret_note) && memcmp(note, ret_note, length) == 0)
        return 1;
    memcpy(text, note, length < sizeof text ? length : sizeof text - 1);
    const char *number = text + sizeof begins - 1;
    if (strncmp(text, begins, sizeof begins - 1) != 0 || number[strspn(number, "0123456789")] != '\0')
        return simba__fail(err, SIMBA_ESTATE,
                           "%s has a note of its own, where the number of its slots must stand: use another mutex",
                           mutex);
    return simba__fail(err, SIMBA_ESTATE,
                       "%s has %s slots, not %u: ask for %s, or forget %s when nobody holds or wants a slot", mutex,
                       number, count, number, mutex);
}
