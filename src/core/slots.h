/* Several holders at a time. The mutex M is a turnstile before the slots M#1 to M#N, which are mutexes of their own. A contender
 * acquires M, whose queue is the order. Then it asks for one slot after another, until the store grants one; it goes on waiting for
 * those that are taken. With a slot it gives M and all other slots back. So at most N hold a slot because there are no others, and
 * one contender at a time asks for slots, so nobody overtakes it.
 *
 * The number of slots stands in the note of M: contenders that disagree about it would count different slots. Pure. */
#ifndef SIMBA_CORE_SLOTS_H
#define SIMBA_CORE_SLOTS_H

#include <simba.h>

enum { SIMBA__SLOTS_NOTE_MAX = 16 };

/* A slot, as the contender in the turnstile knows it. */
typedef enum simba__slot {
    SIMBA__SLOT_IDLE,  /* not asked for */
    SIMBA__SLOT_ASKED, /* the store has not answered yet */
    SIMBA__SLOT_TAKEN, /* somebody else has it, or the store could not be asked: it is waited for beside others */
    SIMBA__SLOT_HELD,
} simba__slot;

typedef enum simba__slots_move {
    SIMBA__SLOTS_ASK,   /* for this slot */
    SIMBA__SLOTS_WAIT,  /* for the answer */
    SIMBA__SLOTS_FULL,  /* all are taken: wait for a release */
    SIMBA__SLOTS_ENTER, /* this slot is held: give back the turnstile and all others */
} simba__slots_move;

/* `asked`: in this attempt. What is left of the one before tells nothing: it is given back, and then it can be asked for. `running`:
 * the store is asked for it, or waited for, or told that it is given back. */
simba__slot simba__slots_state(bool asked, bool running, bool refused, bool held);

/* What to do now, and with which slot. `first` is where to begin, which spreads the contenders over the slots. */
simba__slots_move simba__slots_decide(const simba__slot *slots, unsigned count, unsigned first, unsigned *ret_slot);

/* What the turnstile's note says about the number. 1: the same; 0: nothing yet, and `ret_note` is to be written; SIMBA_ESTATE:
 * another number, or the note has other contents. */
int simba__slots_check(const char *mutex, unsigned count, const void *note, size_t length, simba_error *err,
                       char ret_note[SIMBA__SLOTS_NOTE_MAX]);

#endif
