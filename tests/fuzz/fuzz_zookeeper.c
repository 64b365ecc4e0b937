/* What comes from ZooKeeper servers: messages and notes. */
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
        FUZZ_CHECK(r.error <= ZK_OK && r.length < in.left + 1 && r.contenders <= r.count && r.count <= in.left);
        FUZZ_CHECK(!r.text || r.text[r.length ? r.length : strlen(r.text)] == '\0');
        for (size_t i = 0; i < r.count; i++)
            FUZZ_CHECK(r.names[i][0] && !strchr(r.names[i], '/') &&
                       simba__zk_is_contender(r.names[i]) == (i < r.contenders) &&
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
