/* Owners, and checks of the replies of stores. Everything rests on grants, and a store is a program on another machine: it may be
 * broken, hostile, or not what the URL says it is. So this code checks a reply before anybody acts on it, for all
 * stores in the same way. Pure, like contention.h. */
#ifndef SIMBA_CORE_REPLY_H
#define SIMBA_CORE_REPLY_H

#include <simba/backend.h>

/* Is it another contender, or another grant of the same one? The other predicates on owners are in simba.h. */
bool simba__is_another(const simba_owner *one, const simba_owner *other);

/* What is wrong with request->reply as an answer to this request: a SIMBA_E… code and a sentence. 0: nothing is.
 *
 * A grant or a renewal (outcome MINE) must name the id of the request and have a token. A renewal must keep the token
 * of the request. A lease (`session` false) must end after the reply's own now_ms.
 *
 * SIMBA_ESTORE: no working store answers so. SIMBA_ETIMEDOUT: the lease was over before the store answered. Like
 * every error of a request, both mean that nobody knows whether the store carried it out. */
int simba__reply_check(const simba_request *request, bool session, simba_error *err);

/* A push can be forged or garbled as well. Returns the push to deliver instead: the same, or CHANGED ("ask the
 * store") for a push whose owner is impossible. */
const simba_push *simba__push_check(const simba_push *push);

#endif
