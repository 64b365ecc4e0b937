/* Threads and conditions with the settings of this library. */
#ifndef SIMBA_UTIL_THREAD_H
#define SIMBA_UTIL_THREAD_H

#include <pthread.h>

/* A condition that waits by the monotonic clock. 0 or an errno. */
int simba__cond_init(pthread_cond_t *cond);
/* Start a thread that takes no signals, so that they go to the application's threads. 0 or an errno. */
int simba__thread_create(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
