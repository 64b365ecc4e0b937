/* The messages of the library to people: one table of all events, with their level, their sentence and their fields.
 * They are the same on every store. docs/log.md shows the table, and a test compares the two. Lines that are no
 * event, such as messages of one store, are notes: a level and a sentence. */
#ifndef SIMBA_RUNTIME_NOTICE_H
#define SIMBA_RUNTIME_NOTICE_H

#include <simba/backend.h>
#include <stdarg.h>

/* key, member of simba__facts that holds it, and whether that is text, a number, or a time that may be unknown */
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

/* name, event, level, sentence (NULL: the caller brings one), fields */
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
    X(SLEPT, "slept", INFO, "this machine slept", SIMBA__HAS(SLEPT_MS))

typedef enum simba__notice {
#define SIMBA__NOTICE_ENUM(name, event, level, sentence, facts) SIMBA__NOTICE_##name,
    SIMBA__NOTICES(SIMBA__NOTICE_ENUM)
#undef SIMBA__NOTICE_ENUM
} simba__notice;

#define SIMBA__SPAN_UNKNOWN INT64_MIN

/* The values of a notice; the notice reads only those that it has. */
typedef struct simba__facts {
    const char *mutex, *id, *owner, *reason, *request, *error, *store, *server; /* NULL: "" */
    uint64_t token;
    int64_t left_ms, session_ms, margin_ms, slept_ms;
} simba__facts;

/* Any thread may call all of these. `to` are the options of the client, which say who hears the notice. */

/* Does anybody hear anything? */
static inline bool simba__has_listener(const simba_client_options *to)
{
    return to->log || to->log_record;
}
/* Does anybody hear messages of this level? */
bool simba__is_heard(const simba_client_options *to, simba_log_level level);
void simba__notice_say(const simba_client_options *to, simba__notice notice, const simba__facts *facts);
/* The same at a given level, and with a sentence that is already escaped; NULL: the table's sentence. */
void simba__notice_say_at(const simba_client_options *to, simba_log_level level, simba__notice notice,
                          const char *sentence, const simba__facts *facts);

/* A line that is no event. */
void simba__log(const simba_client_options *to, simba_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void simba__vlog(const simba_client_options *to, simba_log_level level, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
/* A line of the event log. */
void simba__log_event(const simba_client_options *to, const char *line);

#endif
