/* Callbacks on a thread of the program's own. The library hands each piece of work to the executor, which runs it soon
 * and once. Here the executor is one thread with a queue; in a program with a thread pool it is that pool.
 *
 * usage: executor [URL] */
#include <inttypes.h>
#include <pthread.h>
#include <simba.h>
#include <stdbool.h>
#include <stdio.h>

enum { ROOM = 64 };

typedef struct executor {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        void (*run)(void *arg);
        void *arg;
    } queue[ROOM];
    size_t begin, count;
    bool closed;
} executor;

/* Called by the library, on any thread. It must not run the work itself. */
static void execute(void *user, void (*run)(void *arg), void *arg)
{
    executor *self = user;
    pthread_mutex_lock(&self->lock);
    while (self->count ==
           ROOM) /* one contender has at most one piece of work outstanding, so this does not happen here */
        pthread_cond_wait(&self->changed, &self->lock);
    const size_t end = (self->begin + self->count++) % ROOM;
    self->queue[end].run = run;
    self->queue[end].arg = arg;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static void *run_all(void *arg)
{
    executor *self = arg;
    pthread_mutex_lock(&self->lock);
    while (self->count > 0 || !self->closed) {
        if (self->count == 0) {
            pthread_cond_wait(&self->changed, &self->lock);
            continue;
        }
        const size_t first = self->begin;
        void (*run)(void *) = self->queue[first].run;
        void *run_arg = self->queue[first].arg;
        self->begin = (first + 1) % ROOM;
        self->count--;
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->lock);
        run(run_arg);
        pthread_mutex_lock(&self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* --- what it is for --------------------------------------------------------------------------------- */

typedef struct election {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool led;
} election;

static void on_acquired(simba_contender *self, const simba_state *state, void *user)
{
    election *them = user;
    printf("%s leads under token %" PRIu64 ", on the program's own thread\n", simba_contender_id(self),
           state->after.token);
    pthread_mutex_lock(&them->lock);
    them->led = true;
    pthread_cond_signal(&them->changed);
    pthread_mutex_unlock(&them->lock);
}

static int run(simba_client *client)
{
    election them = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    simba_error error;

    options.on_acquired = on_acquired;
    options.user = &them;
    if (simba_contender_new(client, "orders", &options, &error, &contender) < 0) {
        fprintf(stderr, "cannot contend: %s\n", error.text);
        return 1;
    }
    simba_contender_start(contender);
    pthread_mutex_lock(&them.lock);
    while (!them.led)
        pthread_cond_wait(&them.changed, &them.lock);
    pthread_mutex_unlock(&them.lock);
    simba_contender_free(contender);
    return 0;
}

int main(int argc, char **argv)
{
    executor pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_error error;
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_all, &pool) != 0)
        return 1;
    options.dispatch = SIMBA_DISPATCH_EXECUTOR;
    options.executor = execute;
    options.executor_user = &pool;
    int failed = 1;
    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", &options, &error, &client) < 0)
        fprintf(stderr, "cannot open the store: %s\n", error.text);
    else
        failed = run(client);
    simba_client_close(client); /* before the executor ends: closing may need it */
    pthread_mutex_lock(&pool.lock);
    pool.closed = true;
    pthread_cond_broadcast(&pool.changed);
    pthread_mutex_unlock(&pool.lock);
    pthread_join(thread, NULL);
    return failed;
}
