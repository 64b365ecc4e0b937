/* See zk_machine_latch.h. Worlds differ in nothing that matters if the numbers of children and transactions stand in the same
 * order. */
#include <stdlib.h>
#include <string.h>

#include "sim/zk_machine_latch.h"

/* --- names in place of pointers ------------------------------------------------------------------------- */

/* It takes a while to make them, so all of them are made once. */
static const char *prefix_of(child which)
{
    static _Thread_local char prefixes[CLIENTS][SESSIONS][ZK_PREFIX_MAX];
    char *prefix = prefixes[which.client][which.session];
    if (!prefix[0])
        simba__zk_prefix(simba__zk_salted(which.client + 1U, which.session), "id", prefix);
    return prefix;
}

void latch_text_of(child which, char ret_text[ZK_NAME_MAX])
{
    ret_text[0] = '\0';
    if (which.client != CLIENTS)
        snprintf(ret_text, ZK_NAME_MAX, "%s%010d", prefix_of(which), which.number);
}

/* The zxid is no part of a name. */
child latch_child_of(const char *text)
{
    if (!text[0])
        return latch_nobody;
    for (unsigned i = 0; i < CLIENTS; i++)
        for (unsigned session = 0; session < SESSIONS; session++) {
            child which = {.client = (uint8_t)i, .session = (uint8_t)session};
            const char *prefix = prefix_of(which);
            if (strncmp(text, prefix, strlen(prefix)) != 0)
                continue;
            which.number = (int16_t)atoi(text + strlen(prefix));
            return which;
        }
    abort();
}

void latch_wake(client *c, child self)
{
    strcpy(c->latch.prefix, prefix_of(self));
    latch_text_of(c->name, c->latch.name);
}

void latch_sleep(client *c)
{
    c->name = latch_child_of(c->latch.name);
    memset(c->latch.prefix, 0, sizeof c->latch.prefix);
    memset(c->latch.name, 0, sizeof c->latch.name);
}

/* --- one form for all that are alike -------------------------------------------------------------------- */

typedef struct numbers {
    int16_t *at[CLIENTS * (CALLS * (CHILDREN + 1) + 16) + CHILDREN + NEWS + 8];
    unsigned count;
} numbers;

static void add_number(numbers *n, int16_t *number)
{
    n->at[n->count++] = number;
}

static void add_child(numbers *all, numbers *zxids, child *which)
{
    if (which->client == CLIENTS)
        return;
    add_number(all, &which->number);
    if (which->zxid)
        add_number(zxids, &which->zxid);
}

static void add_queue(numbers *all, numbers *zxids, queue *q)
{
    for (unsigned i = 0; i < q->count; i++)
        add_child(all, zxids, &q->children[i]);
}

static void add_client(numbers *all, numbers *zxids, client *c)
{
    child *const children[] = {&c->watch_before, &c->watch_guard, &c->slot_before, &c->slot_guard,
                               &c->name,         &c->first,       &c->before};
    for (unsigned i = 0; i < sizeof children / sizeof *children; i++)
        add_child(all, zxids, children[i]);
    for (unsigned i = 0; i < c->calls; i++) {
        add_child(all, zxids, &c->call[i].child);
        if (c->call[i].is_listed)
            add_queue(all, zxids, &c->call[i].list);
    }
}

static int compare(const void *a, const void *b)
{
    return **(int16_t *const *)a - **(int16_t *const *)b;
}

/* What counts is which is greater, so gaps between them are at most `gap` afterwards: 2 where the numbers of a new node begin at 0 and
 * may come between those of the old one. The least is at most 1: the zxid 0 is something else. */
static void close_gaps(numbers *n, int gap)
{
    int old = -1, new = -1;
    qsort(n->at, n->count, sizeof *n->at, compare);
    for (unsigned i = 0; i < n->count; i++) {
        const int distance = *n->at[i] - old, most = new < 0 ? 2 : gap;
        old = *n->at[i];
        new += distance < most ? distance : most;
        *n->at[i] = (int16_t) new;
    }
}

/* In new memory, so that what is between its members is zero. */
static void normalise_latch(client *c)
{
    const zk_latch old = c->latch;
    const bool is_here = old.place == ZK_WAITS || old.place == ZK_LEADS;
    const bool removes = old.stage == ZK_REMOVES || old.stage == ZK_TRIES;
    memset(&c->latch, 0, sizeof c->latch);
    c->latch.place = old.place;
    c->latch.stage = old.stage;
    c->latch.connected = old.connected;
    c->latch.queue = old.queue;
    c->latch.leaving = old.leaving;
    c->latch.again = old.again;
    c->latch.asked = old.asked;
    c->latch.missing = old.missing;
    c->latch.vanished = old.vanished;
    c->latch.led = removes && old.led;
    c->latch.stands = old.stands;
    c->latch.guarded = old.guarded;
    c->latch.rounds = old.rounds;
    c->latch.error = old.error;
    c->latch.czxid = is_here ? old.czxid : 0;
    if (!is_here)
        c->name = latch_nobody;
    if (old.stage != ZK_TRIES)
        c->first = latch_nobody; /* the calls have it */
    c->before = latch_nobody;
}

void latch_normalise(void *of)
{
    world *w = of;
    static _Thread_local numbers all, zxids;
    int16_t czxid[CLIENTS] = {0};
    all.count = zxids.count = 0;
    latch_forget_news(w);
    add_queue(&all, &zxids, &w->truth);
    add_number(&all, &w->truth.next);
    for (unsigned i = 0; i < w->news_count; i++)
        add_child(&all, &zxids, &w->news[i].child);
    for (unsigned i = 0; i < latch_clients(w); i++) {
        client *c = &w->client[i];
        normalise_latch(c);
        add_client(&all, &zxids, c);
        czxid[i] = (int16_t)c->latch.czxid;
        if (czxid[i])
            add_number(&zxids, &czxid[i]);
        if (c->forced)
            add_number(&zxids, &c->forced);
    }
    close_gaps(&all, w->head.bounds[TIDIES] > 0 ? 2 : 1);
    if (w->token)
        add_number(&zxids, &w->token);
    close_gaps(&zxids, 1);
    w->zxid = w->token;
    for (unsigned i = 0; i < zxids.count; i++)
        w->zxid = *zxids.at[i] > w->zxid ? *zxids.at[i] : w->zxid;
    for (unsigned i = 0; i < latch_clients(w); i++) {
        w->client[i].latch.czxid = czxid[i];
    }
}
