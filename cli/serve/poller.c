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

/* The store is asked first: what was seen last may be seconds old, and the history must know from whom the mutex was taken.
 * Called and returns with the lock held. */
static void carry_out(poller *p)
{
    release_order *order = p->ordered;
    pthread_mutex_unlock(&p->lock);
    look *before = look_at(p->client, NULL, POLLER_ROWS_MAX);
    const simba_owner *owner = owner_in(before, order->mutex);
    const uint64_t token = owner != NULL ? owner->token : 0;
    order->code = check_order(order, before, owner);
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

static struct timespec due(const poller *p, int64_t asked_ms, int64_t took_ms)
{
    int64_t pause_ms = p->is_watched ? POLLER_OFTEN_MS : POLLER_RARELY_MS;
    if (pause_ms < took_ms * POLLER_SHARE)
        pause_ms = took_ms * POLLER_SHARE;
    const int64_t at_ms = asked_ms + pause_ms;
    return (struct timespec){.tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000};
}

/* Until the next look is due. Called and returns with the lock held. */
static void rest(poller *p, int64_t asked_ms, int64_t took_ms)
{
    int code = 0;
    while (!p->is_ending && code != ETIMEDOUT) {
        const struct timespec at = due(p, asked_ms, took_ms);
        if (p->ordered != NULL && p->done == NULL)
            carry_out(p);
        else
            code = pthread_cond_timedwait(&p->changed, &p->lock, &at);
    }
}

static void *look_again_and_again(void *arg)
{
    poller *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->is_ending) {
        pthread_mutex_unlock(&p->lock);
        look *l = look_at(p->client, NULL, POLLER_ROWS_MAX);
        const int64_t asked_ms = l->mono_ms;
        const int64_t took_ms = l->code == 0 ? l->took_ms : 0;
        hand_over(p, l);
        pthread_mutex_lock(&p->lock);
        rest(p, asked_ms, took_ms);
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
