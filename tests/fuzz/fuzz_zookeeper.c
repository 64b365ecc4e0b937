/* What comes from ZooKeeper servers: messages, and the names of nodes. */
#include <stdio.h>
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "stores/zookeeper/zookeeper.h"
#include "stores/zookeeper/zookeeper.h"
#include "fuzz/targets.h"
#include "util/mem.h"

/* --- messages ------------------------------------------------------------------------------------------------------- */

/* The first byte says how many replies are expected, the next ones which; the rest is the beginning of a message. */
void fuzz_zk_frame(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    zk_expected expected = {0};
    for (unsigned left = fuzz_below(&in, 70); left > 0; left--)
        FUZZ_CHECK(simba__zk_expect(&expected, (zk_reply)fuzz_below(&in, ZK_REPLY_PAIR_STAT + 1)));
    if (expected.count > 0 && fuzz_below(&in, 2))
        simba__zk_expected_answered(&expected);
    const size_t available = in.left < ZK_FRAME_HEAD ? in.left : ZK_FRAME_HEAD;
    zk_verdict verdict = ZK_FRAME_SHORT;
    for (size_t some = 1; some <= available; some++) {
        /* A copy, so that reading beyond it is found out; and what is decided early stays decided. */
        unsigned char *head = malloc(some);
        FUZZ_CHECK(head);
        memcpy(head, in.at, some);
        const zk_verdict next = simba__zk_frame_judge(&expected, head, some);
        FUZZ_CHECK(verdict == ZK_FRAME_SHORT || next == verdict);
        verdict = next;
        free(head);
    }
    FUZZ_CHECK(available < ZK_FRAME_HEAD || verdict != ZK_FRAME_SHORT);
    simba__zk_expected_fini(&expected);
}

/* --- notes ---------------------------------------------------------------------------------------------------------- */

void fuzz_zk_note(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    char mutex[SIMBA_MUTEX_BYTES + 1];
    char back[ZK_STORED_NOTE_MAX];
    zk_stored_note record;
    if (simba__zk_stored_note_read((const char *)data, size, &record)) {
        FUZZ_CHECK(record.size <= SIMBA_NOTE_MAX && record.bytes + record.size == (const char *)data + size);
        zk_stored_note again;
        const size_t length = simba__zk_stored_note_write(&record, back);
        FUZZ_CHECK(simba__zk_stored_note_read(back, length, &again) && again.token == record.token &&
                   again.number == record.number && again.size == record.size &&
                   memcmp(again.bytes, record.bytes, record.size) == 0);
    }
    if (simba__zk_mutex_of_note(text, mutex)) {
        char *name = simba__zk_note_name(mutex);
        FUZZ_CHECK(name && strcmp(name, text) == 0);
        simba__free(name);
    }
    free(text);
}

/* --- children ------------------------------------------------------------------------------------------------------- */

enum { CHILDREN = 24, NAME_MOST = 80 };

typedef struct children {
    char text[CHILDREN][NAME_MOST + ZK_PREFIX_MAX + 16];
    char *names[CHILDREN];
    size_t count;
} children;

/* Contenders of ours, of others', and nodes that somebody has put there. */
static void any_children(fuzz_input *in, const zk_latch *latch, children *ret)
{
    ret->count = fuzz_below(in, CHILDREN + 1);
    for (size_t i = 0; i < ret->count; i++) {
        char *text = ret->names[i] = ret->text[i];
        text[0] = '\0';
        const unsigned kind = fuzz_below(in, 4);
        if (kind == 0)
            strcpy(text, latch->prefix);
        else if (kind == 1)
            strcpy(text, "_c_00000000-0000-0000-0000-000000000000-latch-");
        if (kind < 2 && fuzz_below(in, 4)) /* else it has no number, or an odd one */
            snprintf(text + strlen(text), 16, "%010u", fuzz_below(in, 32));
        else
            fuzz_text(in, text + strlen(text), NAME_MOST);
    }
}

static bool is_call(unsigned calls, unsigned call)
{
    return (calls & call) != 0;
}

