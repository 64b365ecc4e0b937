/* See refusal.h. */
#include "refusal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A refusal, and how many of its kind there were. */
typedef struct refusals {
    simba_error latest;
    uint64_t count;
} refusals;

static struct {
    pthread_mutex_t lock; /* guards all members */
    refusals contending, reading;
    uint64_t seen;            /* refusals to contend that were looked at */
    uint64_t answered_before; /* answers when the latest of these was looked at */
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *field(const simba_log_record *record, const char *key)
{
    for (size_t i = 0; i < record->field_count; i++)
        if (strcmp(record->fields[i].key, key) == 0)
            return record->fields[i].value;
    return "";
}

/* simba.h lists them; and a machine without memory or descriptors may have them again. */
static const int passing[] = {0, SIMBA_EUNAVAILABLE, SIMBA_ETIMEDOUT, SIMBA_ENOMEM, SIMBA_ECANCELED, SIMBA_ESYSTEM};
enum { PASSING = sizeof passing / sizeof passing[0] };

bool refusal_may_pass(int code)
{
    for (size_t i = 0; i < PASSING; i++)
        if (passing[i] == code)
            return true;
    return false;
}

void refusal_note(const simba_log_record *record)
{
    const char *request = field(record, "request");
    const char *name = field(record, "error");
    int code = 0; /* of no name that this library knows */
    static const int codes[] = {
#define CODE(name, number, text) SIMBA_##name,
        SIMBA_ERRORS(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(simba_error_name(codes[i]), name) == 0)
            code = codes[i];
    const bool contends = strcmp(request, "acquire") == 0 || strcmp(request, "renew") == 0;
    if (refusal_may_pass(code) || (!contends && strcmp(request, "read") != 0))
        return;
    pthread_mutex_lock(&store.lock);
    refusals *which = contends ? &store.contending : &store.reading;
    which->latest.code = code;
    snprintf(which->latest.text, sizeof which->latest.text, "%s", record->message);
    which->count++;
    pthread_mutex_unlock(&store.lock);
}

static uint64_t count_of(const simba_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++)
        count += histogram->buckets[i];
    return count;
}

static uint64_t answers_to(simba_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    return simba_client_stats(client, &stats) == 0 ? count_of(&stats.acquire) + count_of(&stats.renew) : 0;
}

/* The counters are asked for without the lock: the library may hold locks of its own while it logs. */
static bool look(simba_client *client, simba_error *ret_refusal, uint64_t *ret_answers)
{
    pthread_mutex_lock(&store.lock);
    const refusals now = store.contending;
    pthread_mutex_unlock(&store.lock);
    if (now.count == 0)
        return false;
    *ret_answers = answers_to(client);
    pthread_mutex_lock(&store.lock);
    if (store.seen != now.count)
        store.answered_before = *ret_answers;
    store.seen = now.count;
    const bool answered = *ret_answers != store.answered_before;
    pthread_mutex_unlock(&store.lock);
    if (!answered)
        *ret_refusal = now.latest;
    return !answered;
}

bool refusal_is_there(simba_client *client, simba_error *ret_refusal)
{
    uint64_t answers;
    return look(client, ret_refusal, &answers);
}

bool refusal_is_final(simba_client *client, simba_error *ret_refusal)
{
    uint64_t answers;
    return look(client, ret_refusal, &answers) && answers == 0;
}

bool refusal_of_reading(simba_error *ret_refusal)
{
    pthread_mutex_lock(&store.lock);
    const refusals now = store.reading;
    pthread_mutex_unlock(&store.lock);
    if (now.count > 0)
        *ret_refusal = now.latest;
    return now.count > 0;
}

bool refusal_is_settled(simba_client *client)
{
    simba_stats stats = SIMBA_STATS_INIT;
    if (simba_client_stats(client, &stats) < 0)
        return false;
    uint64_t passed = 0; /* at 0 there are codes that this library does not know */
    for (size_t i = 0; i < PASSING; i++)
        passed += stats.errors_by_code[-passing[i]];
    return passed > 0 || count_of(&stats.acquire) + count_of(&stats.renew) > 0;
}
