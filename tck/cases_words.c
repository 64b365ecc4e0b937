/* The log is the same on every store: the same scenario yields the same events, with the same fields. */
#include <string.h>

#include "kit.h"

enum { HEARD_MAX = 32 };

/* The log of a client about the mutexes, as "EVENT KEY KEY …". */
struct listener {
    pthread_mutex_t lock;
    const char *mutex;
    unsigned count;
    char heard[HEARD_MAX][80];
    char failed[80], reconnected[80]; /* the last of these events, which are not compared */
    char reason[32];                  /* the last reason */
    bool odd;                         /* a value that has to be known is missing */
};

static const char *value_of(const simba_log_record *record, const char *key)
{
    for (size_t i = 0; i < record->field_count; i++)
        if (strcmp(record->fields[i].key, key) == 0)
            return record->fields[i].value;
    return NULL;
}

/* How often requests fail, and so how often the store says that it is back, is up to the store. NULL: another mutex, or
 * no event. */
static char *place_of(struct listener *listener, const simba_log_record *record)
{
    const char *mutex = value_of(record, "mutex");
    if (strcmp(record->event, "store-failed") == 0)
        return listener->failed;
    if (strcmp(record->event, "reconnected") == 0)
        return listener->reconnected;
    if (strcmp(record->event, "note") == 0 || strcmp(record->event, "store-forgets") == 0 ||
        (mutex && strcmp(mutex, listener->mutex) != 0) || listener->count == HEARD_MAX)
        return NULL;
    return listener->heard[listener->count++];
}

static void hear(void *user, const simba_log_record *record)
{
    struct listener *listener = user;
    pthread_mutex_lock(&listener->lock);
    char *line = place_of(listener, record);
    if (line) {
        snprintf(line, sizeof listener->heard[0], "%s", record->event);
        for (size_t i = 0; i < record->field_count; i++) {
            const size_t length = strlen(line);
            snprintf(line + length, sizeof listener->heard[0] - length, " %s", record->fields[i].key);
            /* Nobody knows when a session will end. */
            listener->odd |= !record->fields[i].value[0] && strcmp(record->event, "waits") != 0;
        }
        const char *reason = value_of(record, "reason");
        if (reason)
            snprintf(listener->reason, sizeof listener->reason, "%s", reason);
    }
    pthread_mutex_unlock(&listener->lock);
}

static unsigned heard(struct listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    const unsigned count = listener->count;
    pthread_mutex_unlock(&listener->lock);
    return count;
}

static struct listener *listen_for(tck *t, const char *mutex)
{
    struct listener *listener = tck_alloc(t, sizeof *listener);
    pthread_mutex_init(&listener->lock, NULL); /* for as long as the clients live, which is past the end of the case */
    listener->mutex = mutex;
    return listener;
}

/* Compare the events so far with the expected ones. */
static void require_events(tck *t, struct listener *listener, const char *const *expected)
{
    for (unsigned i = 0; expected[i]; i++) {
        TCK_AWAIT(t, heard(listener) > i);
        if (strcmp(listener->heard[i], expected[i]) != 0) {
            tck_fail(t, __FILE__, __LINE__, "event %u is \"%s\", not \"%s\"", i + 1, listener->heard[i], expected[i]);
            return;
        }
    }
    TCK_REQUIRE(t, !listener->odd);
}

static simba_contender *start(tck *t, tck_client *client, const char *mutex, int64_t ttl_ms)
{
    simba_contender *contender = NULL;
    simba_error err = {0};
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    if (!(t->caps & SIMBA_CAP_SESSION)) {
        options.timing = tck_timing(t);
        options.timing.ttl_ms = ttl_ms;
    }
    if (simba_contender_new(client->handle, mutex, &options, &err, &contender) < 0 ||
        simba_contender_start(contender) < 0)
        tck_give_up(t, "cannot contend: %s", err.text);
    return contender;
}

static void free_contender(void *contender)
{
    simba_contender_free(contender);
}

#define REQUIRE_STORY(t, listener, ...)                                                                                \
    do {                                                                                                               \
        require_events((t), (listener), (const char *const[]){__VA_ARGS__, NULL});                                     \
        if ((t)->failed)                                                                                               \
            return;                                                                                                    \
    } while (0)

#define BEGINS "contends mutex id", "connected store server"
#define ACQUIRED "acquired mutex id token left_ms"
#define WAITS "waits mutex id owner left_ms"
#define CANNOT_RENEW "cannot-renew mutex id token left_ms"
#define RENEWED_LATE "renewed-late mutex id token left_ms"
#define LOST "lost mutex id token reason"
#define RELEASED "released mutex id token reason"

/* One leads and another waits; the store is away for a moment; the mutex is given back, taken away, and given back. */
static void events_and_fields(tck *t)
{
    const char *mutex = tck_mutex(t, NULL);
    struct listener *first = listen_for(t, mutex);
    struct listener *second = listen_for(t, mutex);
    tck_client *one = tck_client_heard(t, hear, first);
    tck_client *two = tck_client_heard(t, hear, second);

    simba_contender *leader = start(t, one, mutex, t->ttl_ms);
    tck_defer(t, NULL, free_contender, leader);
    REQUIRE_STORY(t, first, BEGINS, ACQUIRED);
    /* Its renewals are not to be late on a busy machine, and one has to come while we wait for it. */
    simba_contender *waiter = start(t, two, mutex, t->timeout_ms / 2);
    tck_defer(t, NULL, free_contender, waiter);
    REQUIRE_STORY(t, second, BEGINS, WAITS);

    tck_fault_cut(one->fault, TCK_CUT_REFUSE);
    REQUIRE_STORY(t, first, BEGINS, ACQUIRED, CANNOT_RENEW);
    tck_fault_heal(one->fault);
    REQUIRE_STORY(t, first, BEGINS, ACQUIRED, CANNOT_RENEW, RENEWED_LATE);

    if (!(t->caps & SIMBA_CAP_SESSION)) { /* a store of sessions asks nothing meanwhile, so nothing fails */
        TCK_REQUIRE(t, strcmp(first->failed, "store-failed mutex request error store") == 0);
        TCK_REQUIRE(t, strcmp(first->reconnected, "reconnected store server") == 0);
    }

    TCK_REQUIRE_RC(t, 0, simba_contender_stop(leader));
    REQUIRE_STORY(t, first, BEGINS, ACQUIRED, CANNOT_RENEW, RENEWED_LATE, RELEASED);
    TCK_REQUIRE(t, strcmp(first->reason, simba_reason_name(SIMBA_REASON_STOPPED)) == 0);
    REQUIRE_STORY(t, second, BEGINS, WAITS, ACQUIRED);
    TCK_REQUIRE_RC(t, 0, simba_client_force_release(one->handle, mutex, NULL));
    REQUIRE_STORY(t, second, BEGINS, WAITS, ACQUIRED, LOST);
    TCK_REQUIRE(t, strcmp(second->reason, simba_reason_name(SIMBA_REASON_REVOKED)) == 0);
    REQUIRE_STORY(t, second, BEGINS, WAITS, ACQUIRED, LOST, ACQUIRED);
    TCK_REQUIRE_RC(t, 0, simba_contender_stop(waiter));
    REQUIRE_STORY(t, second, BEGINS, WAITS, ACQUIRED, LOST, ACQUIRED, RELEASED);
    TCK_REQUIRE(t, heard(first) == 6 && heard(second) == 7);
}

const tck_case tck_cases_words[] = {
    {"events-and-fields", SIMBA_CAP_LIST, 0, events_and_fields},
    {NULL, 0, 0, NULL},
};
