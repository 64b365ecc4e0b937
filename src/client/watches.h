/* The mutexes that handles of this client name, and who of them hears what the store pushes. Under the client's lock. */
#ifndef SIMBA_CLIENT_WATCHES_H
#define SIMBA_CLIENT_WATCHES_H

#include "client/client.h"

/* Find or make. NULL: out of memory. Counts as a reference until simba__watches_put. */
simba__watch *simba__watches_get(simba__watches *watches, const char *mutex);
void simba__watches_put(simba__watches *watches, simba__watch *watch);
/* NULL: there is none. */
simba__watch *simba__watches_find(const simba__watches *watches, const char *mutex);

/* One handle more (1) or less (-1) wants to hear of it, and of every change if it `observes`. */
void simba__watches_want(simba__watches *watches, simba__watch *watch, int by, bool observes);
/* If it should be watched and is not, because there was no memory, try again. */
void simba__watches_retry(simba__watches *watches, simba__watch *watch);
/* Tell the store: watch, unwatch; and free what nobody names any more. */
void simba__watches_settle(simba__watches *watches, const simba_backend *backend, void *store);
/* The client closes: unwatch everything. */
void simba__watches_end(simba__watches *watches);
void simba__watches_fini(simba__watches *watches);

/* A push of the store for all handles of this mutex. News goes to all of them. An invitation (RELEASED, CHANGED) goes to observers
 * and the holder, and to waiting contenders until one can use it: the others would only lose against that one. */
void simba__watches_push(simba__watch *watch, const simba_push *push, simba_local now);

#endif
