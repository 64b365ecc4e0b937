/* What the library says: events for people, from one table with their level, sentence and fields (docs/log.md shows it, and a test
 * compares the two); notes, which are a level and a sentence; and the lines of the event log, for `simba timeline`. Events are
 * derived from the steps of the machines, so they are the same on every store. */
#ifndef SIMBA_CLIENT_LOG_H
#define SIMBA_CLIENT_LOG_H

#include <stdarg.h>

#include "client/handles.h"

/* key, and the member of simba__facts that holds it; whether that is text, a number, or a time that may be unknown */
#define SIMBA__FACTS(X)                                                                                                \
    X(MUTEX, mutex, TEXT)                                                                                              \
    X(ID, id, TEXT)                                                                                                    \
    X(TOKEN, token, NUMBER)                                                                                            \
    X(OWNER, owner, TEXT)                                                                                              \
    X(REASON, reason, TEXT)                                                                                            \
    X(REQUEST, request, TEXT)                                                                                          \
    X(ERROR, error, TEXT)                                                                                              \
    X(STORE, store, TEXT)                                                                                              \
    X(SERVER, server, TEXT)                                                                                            \
    X(LEFT_MS, left_ms, SPAN)                                                                                          \
    X(SESSION_MS, session_ms, SPAN)                                                                                    \
    X(MARGIN_MS, margin_ms, SPAN)                                                                                      \
    X(SLEPT_MS, slept_ms, SPAN)

enum {
#define SIMBA__FACT_ENUM(name, member, kind) SIMBA__FACT_##name,
    SIMBA__FACTS(SIMBA__FACT_ENUM)
#undef SIMBA__FACT_ENUM
        SIMBA__FACT_COUNT
};

#define SIMBA__HAS(name) (1U << SIMBA__FACT_##name)
#define SIMBA__HAS_CONTENDER (SIMBA__HAS(MUTEX) | SIMBA__HAS(ID))
#define SIMBA__HAS_GRANT (SIMBA__HAS_CONTENDER | SIMBA__HAS(TOKEN))

/* name, event, level, sentence (NULL: it comes with the event), fields */
#define SIMBA__NOTICES(X)                                                                                              \
    X(CONTENDS, "contends", INFO, "contends", SIMBA__HAS_CONTENDER)                                                    \
    X(WAITS, "waits", INFO, "waits for its owner", SIMBA__HAS_CONTENDER | SIMBA__HAS(OWNER) | SIMBA__HAS(LEFT_MS))     \
    X(ACQUIRED, "acquired", INFO, "leads", SIMBA__HAS_GRANT | SIMBA__HAS(LEFT_MS))                                     \
    X(CANNOT_RENEW, "cannot-renew", INFO, "the lease could not be renewed yet",                                        \
      SIMBA__HAS_GRANT | SIMBA__HAS(LEFT_MS))                                                                          \
    X(RENEWED_LATE, "renewed-late", INFO, "the lease was renewed, later than it should have been",                     \
      SIMBA__HAS_GRANT | SIMBA__HAS(LEFT_MS))                                                                          \
    X(LOST, "lost", WARN, "leadership was lost", SIMBA__HAS_GRANT | SIMBA__HAS(REASON))                                \
    X(RELEASED, "released", INFO, "leads no more", SIMBA__HAS_GRANT | SIMBA__HAS(REASON))                              \
    X(CANNOT_LEAD, "cannot-lead", ERROR,                                                                               \
      "cannot lead: the stop margin is more than a third of the session that the server grants; have it grant more, "  \
      "or ask for less time to stop",                                                                                  \
      SIMBA__HAS_CONTENDER | SIMBA__HAS(SESSION_MS) | SIMBA__HAS(MARGIN_MS))                                           \
    X(CONNECTED, "connected", INFO, "the store answers", SIMBA__HAS(STORE) | SIMBA__HAS(SERVER))                       \
    X(RECONNECTED, "reconnected", INFO, "the store answers again", SIMBA__HAS(STORE) | SIMBA__HAS(SERVER))             \
    X(STORE_FAILED, "store-failed", WARN, NULL,                                                                        \
      SIMBA__HAS(MUTEX) | SIMBA__HAS(REQUEST) | SIMBA__HAS(ERROR) | SIMBA__HAS(STORE))                                 \
    X(STORE_FORGETS, "store-forgets", WARN, NULL, SIMBA__HAS(STORE))                                                   \
    X(SLEPT, "slept", INFO, "this machine slept", SIMBA__HAS(SLEPT_MS))

/* --- any thread ---------------------------------------------------------------------------------------- */

/* A note. `to` are the options of the client, which say who hears it. */
void simba__log(const simba_client_options *to, simba_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void simba__vlog(const simba_client_options *to, simba_log_level level, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
/* A line of the event log, about a callback. */
void simba__log_callback(const simba__candidate *candidate, const char *words);

/* --- under the lock ------------------------------------------------------------------------------------ */

void simba__log_step(simba__candidate *candidate, const simba__step *step);
/* Where leases are sessions: the lease of this holder is overdue, or was renewed after all. */
void simba__log_lease(simba__candidate *candidate, bool renewed);
void simba__log_cannot_lead(const simba__candidate *candidate, int64_t session_ms);
void simba__log_slept(const simba_client_options *to, int64_t ms);
/* The store has answered a request, or has failed it. The same cause is logged once a minute. Returns the error as whoever made the
 * request is told it, with the name of the request. */
void simba__log_answer(simba_client *client);
simba_error simba__log_failure(simba_client *client, const simba_request *request, const simba_error *cause);
/* The store keeps nothing when its server restarts. Logged once. */
void simba__log_forgets(simba_client *client, const char *text);

#endif
