/* What comes from ZooKeeper servers: messages, and the names of nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/targets.h"
#include "stores/zookeeper/zookeeper.h"
#include "util/mem.h"

/* --- messages ------------------------------------------------------------------------------------------------------- */

/* The first bytes say what was asked; the rest is the answer, in memory of its own, so that reading beyond it is found out. */
void fuzz_zk_message(const uint8_t *data, size_t size)
{
    static const zk_type types[] = {ZK_CREATE,   ZK_DELETE, ZK_EXISTS, ZK_GET,    ZK_SET,
                                    ZK_CHILDREN, ZK_SYNC,   ZK_MULTI,  ZK_CREATE2};
    fuzz_input in = {data, size};
    const unsigned kind = fuzz_below(&in, sizeof types / sizeof *types + 2);
    const zk_type last = fuzz_below(&in, 2) ? ZK_SET : ZK_DELETE;
    char *message = malloc(in.left + (in.left == 0));
    zk_welcome hello;
    zk_event event;
    zk_result r;
    FUZZ_CHECK(message);
    memcpy(message, in.at, in.left);
    if (kind == sizeof types / sizeof *types) {
        (void)simba__zk_read_welcome(message, in.left, &hello);
    } else if (kind > sizeof types / sizeof *types) {
        if (simba__zk_read_event(message, in.left, &event))
            FUZZ_CHECK(strlen(event.path) < in.left);
    } else if (simba__zk_read_result(message, in.left, types[kind], last, &r)) {
        FUZZ_CHECK(r.error <= ZK_OK && r.length < in.left + 1 && r.count <= in.left);
        FUZZ_CHECK(!r.text || r.text[r.length ? r.length : strlen(r.text)] == '\0');
        for (size_t i = 0; i < r.count; i++)
            FUZZ_CHECK(r.names[i][0] && !strchr(r.names[i], '/') &&
                       (i == 0 || simba__zk_order(r.names[i - 1], r.names[i]) <= 0));
        FUZZ_CHECK(r.stat.ctime_ms >= 0 && r.stat.mtime_ms >= 0);
        simba__zk_result_fini(&r);
    }
    free(message);
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
    const char *names[CHILDREN];
    size_t count;
} children;

static int compare(const void *a, const void *b)
{
    return simba__zk_order(*(const char *const *)a, *(const char *const *)b);
}

/* Contenders of ours, of others', and nodes that somebody has put there. */
static void any_children(fuzz_input *in, const zk_latch *latch, children *ret)
{
    ret->count = fuzz_below(in, CHILDREN + 1);
    for (size_t i = 0; i < ret->count; i++) {
        char *text = ret->text[i];
        ret->names[i] = text;
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
    qsort(ret->names, ret->count, sizeof *ret->names, compare);
}

static int any_error(fuzz_input *in)
{
    return fuzz_below(in, 3) ? ZK_OK : fuzz_below(in, 4) ? ZK_NO_NODE : -(int)fuzz_below(in, 130);
}

static zk_move answer_list(fuzz_input *in, zk_latch *latch)
{
    children seen;
    any_children(in, latch, &seen);
    const size_t mine = simba__zk_latch_find(latch, seen.names, seen.count);
    FUZZ_CHECK(mine >= seen.count || strncmp(seen.names[mine], latch->prefix, strlen(latch->prefix)) == 0);
    if (mine < seen.count)
        return simba__zk_latch_listed(latch, seen.names[mine], mine == 0, ZK_OK);
    return simba__zk_latch_listed(latch, NULL, false, any_error(in));
}

/* Whatever a server answers to what was asked. */
static zk_move any_answers(fuzz_input *in, zk_latch *latch, unsigned calls)
{
    char name[ZK_NAME_MAX];
    snprintf(name, sizeof name, "%s%010u", latch->prefix, fuzz_below(in, 8) ? fuzz_below(in, 32) : 2147483647U);
    if (calls & ZK_CALL_CREATE && fuzz_below(in, 4))
        simba__zk_latch_made(latch, name, 1 + fuzz_byte(in), fuzz_byte(in), ZK_OK);
    else if (calls & ZK_CALL_CREATE)
        simba__zk_latch_made(latch, NULL, 0, 0, -(int)fuzz_below(in, 130));
    if (calls & ZK_CALL_LIST)
        return answer_list(in, latch);
    if (calls & ZK_CALL_OWN)
        simba__zk_latch_own(latch, fuzz_number(in), fuzz_byte(in), any_error(in));
    for (unsigned call = ZK_CALL_BEFORE; call <= ZK_CALL_DELETE; call *= 2)
        if (calls & call)
            simba__zk_latch_read(latch, call, any_error(in));
    return simba__zk_latch_go(latch);
}

static zk_move any_event(fuzz_input *in, zk_latch *latch)
{
    switch (fuzz_below(in, 6)) {
    case 0:
        return simba__zk_latch_acquire(latch, fuzz_below(in, 2));
    case 1:
        return simba__zk_latch_release(latch);
    case 2:
        return simba__zk_latch_taken(latch);
    case 3:
        simba__zk_latch_lose(latch);
        return (zk_move){0};
    default:
        return simba__zk_latch_before(latch);
    }
}

/* Any events while calls are under way, and any answers to those. The latch checks itself. */
void fuzz_zk_children(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    zk_latch latch;
    zk_move move = {0};
    simba__zk_latch_init(&latch, 7, "me", 0);
    while (in.left > 0) {
        const zk_move next =
            fuzz_below(&in, 3) || move.calls == 0 ? any_event(&in, &latch) : any_answers(&in, &latch, move.calls);
        if (!latch.connected)
            move = simba__zk_latch_connect(&latch);
        else if (next.calls || latch.stage == ZK_RESTS)
            move = next;
        FUZZ_CHECK((move.calls != 0) == (latch.stage != ZK_RESTS));
        FUZZ_CHECK(next.tell != ZK_TELL_LEADS || latch.place == ZK_LEADS);
        if (next.tell == ZK_TELL_GONE || next.tell == ZK_TELL_FREED || next.tell == ZK_TELL_LOST)
            FUZZ_CHECK(latch.place == ZK_NONE || latch.place == ZK_REVOKED);
    }
}
