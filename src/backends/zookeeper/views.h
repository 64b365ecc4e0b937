/* Lists of the children of a mutex that contenders of this client share. A client may have thousands of contenders for one mutex,
 * and if each of them listed all, that would cost the square of their number.
 *
 * A contender needs a list that is asked for after it has made its own child. So while a few lists of a queue are in flight, those
 * who need one gather; when one has come they get the next one together. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_VIEWS_H
#define SIMBA_BACKENDS_ZOOKEEPER_VIEWS_H

#include "backends/zookeeper/queues.h"

/* Counts as a call of `op`. `answered` gets the names that matter for this latch: perhaps not all of them. */
void simba__zk_view(zk_queue *queue, zk_op *op, const zk_latch *latch, zk_answered *answered);

#endif
