/* See listening.h. */
#include "backends/sql/listening.h"

#include <string.h>

#include "util/clock.h"

#define TEST_NS (2000 * SIMBA__NS_PER_MS)
#define FIRST_PAUSE_NS (50 * SIMBA__NS_PER_MS)
#define DEAF_NS (60000 * SIMBA__NS_PER_MS)
enum { DOUBLINGS = 6 };

static void set_hearing(simba__sql_listening *listening, simba__sql_hearing hearing)
{
    listening->hearing = hearing;
    listening->host->timer_clear(listening->host, &listening->timer);
    simba__sql_set_pace(listening->store, hearing == SIMBA__SQL_HEARS ? SIMBA__SQL_RARELY : SIMBA__SQL_OFTEN);
}

static int64_t doubled(int64_t ns, unsigned times)
{
    return ns << (times < DOUBLINGS ? times : DOUBLINGS);
}

static void set_timer(simba__sql_listening *listening, int64_t after_ns)
{
    const simba_local now = listening->host->now(listening->host);
    listening->host->timer_set(listening->host, &listening->timer, (simba_local){now.ns + after_ns});
}

static void become_deaf(simba__sql_listening *listening)
{
    if (listening->deaf_tests == 0)
        listening->host->log(listening->host, SIMBA_LOG_WARN,
                             "%s %s: notifications do not arrive, probably because a pooler in transaction mode is in "
                             "between; waiters poll instead",
                             listening->store->place.store, listening->store->place.where);
    listening->must_enter = true; /* contenders that are refused meanwhile do not enter the queue */
    set_hearing(listening, SIMBA__SQL_DEAF);
    set_timer(listening, doubled(DEAF_NS, listening->deaf_tests));
    listening->deaf_tests++;
    listening->deeds->shut(listening);
}

static void open_anew(simba__sql_listening *listening)
{
    listening->deeds->shut(listening);
    simba__sql_listening_down(listening);
}

/* The connection stands still; or it is time for the next test. */
static void on_timer(simba_timer *timer, simba_local now)
{
    simba__sql_listening *listening = SIMBA__OF_NODE(timer, simba__sql_listening, timer);
    (void)now;
    if (listening->hearing == SIMBA__SQL_DEAF)
        set_hearing(listening, SIMBA__SQL_ASLEEP); /* the next poll opens it */
    else if (listening->was_asked_for)
        become_deaf(listening);
    else
        open_anew(listening);
}

int simba__sql_listening_init(simba__sql_listening *listening, simba__sql_store *store, simba_host *host,
                              const simba__sql_listening_deeds *deeds)
{
    listening->store = store;
    listening->host = host;
    listening->deeds = deeds;
    listening->timer.fire = on_timer;
    return host->timer_add(host, &listening->timer);
}

void simba__sql_listening_close(simba__sql_listening *listening)
{
    listening->is_closing = true;
    listening->host->timer_clear(listening->host, &listening->timer);
}

bool simba__sql_listening_begin(simba__sql_listening *listening)
{
    const bool is_wanted = listening->hearing == SIMBA__SQL_ASLEEP && !listening->is_closing &&
                           listening->store->polling.mutexes.count > 0 &&
                           listening->host->now(listening->host).ns >= listening->not_before.ns;
    if (is_wanted)
        listening->hearing = SIMBA__SQL_OPENING;
    return is_wanted;
}

void simba__sql_listening_up(simba__sql_listening *listening)
{
    listening->has_heard = listening->may_be_elsewhere = listening->is_asked = listening->was_asked_for = false;
    set_hearing(listening, SIMBA__SQL_LISTENS);
}

void simba__sql_listening_lost(simba__sql_listening *listening)
{
    listening->must_enter = true;
}

void simba__sql_listening_doubt(simba__sql_listening *listening)
{
    listening->may_be_elsewhere = true;
    if (listening->hearing == SIMBA__SQL_HEARS)
        set_hearing(listening, SIMBA__SQL_LISTENS);
}

void simba__sql_listening_down(simba__sql_listening *listening)
{
    listening->not_before.ns =
        listening->host->now(listening->host).ns + doubled(FIRST_PAUSE_NS, listening->failures++);
    listening->must_enter = true;
    set_hearing(listening, SIMBA__SQL_ASLEEP);
}

static void ask(simba__sql_listening *listening)
{
    listening->is_asked = true;
    listening->is_asked_before = false;
    listening->deeds->ask(listening);
}

void simba__sql_listening_tested(simba__sql_listening *listening)
{
    if (listening->hearing != SIMBA__SQL_LISTENS)
        return; /* it has come already, or the connection is gone */
    listening->hearing = SIMBA__SQL_TESTS;
    set_timer(listening, TEST_NS);
    listening->is_asked_before = listening->is_asked;
    if (!listening->is_asked && !listening->was_asked_for)
        ask(listening);
}

void simba__sql_listening_answered(simba__sql_listening *listening)
{
    listening->is_asked = false;
    if (listening->hearing != SIMBA__SQL_TESTS)
        return; /* it has come */
    if (listening->was_asked_for)
        set_hearing(listening, SIMBA__SQL_LISTENS);
    else if (listening->is_asked_before)
        ask(listening);
    else if (listening->has_heard || listening->may_be_elsewhere)
        open_anew(listening);
    else
        become_deaf(listening);
}

bool simba__sql_listening_may_wait(const simba__sql_listening *listening)
{
    return listening->deaf_tests == 0;
}

/* From now on the store hardly polls. */
static void pass_test(simba__sql_listening *listening)
{
    listening->failures = listening->deaf_tests = 0;
    listening->has_heard = true;
    listening->was_asked_for = false;
    set_hearing(listening, SIMBA__SQL_HEARS);
    if (listening->must_enter)
        simba__sql_enter_all(listening->store);
    listening->must_enter = false;
}

void simba__sql_listening_heard(simba__sql_listening *listening, const char *payload)
{
    const bool is_test = strcmp(payload, "0") == 0;
    if (is_test && listening->hearing == SIMBA__SQL_TESTS && listening->is_asked && !listening->has_heard) {
        listening->was_asked_for = true; /* a pooler may have brought it with the answer: test again, and ask nothing */
    } else if (is_test && (listening->hearing == SIMBA__SQL_LISTENS || listening->hearing == SIMBA__SQL_TESTS)) {
        pass_test(listening);
    } else if (payload[0] == '1' && payload[1] == ' ') {
        simba__sql_notified(listening->store, payload + 2);
    } else if ((payload[0] == '2' || payload[0] == '3') && payload[1] == ' ') {
        simba__sql_stand_by(listening->store, payload + 2, (unsigned)(payload[0] - '1'));
    } else if (payload[0] == '4' && payload[1] == ' ') {
        simba__sql_noted(listening->store, payload + 2);
    }
}
