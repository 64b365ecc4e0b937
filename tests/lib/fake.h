/* What servers that a test plays share: how they listen, and that they keep what clients send. */
#ifndef TESTS_LIB_FAKE_H
#define TESTS_LIB_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* A socket that listens on a free port of this host. Aborts if the system refuses. */
int fake_listen(int *ret_port);
/* Close it, and wait for the thread that takes connections from it. */
void fake_stop_listening(int listener, pthread_t thread);

/* All that clients have sent, as far as there is room. */
typedef struct fake_ear {
    pthread_mutex_t lock;
    char bytes[65536];
    size_t size;
} fake_ear;

void fake_hear(fake_ear *ear, const void *bytes, size_t size);
bool fake_has_heard(fake_ear *ear, const char *text);

#endif
