/* What libzookeeper has once per process. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_LIBRARY_H
#define SIMBA_BACKENDS_ZOOKEEPER_LIBRARY_H

/* It draws the numbers of requests from one counter for all handles, without a lock of its own: calls are made under this. */
void simba__zk_library_lock(void);
void simba__zk_library_unlock(void);
/* Its log is written to standard error, through buffers that all threads share. What matters in it is told in our words. */
void simba__zk_library_silence(void);

#endif
