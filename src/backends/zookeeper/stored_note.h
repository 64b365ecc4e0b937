/* A note as it is stored. Pure: bytes in, values out.
 *
 * The note of a mutex is a persistent node of its own, in a folder beside that of the mutexes: the node of a mutex vanishes
 * with its last contender, and contenders on the JVM take every child of it for a contender. Only this library looks into that
 * folder.
 *
 * The node has a line, "1 TOKEN NUMBER" (a version, the token of the grant that wrote it, and the number of that write), and
 * behind the line the bytes of the note. Without bytes there is no note. The line stays when a note is removed, so that a
 * delayed write cannot bring an earlier note back. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_STORED_NOTE_H
#define SIMBA_BACKENDS_ZOOKEEPER_STORED_NOTE_H

#include <simba/backend.h>

enum { ZK_STORED_NOTE_MAX = SIMBA_NOTE_MAX + 48 };

typedef struct zk_stored_note {
    uint64_t token, number; /* 0: nobody has written yet */
    const char *bytes;
    size_t size; /* 0: there is no note */
} zk_stored_note;

/* False: simba does not write such a note. `bytes` points into `data`. */
bool simba__zk_stored_note_read(const char *data, size_t length, zk_stored_note *ret_note);
/* Returns the length. */
size_t simba__zk_stored_note_write(const zk_stored_note *note, char ret_data[ZK_STORED_NOTE_MAX]);

/* Did a later write than this request make the note, so that the request comes too late? */
bool simba__zk_stored_note_is_later(const zk_stored_note *note, const simba_request *request);
/* Did this very request make it, and was the answer lost? */
bool simba__zk_stored_note_is_of(const zk_stored_note *note, const simba_request *request);

#endif
