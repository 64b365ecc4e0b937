/* Ten thousand days of schedules, in simulated time. Leaders die in the middle of runs, between the record and the
 * run, and before the record; writes of a dead leader arrive after another has taken over; the store is away for
 * hours; civil clocks change twice a year. Time is the store's, so nobody asks the clock of a machine. Afterwards a
 * judge that has seen everything goes through the due times one by one: did each run as its policy says? The leaders
 * are core/schedule.c, the code that the scheduler drives, and the store decides by core/row.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/calendar.h"
#include "core/row.h"
#include "core/schedule.h"
#include "lib/cm.h"
#include "util/zonefile.h"

#define DAYS 10000
#define DAY_MS (SIMBA__DAY_S * 1000)
#define BEGIN_MS INT64_C(1577836800123) /* 2020, and no whole second */
#define END_MS (BEGIN_MS + DAYS * DAY_MS)
#define LIMIT 3

typedef struct run {
    int64_t due_ms, start_ms, end_ms;
    int64_t missed;
    bool cut_short;       /* as it was told */
    bool was_cut, failed; /* as it went */
    bool unnoted;         /* its leader died before its end was noted */
    bool after_lost;      /* another was noted as begun before it, and its leader died before it began */
} run;

/* A time in which somebody led and was not busy: nothing that was due in it may be missed. */
typedef struct watch {
    int64_t from_ms, until_ms;
} watch;

typedef struct world {
    uint64_t seed;
    int64_t now_ms; /* the store's clock */
    simba__policy policy;
    char note[SIMBA__RECORD_MAX + 1]; /* in the store */
    size_t note_size;
    simba__row row;
    uint64_t nonces;
    simba_request late; /* a write that a dead leader has sent, and that has not arrived yet */
    char late_note[SIMBA__RECORD_MAX + 1];
    size_t lates, refused;
    uint64_t token; /* of the latest grant, in the store */
    run *runs;
    size_t run_count;
    watch *watches;
    size_t watch_count;
    size_t lost; /* noted as begun, and the leader died before it began */
    bool just_lost;
    size_t deaths[4];
} world;

static uint64_t draw(world *w, uint64_t below)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->seed >> 33) % below;
}

static bool ask_store(world *w, simba_request *request)
{
    const simba__row_now now = {.ns = w->now_ms * 1000000, .epoch_us = w->now_ms * 1000};
    simba__row_apply(&w->row, now, request);
    return request->reply.outcome == SIMBA_MINE;
}

static bool write_note(world *w, simba_request *request)
{
    const bool written = ask_store(w, request);
    if (written) {
        memcpy(w->note, request->note, request->note_size);
        w->note_size = request->note_size;
    }
    return written;
}

static const simba__record *read_note(const world *w, simba__record *ret_record)
{
    simba_error err;
    const int size = simba__record_read(w->note, w->note_size, &err, ret_record);
    if (size < 0)
        fail_msg("%s", err.text);
    return size > 0 ? ret_record : NULL;
}

static void add_watch(world *w, int64_t from_ms, int64_t until_ms)
{
    if (w->watch_count % 4096 == 0)
        w->watches = realloc(w->watches, (w->watch_count + 4096) * sizeof *w->watches);
    w->watches[w->watch_count++] = (watch){from_ms, until_ms};
}

static run *add_run(world *w, const simba__plan *plan)
{
    if (w->run_count % 4096 == 0)
        w->runs = realloc(w->runs, (w->run_count + 4096) * sizeof *w->runs);
    w->runs[w->run_count] = (run){.due_ms = plan->at_ms,
                                  .start_ms = w->now_ms,
                                  .missed = plan->missed,
                                  .cut_short = plan->cut_short,
                                  .after_lost = w->just_lost};
    w->just_lost = false;
    return &w->runs[w->run_count++];
}

/* Mostly a few minutes, sometimes longer than from one due time to the next. */
static int64_t run_length_ms(world *w)
{
    return (int64_t)(draw(w, 50) == 0 ? draw(w, 3 * DAY_MS) : 1 + draw(w, 600000));
}

/* The leader dies at `death_ms`, wherever it is then: its clock is of no interest to anybody. */
typedef struct leader {
    world *w;
    simba__schedule schedule;
    simba_request write; /* id, nonce and token of its grant */
    char text[SIMBA__RECORD_MAX + 1];
    int64_t death_ms;
} leader;

