/* The notes of mutexes: WRITE_NOTE and READ_NOTE. stored_note.h has the stored form. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_NOTES_H
#define SIMBA_BACKENDS_ZOOKEEPER_NOTES_H

#include "backends/zookeeper/nodes.h"

void simba__zk_write_note(zk_nodes *nodes, simba_request *request);
void simba__zk_read_note(zk_ops *ops, simba_request *request);

/* The path of the node that has the note of this mutex. Free it; NULL: out of memory. */
char *simba__zk_note_path(const zk_ops *ops, const char *mutex);

#endif
