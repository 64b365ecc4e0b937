/* See poller.h. */
#include "poller.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

struct poller {
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
static void hand_over(poller *p, look *l)
{
    pthread_mutex_lock(&p->lock);
    while (p->latest != NULL && !p->is_ending)
        pthread_cond_wait(&p->changed, &p->lock);
    look *unseen = p->latest;
    p->latest = l;
    pthread_mutex_unlock(&p->lock);
    look_free(unseen);
    eventfd_write(p->fd, 1);
}

/* The store is asked first: what was seen last may be seconds old, and the history must know from whom the mutex was taken.
 * Called and returns with the lock held. */
static void carry_out(poller *p)
{
    release_order *order = p->ordered;
    const simba_owner *owner = NULL;
    char held[sizeof order->token] = "";
    uint64_t token = 0;
    pthread_mutex_unlock(&p->lock);
    look *before = look_at(p->client, NULL, POLLER_ROWS_MAX);
    for (size_t i = 0; i < before->count; i++)
        if (strcmp(before->rows[i].mutex, order->mutex) == 0 &&
            simba_owner_has_owner(&before->rows[i].owner, before->store_ms))
            owner = &before->rows[i].owner;
    if (owner != NULL) {
        token = owner->token;
        snprintf(held, sizeof held, "%" PRIu64, token);
    }
    memcpy(order->error.text, before->error, sizeof order->error.text);
    order->code = before->code;
    if (order->code == 0 && order->token[0] != '\0') /* it means the grant that is in force, or none */
        order->code = owner == NULL ? SIMBA_ENOTFOUND : strcmp(held, order->token) == 0 ? 0 : SIMBA_ESTATE;
    hand_over(p, before);
    if (order->code == 0)
        order->code = simba_client_force_release(p->client, order->mutex, &order->error);
    look *after = look_at(p->client, NULL, POLLER_ROWS_MAX); /* so that the client that asked for the change sees it */
    if (order->code == 0) {
        memcpy(after->forced, order->mutex, sizeof after->forced);
        after->forced_token = token;
    }
    hand_over(p, after);
    pthread_mutex_lock(&p->lock);
    p->ordered = NULL;
    p->done = order;
    eventfd_write(p->fd, 1);
}

static void *look_again_and_again(void *arg)
{
    poller *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->is_ending) {
        pthread_mutex_unlock(&p->lock);
        look *l = look_at(p->client, NULL, POLLER_ROWS_MAX);
        const int64_t asked_ms = l->mono_ms;
        const int64_t least_ms = l->code == 0 ? l->took_ms * POLLER_SHARE : 0;
        hand_over(p, l);
        pthread_mutex_lock(&p->lock);
        /* Until the next look is due, which is sooner when somebody begins to watch. */
        int code = 0;
        while (!p->is_ending && code != ETIMEDOUT) {
            const int64_t due_ms = asked_ms + max64(least_ms, p->is_watched ? POLLER_OFTEN_MS : POLLER_RARELY_MS);
            const struct timespec at = {.tv_sec = due_ms / 1000, .tv_nsec = due_ms % 1000 * 1000000};
            if (p->ordered != NULL && p->done == NULL)
                carry_out(p);
            else
                code = pthread_cond_timedwait(&p->changed, &p->lock, &at);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

poller *poller_start(simba_client *client)
{
    pthread_condattr_t attributes;
    poller *p = cli_alloc(sizeof *p);
    p->client = client;
    p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->fd < 0) {
        free(p);
        return NULL;
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    const int code = pthread_create(&p->thread, NULL, look_again_and_again, p);
    if (code == 0)
        return p;
    close(p->fd);
    free(p);
    errno = code;
    return NULL;
}

void poller_stop(poller *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_ending = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    look_free(p->latest);
    close(p->fd);
    free(p);
}

int poller_fd(const poller *p)
{
    return p->fd;
}

look *poller_take(poller *p)
{
    eventfd_t count;
    eventfd_read(p->fd, &count);
    pthread_mutex_lock(&p->lock);
    look *l = p->latest;
    p->latest = NULL;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return l;
}

void poller_watch(poller *p, bool is_watched)
{
    pthread_mutex_lock(&p->lock);
    if (p->is_watched != is_watched) {
        p->is_watched = is_watched;
        pthread_cond_signal(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
}

bool poller_release(poller *p, release_order *order)
{
    pthread_mutex_lock(&p->lock);
    const bool is_taken = p->ordered == NULL && p->done == NULL;
    if (is_taken) {
        p->ordered = order;
        pthread_cond_signal(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return is_taken;
}

release_order *poller_released(poller *p)
{
    pthread_mutex_lock(&p->lock);
    release_order *order = p->latest == NULL ? p->done : NULL; /* first the look after it is taken */
    if (order != NULL)
        p->done = NULL;
    pthread_mutex_unlock(&p->lock);
    return order;
}
