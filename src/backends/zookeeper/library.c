#include "backends/zookeeper/library.h"

#include <pthread.h>
#include <zookeeper/zookeeper.h>

static pthread_mutex_t library_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Somebody may have it while a thread forks; in the child nobody has. */
static void forked(void)
{
    pthread_mutex_init(&library_mutex, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forked);
}

void simba__zk_library_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&library_mutex);
}

void simba__zk_library_unlock(void)
{
    pthread_mutex_unlock(&library_mutex);
}

static void silence(void)
{
    zoo_set_debug_level((ZooLogLevel)0);
}

void simba__zk_library_silence(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, silence);
}
