/* See looker.h. */
#include "looker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct looker {
    simba_client *client;
    pthread_t thread;
    int fd;
    /* The lock guards the members below. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_watched;
    bool is_ending;
    look *latest;
    release_order *ordered; /* to be done */
    release_order *done;
};

static void hand_over(looker *k, look *l)
{
    pthread_mutex_lock(&k->lock);
    look *unseen = k->latest;
    k->latest = l;
    pthread_mutex_unlock(&k->lock);
    look_free(unseen);
    eventfd_write(k->fd, 1);
}

/* Called and returns with the lock held. */
static void carry_out(looker *k)
{
    release_order *order = k->ordered;
    pthread_mutex_unlock(&k->lock);
    order->code = simba_client_force_release(k->client, order->mutex, &order->error);
    look *l = look_at(k->client, NULL, LOOKER_ROWS_MAX); /* so that the client that asked for the change sees it */
    hand_over(k, l);
    pthread_mutex_lock(&k->lock);
    k->ordered = NULL;
    k->done = order;
    eventfd_write(k->fd, 1);
}

static struct timespec due(const looker *k, int64_t asked_ms, int64_t took_ms)
{
    int64_t pause_ms = k->is_watched ? LOOKER_OFTEN_MS : LOOKER_RARELY_MS;
    if (pause_ms < took_ms * LOOKER_SHARE)
        pause_ms = took_ms * LOOKER_SHARE;
    const int64_t at_ms = asked_ms + pause_ms;
    return (struct timespec){.tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000};
}

/* Until the next look is due. Called and returns with the lock held. */
static void rest(looker *k, int64_t asked_ms, int64_t took_ms)
{
    int code = 0;
    while (!k->is_ending && code != ETIMEDOUT) {
        const struct timespec at = due(k, asked_ms, took_ms);
        if (k->ordered != NULL && k->done == NULL)
            carry_out(k);
        else
            code = pthread_cond_timedwait(&k->changed, &k->lock, &at);
    }
}

static void *look_again_and_again(void *arg)
{
    looker *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->is_ending) {
        pthread_mutex_unlock(&k->lock);
        look *l = look_at(k->client, NULL, LOOKER_ROWS_MAX);
        const int64_t asked_ms = l->mono_ms;
        const int64_t took_ms = l->code == 0 ? l->took_ms : 0;
        hand_over(k, l);
        pthread_mutex_lock(&k->lock);
        rest(k, asked_ms, took_ms);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

looker *looker_start(simba_client *client)
{
    pthread_condattr_t attributes;
    looker *k = cli_alloc(sizeof *k);
    k->client = client;
    k->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->fd < 0) {
        free(k);
        return NULL;
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    const int code = pthread_create(&k->thread, NULL, look_again_and_again, k);
    if (code == 0)
        return k;
    close(k->fd);
    free(k);
    errno = code;
    return NULL;
}

void looker_stop(looker *k)
{
    pthread_mutex_lock(&k->lock);
    k->is_ending = true;
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    look_free(k->latest);
    close(k->fd);
    free(k);
}

int looker_fd(const looker *k)
{
    return k->fd;
}

look *looker_take(looker *k)
{
    eventfd_t rung;
    eventfd_read(k->fd, &rung);
    pthread_mutex_lock(&k->lock);
    look *l = k->latest;
    k->latest = NULL;
    pthread_mutex_unlock(&k->lock);
    return l;
}

void looker_watch(looker *k, bool is_watched)
{
    pthread_mutex_lock(&k->lock);
    if (k->is_watched != is_watched) {
        k->is_watched = is_watched;
        pthread_cond_signal(&k->changed);
    }
    pthread_mutex_unlock(&k->lock);
}

bool looker_release(looker *k, release_order *order)
{
    pthread_mutex_lock(&k->lock);
    const bool is_taken = k->ordered == NULL && k->done == NULL;
    if (is_taken) {
        k->ordered = order;
        pthread_cond_signal(&k->changed);
    }
    pthread_mutex_unlock(&k->lock);
    return is_taken;
}

release_order *looker_released(looker *k)
{
    pthread_mutex_lock(&k->lock);
    release_order *order = k->done;
    k->done = NULL;
    pthread_mutex_unlock(&k->lock);
    return order;
}