/* Writes take a moment. Returns false when the leader has died, before or after the store carried it out. */
static bool confirm(leader *l)
{
    world *w = l->w;
    const int64_t sent_ms = w->now_ms;
    if (draw(w, 12) == 0 && l->death_ms > sent_ms + 45)
        l->death_ms = sent_ms + (int64_t)draw(w, 45); /* chance alone would hardly ever find this moment */
    const bool arrives = sent_ms + 1 + (int64_t)draw(w, 20) <= l->death_ms;
    w->now_ms += (int64_t)(2 + draw(w, 40));
    l->write.note = l->text;
    l->write.note_size = simba__record_write(&l->schedule.record, l->text);
    l->write.note_number++;
    if (arrives) {
        assert_true(write_note(w, &l->write));
    } else {
        w->late = l->write;
        w->late.note = memcpy(w->late_note, l->text, sizeof l->text);
    }
    if (w->now_ms <= l->death_ms && arrives)
        return true;
    w->deaths[arrives ? 1 : 0]++;
    if (arrives && l->schedule.phase == SIMBA__SCHEDULE_BEGINNING) {
        w->lost++;
        w->just_lost = true;
    }
    if (!arrives && l->schedule.phase == SIMBA__SCHEDULE_ENDING)
        w->runs[w->run_count - 1].unnoted = true;
    return false;
}

static simba__schedule_act do_run(leader *l)
{
    world *w = l->w;
    run *r = add_run(w, &l->schedule.plan);
    const int64_t end_ms = w->now_ms + run_length_ms(w);
    r->was_cut = end_ms > l->death_ms;
    w->now_ms = r->end_ms = r->was_cut ? l->death_ms : end_ms;
    if (r->was_cut) {
        w->deaths[2]++;
        return SIMBA__ACT_NONE;
    }
    r->failed = draw(w, 10) == 0;
    return simba__schedule_ran(&l->schedule, r->failed ? 1 : 0, w->now_ms);
}

/* A write of a dead leader arrives when another leads, and must do nothing. */
static void deliver_late(world *w)
{
    if (w->late.note_size == 0 || draw(w, 3) == 0)
        return;
    w->lates++;
    w->refused += !write_note(w, &w->late);
    w->late.note_size = 0;
}

static void lead(world *w)
{
    leader l = {.w = w, .schedule = {.policy = &w->policy}};
    simba_request acquire = {
        .op = SIMBA_OP_ACQUIRE, .mutex = "m", .id = "a", .nonce = ++w->nonces, .ttl_ms = SIMBA_LEASE_MAX_MS};
    assert_true(ask_store(w, &acquire));
    l.write = (simba_request){
        .op = SIMBA_OP_WRITE_NOTE, .mutex = "m", .id = "a", .nonce = acquire.nonce, .token = acquire.reply.owner.token};
    simba__record found;
    const int64_t days = draw(w, 20) == 0 ? 30 : 3;
    l.death_ms = w->now_ms + (int64_t)draw(w, (uint64_t)(draw(w, 4) == 0 ? 100 : days * DAY_MS));
    int64_t watch_from_ms = w->now_ms;
    simba__schedule_act act = simba__schedule_lead(&l.schedule, read_note(w, &found), w->now_ms);
    deliver_late(w);
    while (act != SIMBA__ACT_NONE) {
        switch (act) {
        case SIMBA__ACT_WRITE:
            act = confirm(&l) ? simba__schedule_written(&l.schedule, w->now_ms) : SIMBA__ACT_NONE;
            break;
        case SIMBA__ACT_WAIT:
            if (l.schedule.plan.at_ms > l.death_ms) {
                w->now_ms = l.death_ms > w->now_ms ? l.death_ms : w->now_ms;
                add_watch(w, watch_from_ms, w->now_ms);
                w->deaths[3]++;
                act = SIMBA__ACT_NONE;
                break;
            }
            assert_true(l.schedule.plan.at_ms > w->now_ms);
            w->now_ms = l.schedule.plan.at_ms + (int64_t)draw(w, 3);
            act = simba__schedule_look(&l.schedule, w->now_ms);
            break;
        case SIMBA__ACT_RUN:
            add_watch(w, watch_from_ms, w->now_ms);
            act = do_run(&l);
            watch_from_ms = w->now_ms;
            break;
        case SIMBA__ACT_NONE:
            break;
        }
    }
    simba__schedule_leave(&l.schedule);
    w->row.until_ns = w->now_ms * 1000000; /* its lease ends with it: how long others wait is not of interest here */
}

static void live(world *w)
{
    w->now_ms = BEGIN_MS;
    while (w->now_ms < END_MS) {
        lead(w);
        /* Until somebody takes over: as long as a lease; at times the store is away. */
        w->now_ms += (int64_t)(draw(w, 8) == 0 ? draw(w, 5 * DAY_MS) : draw(w, 16000));
    }
}