/* The answers of a server to what was asked, whatever they are; false: the connection broke. */
static bool any_answers(fuzz_input *in, zk_latch *latch, zk_attempt *attempt, unsigned calls)
{
    children seen;
    if (fuzz_below(in, 16) == 0) {
        if (is_call(calls, ZK_CALL_CREATE))
            simba__zk_latch_not_made(latch, false);
        return false;
    }
    if (is_call(calls, ZK_CALL_CREATE)) {
        char name[ZK_PREFIX_MAX + NAME_MOST + 16];
        const unsigned kind = fuzz_below(in, 4);
        strcpy(name, latch->prefix);
        if (kind == 1)
            fuzz_text(in, name + strlen(name), NAME_MOST);
        else
            snprintf(name + strlen(name), 16, "%010u", fuzz_below(in, 32));
        if (kind > 0)
            simba__zk_latch_made(latch, name, fuzz_number(in), fuzz_number(in));
        else
            simba__zk_latch_not_made(latch, true);
    }
    if (is_call(calls, ZK_CALL_LIST)) {
        any_children(in, latch, &seen);
        if (fuzz_below(in, 4) == 0)
            simba__zk_latch_mutex_missing(attempt);
        else
            simba__zk_latch_listed(latch, attempt, seen.names, seen.count);
    }
    static const unsigned reads[] = {ZK_CALL_OWN, ZK_CALL_GUARD, ZK_CALL_LEADER, ZK_CALL_BEFORE, ZK_CALL_DELETE};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        if (is_call(calls, reads[i]) && fuzz_below(in, 2))
            simba__zk_latch_vanished(attempt, reads[i]);
        else if (is_call(calls, reads[i] & (ZK_CALL_OWN | ZK_CALL_GUARD)))
            simba__zk_latch_own(latch, fuzz_number(in), fuzz_number(in), reads[i] == ZK_CALL_GUARD);
    return true;
}

/* The answers of a server that works, where nobody else is. */
static void good_answers(zk_latch *latch, zk_attempt *attempt, unsigned calls)
{
    char name[ZK_PREFIX_MAX + 16];
    snprintf(name, sizeof name, "%s0000000001", latch->prefix);
    if (is_call(calls, ZK_CALL_CREATE))
        simba__zk_latch_made(latch, name, 1, 1);
    if (is_call(calls, ZK_CALL_LIST))
        simba__zk_latch_listed(latch, attempt, &latch->name, latch->name ? 1 : 0);
    if (is_call(calls, ZK_CALL_OWN | ZK_CALL_GUARD))
        simba__zk_latch_own(latch, 1, 1, is_call(calls, ZK_CALL_GUARD));
}

static void any_watch(fuzz_input *in, zk_latch *latch)
{
    switch (fuzz_below(in, 6)) {
    case 0:
        simba__zk_latch_before_fired(latch);
        break;
    case 1:
        simba__zk_latch_guard_fired(latch, fuzz_below(in, 2));
        break;
    case 2:
        simba__zk_latch_taken(latch);
        break;
    }
}

void fuzz_zk_children(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    zk_latch latch;
    simba__zk_latch_init(&latch, 7, "me", 0);
    while (in.left > 0) {
        zk_attempt attempt = {.wish = (zk_wish)fuzz_below(&in, ZK_WISH_ASK + 1)};
        zk_move move = simba__zk_latch_begin(&latch, &attempt);
        unsigned good_steps = 0;
        while (move.outcome == ZK_GO) {
            FUZZ_CHECK(move.calls != 0);
            if (in.left > 0)
                any_watch(&in, &latch);
            bool answered = true;
            if (in.left > 0)
                answered = any_answers(&in, &latch, &attempt, move.calls);
            else
                good_answers(&latch, &attempt, move.calls);
            move = answered ? simba__zk_latch_step(&latch, &attempt) : simba__zk_latch_begin(&latch, &attempt);
            good_steps += in.left == 0;
            FUZZ_CHECK(good_steps < 20); /* a server that works brings it to an end */
        }
        FUZZ_CHECK(move.outcome != ZK_WON || latch.place == ZK_LEADS);
        simba__zk_attempt_forget(&attempt);
        any_watch(&in, &latch);
    }
    simba__zk_latch_fini(&latch);
}
