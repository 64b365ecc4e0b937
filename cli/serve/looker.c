/* See looker.h. */
#include "looker.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    look *latest;           /* not yet taken */
    release_order *ordered; /* to be done */
    release_order *done;
};

/* No look is left out: a change that is seen in two steps is not the same as one. */
static void hand_over(looker *k, look *l)
{
    pthread_mutex_lock(&k->lock);
    while (k->latest != NULL && !k->is_ending)
        pthread_cond_wait(&k->changed, &k->lock);
    look *unseen = k->latest;
    k->latest = l;
    pthread_mutex_unlock(&k->lock);
    look_free(unseen);
    eventfd_write(k->fd, 1);
}

static const simba_owner *owner_in(const look *l, const char *mutex)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->rows[i].mutex, mutex) == 0)
            return simba_owner_has_owner(&l->rows[i].owner, l->store_ms) ? &l->rows[i].owner : NULL;
    return NULL;
}

/* 0: the order means the grant that is in force. */
static int check_order(release_order *order, const look *l, const simba_owner *owner)
{
    char held[sizeof order->token];
    memcpy(order->error.text, l->error, sizeof order->error.text);
    if (l->code < 0 || order->token[0] == '\0')
        return l->code;
    if (owner == NULL)
        return SIMBA_ENOTFOUND;
    snprintf(held, sizeof held, "%" PRIu64, owner->token);
    return strcmp(held, order->token) == 0 ? 0 : SIMBA_ESTATE;
}

/* The store is asked first: what was seen last may be seconds old, and the history has to know from whom the mutex was taken.
 * Called and returns with the lock held. */
static void carry_out(looker *k)
{
    release_order *order = k->ordered;
    pthread_mutex_unlock(&k->lock);
    look *before = look_at(k->client, NULL, LOOKER_ROWS_MAX);
    const simba_owner *owner = owner_in(before, order->mutex);
    const uint64_t token = owner != NULL ? owner->token : 0;
    order->code = check_order(order, before, owner);
    hand_over(k, before);
    if (order->code == 0)
        order->code = simba_client_force_release(k->client, order->mutex, &order->error);
    look *after = look_at(k->client, NULL, LOOKER_ROWS_MAX); /* so that the client that asked for the change sees it */
    if (order->code == 0) {
        memcpy(after->forced, order->mutex, sizeof after->forced);
        after->forced_token = token;
    }
    hand_over(k, after);
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
    pthread_cond_signal(&k->changed);
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
    release_order *order = k->latest == NULL ? k->done : NULL; /* first the look after it is taken */
    if (order != NULL)
        k->done = NULL;
    pthread_mutex_unlock(&k->lock);
    return order;
}