/* --- the judge ------------------------------------------------------------------------------------ */

static int64_t next_due(const world *w, int64_t after_ms)
{
    return simba__recurrence_next(&w->policy.recurrence, BEGIN_MS, after_ms);
}

/* The same due time as before: it was begun, or noted as begun, and its policy owes it. */
static bool is_repeated(const world *w, size_t i)
{
    return (i > 0 && w->runs[i - 1].due_ms == w->runs[i].due_ms) || (w->policy.at_least_once && w->runs[i].after_lost);
}

/* The promises of every policy. `covered` is the last due time that was run or left out. */
static void judge_runs(const world *w)
{
    int64_t covered_ms = w->policy.recurrence.every_ms > 0 ? BEGIN_MS - 1 : BEGIN_MS;
    const run *last = NULL;
    for (size_t i = 0; i < w->run_count; last = &w->runs[i++]) {
        const run *r = &w->runs[i];
        assert_true(r->start_ms >= r->due_ms); /* not too early */
        if (last)
            assert_true(r->start_ms >= last->end_ms); /* not two at once */
        if (last && r->due_ms == last->due_ms) {
            assert_true(w->policy.at_least_once &&
                        (last->was_cut || last->failed || last->unnoted)); /* again only where it is owed */
            assert_int_equal(r->missed, last->missed);
        } else {
            /* All that was due since is counted, run or missed. What was noted and not run may be among it. */
            int64_t between = 0;
            for (int64_t t = next_due(w, covered_ms); t < r->due_ms; t = next_due(w, t))
                between++;
            assert_true(r->due_ms > covered_ms);
            if (w->lost == 0 || w->policy.at_least_once)
                assert_int_equal(r->missed, between);
            assert_true(r->missed <= between);
        }
        assert_int_equal(r->cut_short, r->after_lost || (last && (last->was_cut || last->unnoted)));
        covered_ms = r->due_ms;
    }
}

/* At least once: a due time is left for the next one only after it has ended well. */
static void judge_at_least_once(const world *w)
{
    for (size_t i = 0; i + 1 < w->run_count; i++) {
        const run *r = &w->runs[i];
        if (r->was_cut || r->failed || r->unnoted)
            assert_int_equal(w->runs[i + 1].due_ms, r->due_ms);
    }
}

/* All of them, in order, but for those beyond the limit: so many were due, and not run, when it came to it. */
static void judge_all(const world *w)
{
    for (size_t i = 0; i < w->run_count; i++) {
        const run *r = &w->runs[i];
        if (r->missed == 0 || is_repeated(w, i))
            continue;
        int64_t due = 0;
        for (int64_t t = r->due_ms; t <= r->start_ms - 50; t = next_due(w, t))
            due++;
        assert_true(due >= LIMIT);
    }
}

/* Once: whatever is run, no later due time had passed when it was begun. The note takes less than 50 ms. */
static void judge_once(const world *w)
{
    for (size_t i = 0; i < w->run_count; i++)
        if (!is_repeated(w, i))
            assert_true(next_due(w, w->runs[i].due_ms) > w->runs[i].start_ms - 50);
}

