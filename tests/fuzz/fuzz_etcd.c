/* What comes from etcd: answers to each kind of request, and notes. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/targets.h"
#include "stores/etcd/etcd.h"

/* The first byte says what was asked; the rest is the answer, in memory of its own, so that reading beyond it is found out. */
void fuzz_etcd_answer(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const unsigned kind = fuzz_below(&in, 4);
    char *text = malloc(in.left + (in.left == 0));
    etcd_names names;
    etcd_sight sight;
    etcd_fault fault;
    etcd_kv kv;
    simba__json json;
    FUZZ_CHECK(text);
    memcpy(text, in.at, in.left);
    simba__etcd_names("", "m", &names);
    simba__etcd_name_own(&names, 1, 1);
    if (!simba__json_read(text, in.left, &json)) {
        free(text);
        return;
    }
    if (kind == 0 && simba__etcd_read_enter(json, &names, &sight)) {
        FUZZ_CHECK(sight.own > 0 && (sight.before == 0 || simba__etcd_contends(names.folder, sight.before_key)));
    } else if (kind == 1 && simba__etcd_read_look(json, &names, &sight)) {
        FUZZ_CHECK(sight.own == 0 || sight.before < sight.own);
        FUZZ_CHECK(sight.before == 0 || simba__etcd_contends(names.folder, sight.before_key));
    } else if (kind == 2 && simba__etcd_read_kv(json, &kv)) {
        const simba_owner owner = simba__etcd_owner(&kv);
        FUZZ_CHECK(owner.id[0] && memchr(owner.id, '\0', sizeof owner.id) && owner.token == kv.create_revision);
        (void)simba__etcd_is_lock(&kv);
    } else if (kind == 3) {
        simba__etcd_read_fault(json, &fault);
        FUZZ_CHECK(memchr(fault.text, '\0', sizeof fault.text));
    }
    free(text);
}

void fuzz_etcd_note(const uint8_t *data, size_t size)
{
    char back[ETCD_STORED_NOTE_MAX];
    etcd_note note;
    etcd_note again;
    if (!simba__etcd_note_read((const char *)data, size, &note))
        return;
    FUZZ_CHECK(note.size <= SIMBA_NOTE_MAX && note.bytes + note.size == (const char *)data + size);
    const size_t length = simba__etcd_note_write(&note, back);
    FUZZ_CHECK(simba__etcd_note_read(back, length, &again) && again.token == note.token &&
               again.number == note.number && again.written_at_ms == note.written_at_ms && again.size == note.size &&
               memcmp(again.bytes, note.bytes, note.size) == 0);
}
