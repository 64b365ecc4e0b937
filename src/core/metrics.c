/* Writes simba_stats as OpenMetrics text. A table lists the metrics; the rest writes them. Nothing here uses the
 * locale: a program may have set one whose decimal point is a comma. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/trace.h"
#include "util/assert.h"
#include "util/escape.h"
#include "util/sized.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* --- what there is -------------------------------------------------------------------------------- */

typedef enum kind { COUNTER, GAUGE, GAUGE_NS, BY_REASON, BY_ERROR, HISTOGRAM } kind;

typedef struct metric {
    const char *name; /* counters get "_total" behind it */
    kind kind;
    size_t at, size; /* of the member of simba_stats */
    const char *help;
} metric;

#define OF(member) offsetof(simba_stats, member), sizeof(((simba_stats *)NULL)->member)

/* Durations are in seconds, and their names end so. */
static const metric metrics[] = {
    {"simba_contenders", GAUGE, OF(contenders), "Contenders, lockers and schedulers that exist."},
    {"simba_waiting", GAUGE, OF(waiting), "Contenders, lockers and schedulers that wait for their mutex."},
    {"simba_held", GAUGE, OF(held), "Mutexes held."},
    {"simba_grants", COUNTER, OF(grants), "Leaderships gained."},
    {"simba_losses", BY_REASON, OF(losses), "Leaderships ended, by reason."},
    {"simba_late_wins", COUNTER, OF(late_wins), "Grants that came too late to be used and were given back."},
    {"simba_abandoned_waits", COUNTER, OF(waits_abandoned), "Waits that ended without leadership."},
    {"simba_renewals", COUNTER, OF(renewals), "Renewals that the store granted."},
    {"simba_failed_renewals", COUNTER, OF(renewals_failed), "Renewals that the store refused or did not answer."},
    {"simba_requests", COUNTER, OF(requests), "Requests handed to the store."},
    {"simba_request_batches", COUNTER, OF(batches), "Batches in which the requests were handed over."},
    {"simba_request_errors", BY_ERROR, OF(errors_by_code), "Requests that failed, by kind of error."},
    {"simba_pushes", COUNTER, OF(pushes), "Notices that the store sent by itself."},
    {"simba_callbacks", COUNTER, OF(callbacks), "Callbacks run."},
    {"simba_callback_threads", GAUGE, OF(callback_threads), "Threads that run callbacks."},
    {"simba_suspends", COUNTER, OF(suspends), "Times that the machine slept."},
    {"simba_max_timer_lag_seconds", GAUGE_NS, OF(max_lag_ns), "Longest that a timer was late."},
    {"simba_wait_seconds", HISTOGRAM, OF(wait), "Time from wanting a mutex to holding it."},
    {"simba_hold_seconds", HISTOGRAM, OF(hold), "Time for which a mutex was held."},
    {"simba_acquire_seconds", HISTOGRAM, OF(acquire), "Time that the store took to answer an acquire."},
    {"simba_renew_seconds", HISTOGRAM, OF(renew), "Time that the store took to answer a renewal."},
    {"simba_release_seconds", HISTOGRAM, OF(release), "Time that the store took to answer a release."},
};

/* --- text ----------------------------------------------------------------------------------------- */

typedef struct text {
    char *start;
    size_t size;
    size_t length; /* of the whole text, including what does not fit */
} text;

static void put(text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text *out, const char *format, ...)
{
    const size_t used = out->length < out->size ? out->length : out->size;
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(out->start ? out->start + used : NULL, out->size - used, format, args);
    va_end(args);
    SIMBA__ASSERT(length >= 0);
    out->length += (size_t)length;
}

/* Escape the three characters that OpenMetrics requires, and write \xNN for bytes that are not UTF-8 or cannot be
 * shown. */
static void put_value(text *out, const char *value)
{
    while (*value != '\0') {
        uint32_t code;
        const size_t length = simba__utf8_next(value, &code);
        if (*value == '\n')
            put(out, "\\n");
        else if (length == 0 || !simba__is_printable(code))
            put(out, "\\\\x%02X", (unsigned char)*value);
        else
            put(out, "%s%.*s", *value == '"' || *value == '\\' ? "\\" : "", (int)length, value);
        value += length > 0 && simba__is_printable(code) ? length : 1;
    }
}

typedef struct series {
    const char *name;
    const char *key;   /* "client" or "mutex" */
    const char *owner; /* the value of that label; NULL: no such label */
} series;

/* --- samples -------------------------------------------------------------------------------------- */

static void put_name(text *out, const series *of, const char *suffix, const char *label, const char *value)
{
    put(out, "%s%s", of->name, suffix);
    if (!of->owner && !label)
        return;
    put(out, "{");
    if (of->owner) {
        put(out, "%s=\"", of->key);
        put_value(out, of->owner);
        put(out, label ? "\"," : "\"");
    }
    if (label)
        put(out, "%s=\"%s\"", label, value);
    put(out, "}");
}