static const run *find_run(const world *w, int64_t due_ms)
{
    size_t low = 0;
    for (size_t high = w->run_count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (w->runs[middle].due_ms < due_ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->run_count && w->runs[low].due_ms == due_ms ? &w->runs[low] : NULL;
}

/* Skip: nothing is made up for. Runs that were due while nobody watched did not happen at all. */
static void judge_skip(const world *w)
{
    size_t at = 0;
    for (size_t i = 0; i < w->run_count; i++) {
        const run *r = &w->runs[i];
        if (is_repeated(w, i))
            continue;
        while (at < w->watch_count && w->watches[at].until_ms < r->start_ms)
            at++;
        assert_true(at < w->watch_count && w->watches[at].from_ms <= r->due_ms);
    }
}

/* Every policy: runs that were due while somebody watched have happened. */
static void judge_watches(const world *w)
{
    for (size_t i = 0; i < w->watch_count; i++) {
        const watch *v = &w->watches[i];
        for (int64_t t = next_due(w, v->from_ms); t < v->until_ms - 50; t = next_due(w, t))
            if (!find_run(w, t) && w->policy.catch_up != SIMBA_CATCH_UP_ALL)
                fail_msg("what was due at %" PRId64 " was not run", t);
    }
}

/* All, without what a limit leaves out: the number of due times is that of runs, of those lost, and of those told as missed. */
static void judge_sum(const world *w)
{
    int64_t told = 0;
    int64_t due = 0;
    for (size_t i = 0; i < w->run_count; i++)
        if (i == 0 || w->runs[i - 1].due_ms != w->runs[i].due_ms)
            told += 1 + w->runs[i].missed;
    for (int64_t t = next_due(w, w->policy.recurrence.every_ms > 0 ? BEGIN_MS - 1 : BEGIN_MS);
         w->run_count > 0 && t <= w->runs[w->run_count - 1].due_ms; t = next_due(w, t))
        due++;
    assert_true(told <= due);
    /* A run that was noted and never began took what it had missed along. */
    assert_true(due - told == 0 || (!w->policy.at_least_once && w->lost > 0));
}

static void judge(const world *w)
{
    judge_runs(w);
    judge_watches(w);
    judge_sum(w);
    if (w->policy.at_least_once)
        judge_at_least_once(w);
    switch (w->policy.catch_up) {
    case SIMBA_CATCH_UP_SKIP:
        judge_skip(w);
        break;
    case SIMBA_CATCH_UP_ONCE:
        judge_once(w);
        break;
    case SIMBA_CATCH_UP_ALL:
        judge_all(w);
        break;
    }
    /* Everything that can go wrong did. */
    for (size_t i = 0; i < 4; i++)
        assert_true(w->deaths[i] > 10);
    assert_true(w->run_count > 1000);
    assert_true(w->lates > 10);
    assert_int_equal(w->refused, w->lates);
}

/* --- the worlds ----------------------------------------------------------------------------------- */

static void simulate(simba__recurrence recurrence, const char *spec)
{
    for (unsigned i = 0; i < 6; i++) {
        world w = {
            .seed = 15 + i,
            .policy = {.recurrence = recurrence,
                       .spec = spec,
                       .catch_up = (simba_catch_up)(i / 2),
                       .limit = LIMIT,
                       .at_least_once = i % 2},
        };
        live(&w);
        judge(&w);
        free(w.runs);
        free(w.watches);
    }
}

static void simulate_cron(const char *expression, const char *zone)
{
    simba__zonefile file;
    simba_error err;
    simba__recurrence recurrence = {.every_ms = 0};
    char spec[128];
    if (simba__zonefile_load(zone, &err, &file) < 0 || simba__cron_parse(expression, &err, &recurrence.cron) < 0)
        fail_msg("%s", err.text);
    recurrence.zone = &file.zone;
    snprintf(spec, sizeof spec, "cron %s in %s", expression, zone);
    simulate(recurrence, spec);
    simba__zonefile_free(&file);
}

static void in_berlin(void **state)
{
    simulate_cron("30 2 * * *", "Europe/Berlin"); /* left out in March, twice in October */
}

static void in_new_york(void **state)
{
    simulate_cron("*/30 1-2 * * 0,3", "America/New_York");
}

static void on_lord_howe(void **state)
{
    simulate_cron("45 1,2,13 * * *", "Australia/Lord_Howe"); /* by half an hour */
}

static void by_interval(void **state)
{
    simulate((simba__recurrence){.every_ms = 7 * 3600 * 1000 + 1}, "every 25200001");
}

/* A judge of the calendar who knows nothing of cron: work at half past two is due once on every date there is, in every zone, and
 * at 02:30 of its clocks, or else when they go on. */
static void every_date_has_one_due_time(void **state)
{
    static const char *const zones[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"};
    for (size_t i = 0; i < 3; i++) {
        simba__zonefile file;
        simba__cron cron;
        assert_int_equal(simba__zonefile_load(zones[i], NULL, &file), 0);
        assert_int_equal(simba__cron_parse("10 2 * * *", NULL, &cron), 0);
        int64_t at_s = BEGIN_MS / 1000;
        int64_t last_date = 0;
        for (int day = 0; day < DAYS; day++) {
            at_s = simba__cron_next(&cron, &file.zone, at_s);
            const simba__zone_stretch stretch = simba__zone_stretch_at(&file.zone, at_s);
            const int64_t local_s = at_s + stretch.offset_s;
            const int64_t date = simba__floor_div(local_s, SIMBA__DAY_S);
            if (day > 0)
                assert_int_equal(date, last_date + 1);
            if (local_s % SIMBA__DAY_S != 2 * 3600 + 600)
                assert_int_equal(at_s, stretch.begin_s);
            last_date = date;
        }
        simba__zonefile_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_berlin), cmocka_unit_test(in_new_york),
                                       cmocka_unit_test(on_lord_howe), cmocka_unit_test(by_interval),
                                       cmocka_unit_test(every_date_has_one_due_time)};
    return cmocka_run_group_tests_name("schedules", tests, NULL, NULL);
}
