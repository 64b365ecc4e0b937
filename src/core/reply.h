/* Can a store mean what it says? A grant is what everything else rests on, and a store is a program on another machine: it
 * may be broken, hostile, or not what the URL says it is. So a reply is looked at here before anybody acts on it, for all
 * stores in the same way. Pure, like contention.h. */
#ifndef SIMBA_CORE_REPLY_H
#define SIMBA_CORE_REPLY_H

#include <simba/backend.h>

/* What is wrong with request->reply as an answer to this request: a SIMBA_E… code and a sentence. 0: nothing is.
 *
 * A grant or a renewal (outcome MINE) names the id of the request and has a token. A renewal keeps the token of the
 * request. A lease (`session` false) ends after the reply's own now_ms.
 *
 * SIMBA_ESTORE: no store that works answers so. SIMBA_ETIMEDOUT: the lease was over before the answer was made. Both mean
 * what every error of a request means: whether the store carried it out is not known. */
int simba__reply_check(const simba_request *request, bool session, simba_error *err);

/* A push can be forged or garbled as well. What to deliver instead of it: the same, or CHANGED ("ask the store") for one
 * that names an owner who cannot be one. */
const simba_push *simba__push_check(const simba_push *push);

#endif