static void put_count(text *out, const series *of, const char *suffix, const char *label, const char *value,
                      uint64_t count)
{
    put_name(out, of, suffix, label, value);
    put(out, " %llu\n", (unsigned long long)count);
}

static void put_seconds(text *out, const series *of, const char *suffix, uint64_t ns)
{
    put_name(out, of, suffix, NULL, NULL);
    put(out, " %llu.%09llu\n", (unsigned long long)(ns / 1000000000), (unsigned long long)(ns % 1000000000));
}

/* In the text, each bucket also counts all shorter durations. */
static void put_histogram(text *out, const series *of, const simba_histogram *histogram)
{
    static const char *const bounds[] = {
#define BOUND(ns, seconds) seconds,
        SIMBA__BOUNDS(BOUND)
#undef BOUND
            "+Inf",
    };
    _Static_assert(COUNT_OF(bounds) == SIMBA_HISTOGRAM_BUCKETS, "each bucket has its line");
    uint64_t count = 0;
    for (size_t i = 0; i < COUNT_OF(bounds); i++) {
        count += histogram->buckets[i];
        put_count(out, of, "_bucket", "le", bounds[i], count);
    }
    put_count(out, of, "_count", NULL, NULL, count);
    put_seconds(out, of, "_sum", histogram->sum_ns);
}

static void put_samples(text *out, const metric *shown, const char *key, const char *owner, const void *member)
{
    const series of = {shown->name, key, owner};
    const uint64_t *counts = member;
    switch (shown->kind) {
    case COUNTER:
        put_count(out, &of, "_total", NULL, NULL, counts[0]);
        break;
    case GAUGE:
        put_count(out, &of, "", NULL, NULL, counts[0]);
        break;
    case GAUGE_NS:
        put_seconds(out, &of, "", counts[0]);
        break;
    case BY_REASON:
        /* No leadership ends without a reason. */
#define REASON(name, words)                                                                                            \
    if (SIMBA_REASON_##name != SIMBA_REASON_NONE)                                                                      \
        put_count(out, &of, "_total", "reason", words, counts[SIMBA_REASON_##name]);
        SIMBA_REASONS(REASON)
#undef REASON
        break;
    case BY_ERROR:
        put_count(out, &of, "_total", "error", "unknown", counts[0]);
#define ERROR(name, number, words) put_count(out, &of, "_total", "error", "SIMBA_" #name, counts[-(number)]);
        SIMBA_ERRORS(ERROR)
#undef ERROR
        break;
    case HISTOGRAM:
        put_histogram(out, &of, member);
        break;
    }
}

static void put_header(text *out, const metric *shown)
{
    static const char *const types[] = {
        [COUNTER] = "counter",   [GAUGE] = "gauge",      [GAUGE_NS] = "gauge",
        [BY_REASON] = "counter", [BY_ERROR] = "counter", [HISTOGRAM] = "histogram",
    };
    put(out, "# TYPE %s %s\n", shown->name, types[shown->kind]);
    if (shown->kind == GAUGE_NS || shown->kind == HISTOGRAM)
        put(out, "# UNIT %s seconds\n", shown->name);
    put(out, "# HELP %s %s\n", shown->name, shown->help);
}

/* --- all of it ------------------------------------------------------------------------------------ */

static bool are_valid(const simba_stats *const *stats, const char *const *names, size_t count, unsigned flags)
{
    if (!stats || count == 0 || (flags & ~(SIMBA_STATS_MORE | SIMBA_STATS_MUTEX)) != 0 || (!names && count != 1))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!stats[i] || !simba__sized_possible(stats[i]) || (names && !names[i]))
            return false;
        for (size_t k = 0; names && k < i; k++)
            if (strcmp(names[i], names[k]) == 0)
                return false;
    }
    return true;
}

int simba_stats_write(const simba_stats *const *stats, const char *const *names, size_t count, unsigned flags,
                      char *ret_text, size_t size)
{
    if (!are_valid(stats, names, count, flags) || (!ret_text && size > 0))
        return SIMBA_EINVAL;
    text out = {.size = size};
    out.start = ret_text;
    const char *key = flags & SIMBA_STATS_MUTEX ? "mutex" : "client";
    for (size_t i = 0; i < COUNT_OF(metrics); i++) {
        const metric *shown = &metrics[i];
        put_header(&out, shown);
        for (size_t k = 0; k < count; k++)
            if (shown->at + shown->size <= stats[k]->size) /* programs of an older header have less */
                put_samples(&out, shown, key, names ? names[k] : NULL, (const char *)stats[k] + shown->at);
    }
    if (!(flags & SIMBA_STATS_MORE))
        put(&out, "# EOF\n");
    /* never: two gigabytes of text are not made in a test */
    return out.length <= INT_MAX ? (int)out.length : SIMBA_EINVAL;
}
