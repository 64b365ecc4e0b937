/* The store that SQL servers share, over an event-driven dialect whose server is a model: steps that are over at once or
 * later, pauses, batches that are called off, and news that the server brings by itself. */
#include <stdlib.h>
#include <string.h>

#include "lib/cm.h"

#include "backends/sql/listening.h"
#include "lib/model_sql.h"
#include "lib/testhost.h"
#include "util/clock.h"

enum { LANES = 2, STEPS_MAX = 100 };

static unsigned lanes; /* how many of them the store has */

typedef struct conn {
    model_sql_conn model; /* first */
    simba__sql_lane *lane;
    simba__sql_step *step; /* under way; NULL: none is */
    simba__sql_table *table;
} conn;

/* What the test sets up before it opens the store. */
static struct {
    bool is_later;      /* steps are over when the test says so, not before `start` returns */
    bool is_cut_later;  /* the same of steps that are interrupted */
    bool is_left_alone; /* `cut` has to wait */
    unsigned interrupts, cuts;
} how;

static model_sql server;
static conn conns[LANES];
static testhost host;

static simba__sql_store *store(void)
{
    return host.store;
}

/* --- the dialect ---------------------------------------------------------------------------------------- */

static void carry_out(conn *self)
{
    simba__sql_failure why;
    simba__sql_step *step = self->step;
    self->step = NULL;
    const int rc = model_sql_carry_out(&self->model, step, self->table, &why);
    simba__sql_carried_out(self->lane, rc, &why);
}

static void start(void *instance, simba__sql_lane *lane, simba__sql_step *step, simba__sql_table *table)
{
    conn *self = instance;
    assert_null(self->step);
    assert_int_not_equal(step->action, SIMBA__SQL_PAUSE);
    self->lane = lane;
    self->step = step;
    self->table = table;
    if (!how.is_later)
        carry_out(self);
}

static void fail_cut(conn *self)
{
    simba__sql_failure why;
    self->step = NULL;
    self->model.is_up = false;
    simba__sql_carried_out(
        self->lane, simba__sql_fail(&why, SIMBA__SQL_RECONNECT, SIMBA_EUNAVAILABLE, "the connection was ended"), &why);
}

static void interrupt(void *instance)
{
    how.interrupts++;
    if (!how.is_cut_later)
        fail_cut(instance);
}

static bool cut(void *instance, simba_local now)
{
    (void)now;
    how.cuts++;
    if (!how.is_left_alone && !how.is_cut_later)
        fail_cut(instance);
    return !how.is_left_alone;
}

static const simba__sql_dialect dialect = {.start = start, .interrupt = interrupt, .cut = cut};

static int init(void *instance, simba_host *to, const simba_url *url, simba_error *err)
{
    void *const places[LANES] = {&conns[0], &conns[1]};
    const simba__sql_place place = {"model", "here", "simba_mutex"};
    (void)url;
    return simba__sql_init(instance, to, &dialect, place, places, lanes, err);
}

static void fini(void *instance)
{
    simba__sql_fini(instance);
}

static const char *const schemes[] = {"model", NULL};

static const simba_backend backend = {
    .size = sizeof(simba_backend),
    .version = SIMBA_BACKEND_VERSION,
    .schemes = schemes,
    .instance_size = sizeof(simba__sql_store),
    .init = init,
    .submit = simba__sql_submit,
    .expire = simba__sql_expire,
    .flush = simba__sql_flush,
    .watch = simba__sql_watch,
    .unwatch = simba__sql_unwatch,
    .woken = simba__sql_flush,
    .close = simba__sql_close,
    .fini = fini,
};

/* --- the test ------------------------------------------------------------------------------------------- */

static int setup_lanes(unsigned count)
{
    simba_error err;
    lanes = count;
    memset(&how, 0, sizeof how);
    memset(conns, 0, sizeof conns);
    model_sql_init(&server);
    for (unsigned i = 0; i < LANES; i++)
        conns[i].model.server = &server;
    const int rc = testhost_open(&host, &backend, "mysql://here/db", &err);
    host.still_at = simba__clock_boot(); /* pauses are over when the test says so, however busy the machine is */
    return rc;
}

static int setup(void **state)
{
    (void)state;
    return setup_lanes(LANES);
}

static int setup_one_lane(void **state)
{
    (void)state;
    return setup_lanes(1);
}

static int teardown(void **state)
{
    (void)state;
    if (!host.closed)
        testhost_close(&host);
    assert_int_equal(host.jobs_run, 0); /* nothing was left to a thread */
    return 0;
}

static testhost_request request(simba_op op, const char *mutex, uint64_t token)
{
    return testhost_request_of(&host, op, mutex, "me", 77, token);
}

static void begin(testhost_request *r)
{
    testhost_submit(&host, r);
    testhost_flush(&host);
}

/* Carry out the steps of a lane until its batch is over. */
static void finish(unsigned lane)
{
    for (unsigned i = 0; conns[lane].step && i < STEPS_MAX; i++)
        carry_out(&conns[lane]);
    assert_null(conns[lane].step);
    testhost_end_turn(&host);
}

/* --- steps ------------------------------------------------------------------------------------------------ */

/* A dialect may be done with a step before `start` returns, and with the whole batch before `flush` does. */
static void steps_that_are_over_at_once(void **state)
{
    (void)state;
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0);
    begin(&acquire);
    assert_true(acquire.done);
    assert_int_equal(acquire.request.reply.outcome, SIMBA_MINE);
    assert_string_equal(conns[0].model.log, " ready acquire:1 begin lock:1 rollback make:1 begin lock:1 put:1 commit");
    testhost_request release = request(SIMBA_OP_RELEASE, "m", acquire.request.reply.owner.token);
    begin(&release);
    assert_int_equal(release.request.reply.outcome, SIMBA_MINE);
}

/* The same when every answer comes later: one step at a time, and the lane is busy until the last one. */
static void steps_that_are_over_later(void **state)
{
    (void)state;
    how.is_later = true;
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0);
    begin(&acquire);
    assert_int_equal(conns[0].step->action, SIMBA__SQL_READY);
    carry_out(&conns[0]);
    assert_int_equal(conns[0].step->action, SIMBA__SQL_ACQUIRE);
    assert_false(acquire.done);
    finish(0);
    assert_int_equal(acquire.request.reply.outcome, SIMBA_MINE);
    assert_true(simba__sql_lane_is_idle(&store()->lanes[0]));
}

/* What comes meanwhile is for another lane, except for the same mutex: that waits, and is begun when the first is over. */
static void two_lanes(void **state)
{
    (void)state;
    how.is_later = true;
    testhost_request first = request(SIMBA_OP_ACQUIRE, "m", 0), other = request(SIMBA_OP_ACQUIRE, "other", 0);
    testhost_request second = testhost_request_of(&host, SIMBA_OP_ACQUIRE, "m", "you", 78, 0);
    begin(&first);
    begin(&second);
    assert_null(conns[1].step);
    begin(&other);
    finish(1);
    assert_true(other.done && !first.done && !second.done);
    finish(0);
    assert_true(first.done && !second.done);
    finish(0);
    finish(1);
    assert_true(second.done);
    assert_int_equal(second.request.reply.outcome, SIMBA_NOT_MINE);
}

/* Where a row was found locked, whatever else there is comes first, and the row is waited for by itself: nobody shares a
 * statement with it. */
static void locked_row_is_waited_for_alone(void **state)
{
    (void)state;
    how.is_later = true;
    model_sql_row_of(&server, "other");
    model_sql_row_of(&server, "m")->locked_by = &server;
    testhost_request locked = request(SIMBA_OP_ACQUIRE, "m", 0), other = request(SIMBA_OP_ACQUIRE, "other", 0);
    testhost_request late = testhost_request_of(&host, SIMBA_OP_ACQUIRE, "m", "you", 78, 0);
    begin(&locked);
    begin(&other);
    begin(&late);
    for (unsigned i = 0; i < STEPS_MAX && !other.done; i++) {
        carry_out(&conns[0]);
        testhost_end_turn(&host);
    }
    assert_string_equal(conns[0].model.log, " ready acquire:1 ready acquire:1");
    model_sql_row_of(&server, "m")->locked_by = NULL;
    finish(0);
    assert_true(locked.done && late.done);
    assert_string_equal(strstr(conns[0].model.log, "begin"), "begin lock:1 put:1 commit");
    testhost_request both[] = {request(SIMBA_OP_RELEASE, "m", 1), request(SIMBA_OP_RELEASE, "other", 1)};
    testhost_submit(&host, &both[0]);
    testhost_submit(&host, &both[1]); /* it is not locked any more: one transaction for both */
    testhost_flush(&host);
    finish(0);
    assert_non_null(strstr(conns[0].model.log, "lock:2"));
}

static testhost_request note_of(const char *mutex)
{
    testhost_request r = request(SIMBA_OP_WRITE_NOTE, mutex, 1);
    r.request.note = "page 1";
    r.request.note_size = 6;
    r.request.note_number = 1;
    return r;
}

/* The rows of notes likewise: once the server has waited for one in vain, nobody's note shares a statement with it, nor does a
 * renewal, and whatever else there is comes first. */
static void locked_row_of_a_note_is_waited_for_alone(void **state)
{
    (void)state;
    server.waits_to_decide = true;
    testhost_request mine[] = {request(SIMBA_OP_ACQUIRE, "m", 0), request(SIMBA_OP_ACQUIRE, "other", 0)};
    begin(&mine[0]);
    begin(&mine[1]);
    testhost_request notes[] = {note_of("m"), note_of("other")};
    model_sql_row_of(&server, "m")->locked_by = &server;
    conns[0].model.log[0] = '\0';
    testhost_submit(&host, &notes[0]);
    begin(&notes[1]);
    assert_string_equal(conns[0].model.log, " ready decide:2 decide:1 decide:1");
    assert_true(notes[1].done && !notes[0].done);
    testhost_request later[] = {note_of("other"), request(SIMBA_OP_RENEW, "m", 1), request(SIMBA_OP_RENEW, "other", 1)};
    later[0].request.note_number = 2;
    conns[0].model.log[0] = '\0';
    how.is_later = true;
    testhost_submit(&host, &later[0]);
    testhost_submit(&host, &later[1]);
    testhost_submit(&host, &later[2]);
    testhost_advance(&host, 2); /* by now the first note is taken up again */
    for (unsigned i = 0; i < STEPS_MAX && !(later[0].done && later[2].done); i++) {
        carry_out(&conns[0]);
        testhost_end_turn(&host);
    }
    assert_null(strstr(conns[0].model.log, ":2"));
    model_sql_row_of(&server, "m")->locked_by = NULL;
    how.is_later = false;
    finish(0);
    testhost_advance(&host, 200);
    assert_true(notes[0].done && later[1].done);
    assert_int_equal(notes[0].request.reply.outcome, SIMBA_MINE);
    assert_int_equal(later[1].request.reply.outcome, SIMBA_MINE);
}

/* After a deadlock the lane pauses, without anybody who blocks, and tries again. */
static void pause_is_a_timer(void **state)
{
    (void)state;
    model_sql_row_of(&server, "m");
    conns[0].model.fault = (model_sql_fault){SIMBA__SQL_ACQUIRE, 1, SIMBA__SQL_RETRY, false};
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0);
    begin(&acquire);
    assert_false(acquire.done);
    assert_int_equal(store()->lanes[0].stage, SIMBA__SQL_LANE_PAUSES);
    testhost_advance(&host, 10);
    assert_int_equal(acquire.request.reply.outcome, SIMBA_MINE);
}

/* A connection that had been idle for too long: the request is put off, and its next batch connects. */
static void put_off(void **state)
{
    (void)state;
    testhost_request first = request(SIMBA_OP_ACQUIRE, "m", 0);
    begin(&first);
    conns[0].model.fault = (model_sql_fault){SIMBA__SQL_RENEW, 1, SIMBA__SQL_LOST, false};
    testhost_request renew = request(SIMBA_OP_RENEW, "m", first.request.reply.owner.token);
    begin(&renew);
    assert_true(renew.done);
    assert_int_equal(renew.request.reply.outcome, SIMBA_MINE);
}

/* --- called off ------------------------------------------------------------------------------------------- */

/* Begin an acquire, carry out its steps up to this one, and let its time pass. */
static void outlive(testhost_request *r, simba__sql_action until)
{
    how.is_later = true;
    begin(r);
    while (conns[0].step->action != until)
        carry_out(&conns[0]);
    testhost_advance(&host, 4001);
    assert_int_equal(r->request.reply.status, SIMBA_ETIMEDOUT);
    assert_int_equal(how.cuts, 0);
}

static bool is_idle(unsigned lane)
{
    return simba__sql_lane_is_idle(&store()->lanes[lane]);
}

/* Nobody waits for a batch any more: its connection is cut after a while, since it may be about to answer. One that is
 * being opened is left alone, and looked at again. */
static void about_cut(void **state)
{
    (void)state;
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0);
    outlive(&acquire, SIMBA__SQL_READY);
    how.is_left_alone = true;
    testhost_advance(&host, 251);
    assert_int_equal(how.cuts, 1);
    assert_false(is_idle(0));
    how.is_left_alone = false;
    testhost_advance(&host, 251);
    assert_int_equal(how.cuts, 2);
    assert_true(is_idle(0));
}

/* A connection that had been idle for too long, and nobody waits for the request any more: no other batch carries it out. */
static void expired_is_not_put_off(void **state)
{
    (void)state;
    testhost_request first = request(SIMBA_OP_ACQUIRE, "m", 0);
    begin(&first);
    conns[0].model.fault = (model_sql_fault){SIMBA__SQL_ACQUIRE, 1, SIMBA__SQL_LOST, false};
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "n", 0);
    outlive(&acquire, SIMBA__SQL_ACQUIRE);
    finish(0);
    assert_true(is_idle(0));
    assert_int_equal(model_sql_row_of(&server, "n")->owner_id[0], '\0');
}

/* Also when another request's time is over meanwhile. */
static void not_cut_too_early(void **state)
{
    (void)state;
    testhost_request first = request(SIMBA_OP_ACQUIRE, "m", 0), second = request(SIMBA_OP_ACQUIRE, "other", 0);
    second.request.deadline.ns += 100 * SIMBA__NS_PER_MS;
    how.is_later = true;
    begin(&second);
    testhost_submit(&host, &first);
    testhost_flush(&host);
    testhost_advance(&host, 4001);
    assert_true(first.done && !second.done);
    testhost_advance(&host, 100);
    assert_true(second.done);
    assert_int_equal(how.cuts, 0);
    testhost_advance(&host, 150);
    assert_int_equal(how.cuts, 1);
}

static void cut_that_takes_effect_later(void **state)
{
    (void)state;
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0);
    outlive(&acquire, SIMBA__SQL_READY);
    how.is_cut_later = true;
    testhost_advance(&host, 251);
    testhost_advance(&host, 1000);
    assert_int_equal(how.cuts, 1);
    assert_false(is_idle(0));
    fail_cut(&conns[0]);
    assert_true(is_idle(0));
}

/* A step that was cut and yet succeeded: nothing is begun after it, and the connection is closed. */
static void nothing_after_cut(void **state)
{
    (void)state;
    model_sql_row_of(&server, "m");
    testhost_request force = request(SIMBA_OP_FORCE_RELEASE, "m", 0);
    strcpy(model_sql_row_of(&server, "m")->owner_id, "you");
    model_sql_row_of(&server, "m")->transition_at = INT64_MAX / 4;
    outlive(&force, SIMBA__SQL_LOCK);
    how.is_cut_later = true;
    testhost_advance(&host, 251);
    finish(0);
    assert_true(is_idle(0));
    assert_string_equal(conns[0].model.log, " ready begin lock:1 close");
    assert_string_equal(model_sql_row_of(&server, "m")->owner_id, "you");
}

/* Hold "m", and let this request and a poll take the only lane, which has gone silent. A renewal waits for the lane in vain. */
static void renew_behind(testhost_request *r, simba_topic *topic)
{
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0), renew = request(SIMBA_OP_RENEW, "m", 1);
    begin(&acquire);
    assert_int_equal(acquire.request.reply.outcome, SIMBA_MINE);
    how.is_later = true;
    testhost_submit(&host, r);
    assert_int_equal(testhost_watch(&host, topic), 0);
    testhost_flush(&host);
    assert_int_equal(store()->lanes[0].batch.count, 2);
    renew.request.deadline.ns -= 2500 * SIMBA__NS_PER_MS;
    begin(&renew);
    testhost_advance(&host, 1501);
    assert_int_equal(renew.request.reply.status, SIMBA_ETIMEDOUT);
    assert_int_equal(how.cuts, 0);
}

/* L3: the next try finds a fresh connection, long before what was read by the silent one has run out of time. That is read once
 * more, after the renewal. */
static void renewal_does_not_wait_for_reads(void **state)
{
    (void)state;
    simba_topic topic = {.mutex = "m"};
    testhost_request note = request(SIMBA_OP_READ_NOTE, "m", 0), renew = request(SIMBA_OP_RENEW, "m", 1);
    renew_behind(&note, &topic);
    begin(&renew);
    conns[0].model.log[0] = '\0';
    testhost_advance(&host, 251);
    assert_int_equal(how.cuts, 1);
    finish(0);
    assert_true(renew.done && !note.done);
    finish(0);
    assert_int_equal(renew.request.reply.outcome, SIMBA_MINE);
    assert_int_equal(note.request.reply.status, 0);
    assert_string_equal(conns[0].model.log, " ready renew:1 bare ready get:1 ready note");
    testhost_unwatch(&host, &topic);
}

/* Hold "m", and let this write of its note take the first lane, which goes silent. A renewal waits for the note in vain. */
static void renew_behind_note(testhost_request *note)
{
    testhost_request renew = request(SIMBA_OP_RENEW, "m", 1);
    how.is_later = true;
    begin(note);
    renew.request.deadline.ns -= 2500 * SIMBA__NS_PER_MS;
    begin(&renew);
    assert_null(conns[1].step);
    testhost_advance(&host, 1501);
    assert_int_equal(renew.request.reply.status, SIMBA_ETIMEDOUT);
}

/* L3: a renewal waits once for a lane that works on its mutex, because the two would wait for each other's row locks. The next try
 * takes another lane. Nobody but a renewal does so. */
static void renewal_overtakes_a_silent_lane(void **state)
{
    (void)state;
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0), note = request(SIMBA_OP_WRITE_NOTE, "m", 1);
    testhost_request other = testhost_request_of(&host, SIMBA_OP_ACQUIRE, "m", "other", 78, 0);
    testhost_request renew = request(SIMBA_OP_RENEW, "m", 1), release = request(SIMBA_OP_RELEASE, "m", 1);
    begin(&acquire);
    renew_behind_note(&note);
    begin(&other);
    assert_null(conns[1].step);
    begin(&renew);
    finish(1);
    assert_int_equal(renew.request.reply.outcome, SIMBA_MINE);
    assert_true(!note.done && !other.done);
    finish(0);
    finish(0);
    assert_true(note.done);
    assert_int_equal(other.request.reply.outcome, SIMBA_NOT_MINE);
    begin(&release); /* nothing is left that would keep a lane from this mutex */
    finish(0);
    assert_int_equal(release.request.reply.outcome, SIMBA_MINE);
}

/* If somebody else keeps the row locked, another lane would have to wait as well. */
static void renewal_does_not_overtake_at_a_locked_row(void **state)
{
    (void)state;
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0), note = request(SIMBA_OP_WRITE_NOTE, "m", 1);
    testhost_request renew = request(SIMBA_OP_RENEW, "m", 1);
    begin(&acquire);
    simba__sql_recall_found_locked(&store()->recall, "m", true);
    renew_behind_note(&note);
    begin(&renew);
    assert_null(conns[1].step);
    finish(0);
    finish(0);
    assert_int_equal(renew.request.reply.outcome, SIMBA_MINE);
}

/* L3: nor does it wait for what has stood in line for longer. */
static void renewal_goes_before_reads(void **state)
{
    (void)state;
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0), other = request(SIMBA_OP_ACQUIRE, "n", 0);
    testhost_request note = request(SIMBA_OP_READ_NOTE, "m", 0), renew = request(SIMBA_OP_RENEW, "m", 1);
    begin(&acquire);
    how.is_later = true;
    begin(&other);
    begin(&note);
    begin(&renew);
    finish(0);
    assert_true(other.done && !renew.done && !note.done);
    finish(0);
    assert_true(renew.done && !note.done);
    assert_int_equal(renew.request.reply.outcome, SIMBA_MINE);
    finish(0);
    assert_true(note.done);
}

/* What may take long by itself is left alone until its own time is over. */
static void renewal_waits_for_a_list(void **state)
{
    (void)state;
    simba_topic topic = {.mutex = "m"};
    testhost_request list = request(SIMBA_OP_LIST, "*", 0);
    renew_behind(&list, &topic);
    testhost_advance(&host, 1000);
    assert_int_equal(how.cuts, 0);
    finish(0);
    assert_true(list.done);
    assert_int_equal(list.request.reply.status, 0);
    finish(0);
    testhost_unwatch(&host, &topic);
}

/* A batch that pauses is called off at once. */
static void cut_in_pause(void **state)
{
    (void)state;
    model_sql_row_of(&server, "m");
    conns[0].model.fault = (model_sql_fault){SIMBA__SQL_ACQUIRE, 1, SIMBA__SQL_RETRY, false};
    testhost_request acquire = request(SIMBA_OP_ACQUIRE, "m", 0);
    begin(&acquire);
    testhost_close(&host);
    assert_true(acquire.done);
    assert_int_equal(how.interrupts, 0);
}

static void begin_both(testhost_request *first, testhost_request *second)
{
    how.is_later = true;
    begin(first);
    begin(second);
    assert_true(conns[0].step && conns[1].step);
}

/* A client that closes ends its lanes in the same turn, and says so once. */
static void about_close(void **state)
{
    (void)state;
    testhost_request first = request(SIMBA_OP_ACQUIRE, "m", 0), second = request(SIMBA_OP_ACQUIRE, "other", 0);
    begin_both(&first, &second);
    testhost_close(&host);
    assert_int_equal(how.interrupts, 2);
    assert_true(first.done && second.done);
}

/* Or later, where the dialect takes its time. */
static void close_that_takes_effect_later(void **state)
{
    (void)state;
    testhost_request first = request(SIMBA_OP_ACQUIRE, "m", 0), second = request(SIMBA_OP_ACQUIRE, "other", 0);
    begin_both(&first, &second);
    how.is_cut_later = true;
    host.backend->close(host.store);
    assert_false(host.closed);
    fail_cut(&conns[1]);
    assert_true(second.done && !host.closed);
    fail_cut(&conns[0]);
    assert_true(first.done && host.closed);
    fini(host.store);
    free(host.store);
    simba__reactor_fini(&host.reactor);
}

/* --- news ------------------------------------------------------------------------------------------------- */

static unsigned polls(const char *word)
{
    unsigned n = 0;
    for (const char *at = conns[LANES - 1].model.log; (at = strstr(at, word)); at++)
        n++;
    return n;
}

/* A notification is pushed to those who wait for that mutex here, and for no other. */
static void about_notified(void **state)
{
    (void)state;
    simba_topic topic = {.mutex = "m"};
    assert_int_equal(testhost_watch(&host, &topic), 0);
    host.push_count = 0;
    simba__sql_notified(store(), "other");
    assert_int_equal(host.push_count, 0);
    simba__sql_notified(store(), "m");
    assert_int_equal(host.push_count, 1);
    assert_ptr_equal(host.pushes[0].topic, &topic);
    assert_int_equal(host.pushes[0].push.kind, SIMBA_PUSH_RELEASED);
    testhost_unwatch(&host, &topic);
    simba__sql_notified(store(), "m");
    assert_int_equal(host.push_count, 1);
}

/* While the server tells of releases, rows are read once and then rarely; when it does not any more, at once and often. */
static void about_pace(void **state)
{
    (void)state;
    simba_topic topic = {.mutex = "m"};
    assert_int_equal(testhost_watch(&host, &topic), 0);
    assert_int_equal(polls("get"), 1);
    simba__sql_set_pace(store(), SIMBA__SQL_RARELY);
    testhost_end_turn(&host);
    assert_int_equal(polls("get"), 2);
    for (int i = 0; i < 20; i++)
        testhost_advance(&host, 1000);
    assert_int_equal(polls("get"), 2);
    testhost_advance(&host, 300000);
    assert_int_equal(polls("get"), 3);
    simba__sql_set_pace(store(), SIMBA__SQL_OFTEN);
    testhost_end_turn(&host);
    assert_int_equal(polls("get"), 4);
    testhost_advance(&host, 50);
    assert_int_equal(polls("get"), 5);
    testhost_unwatch(&host, &topic);
}

/* A poll that finds its connection closed, since that was idle, is made again at once. */
static void poll_is_put_off(void **state)
{
    (void)state;
    simba_topic topic = {.mutex = "m"};
    assert_int_equal(testhost_watch(&host, &topic), 0);
    for (int i = 0; i < 40; i++)
        testhost_advance(&host, 1000); /* it looks every 900 ms by now */
    for (unsigned i = 0; i < LANES; i++) {
        conns[i].model.log[0] = '\0';
        conns[i].model.fault = (model_sql_fault){SIMBA__SQL_GET, 1, SIMBA__SQL_LOST, false};
    }
    testhost_advance(&host, 1000);
    testhost_advance(&host, 10);
    assert_int_equal(polls("get"), 2);
    testhost_unwatch(&host, &topic);
}

/* Whoever writes a note goes on holding its mutex: if the server forgets the grant, no other contender of this client is granted
 * it before the lease of the first has ended. */
static void note_ends_no_lease(void **state)
{
    (void)state;
    testhost_request mine = testhost_request_of(&host, SIMBA_OP_ACQUIRE, "m", "me", 77, 0);
    testhost_ask(&host, &mine);
    assert_int_equal(mine.request.reply.outcome, SIMBA_MINE);
    testhost_request note =
        testhost_request_of(&host, SIMBA_OP_WRITE_NOTE, "m", "me", 77, mine.request.reply.owner.token);
    note.request.note = "page 1";
    note.request.note_size = 6;
    note.request.note_number = 1;
    testhost_ask(&host, &note);
    assert_int_equal(note.request.reply.outcome, SIMBA_MINE);
    assert_memory_equal(model_sql_row_of(&server, "m")->note, "page 1", 6);
    model_sql_row_of(&server, "m")->owner_id[0] = '\0'; /* a fail-over */
    testhost_request other = testhost_request_of(&host, SIMBA_OP_ACQUIRE, "m", "you", 78, 0);
    testhost_ask(&host, &other);
    assert_int_equal(other.request.reply.outcome, SIMBA_NOT_MINE);
}

static unsigned asked, shut; /* how often the connection that listens was */

static void on_ask(simba__sql_listening *listening)
{
    (void)listening;
    asked++;
}

static void on_shut(simba__sql_listening *listening)
{
    (void)listening;
    shut++;
}

/* Its timer is looked at until the store is closed. */
static simba__sql_listening listening;
static simba_topic listened = {.mutex = "m"};

static void begin_listening(void)
{
    static const simba__sql_listening_deeds deeds = {on_ask, on_shut};
    listening = (simba__sql_listening){0};
    asked = shut = 0;
    assert_int_equal(simba__sql_listening_init(&listening, store(), &host.host, &deeds), 0);
    assert_int_equal(testhost_watch(&host, &listened), 0);
}

static void end_listening(void)
{
    simba__sql_listening_close(&listening);
    testhost_unwatch(&host, &listened);
}

/* The connection listens, and a lane has sent the test. */
static void begin_test(void)
{
    assert_true(simba__sql_listening_begin(&listening));
    simba__sql_listening_up(&listening);
    simba__sql_listening_tested(&listening);
    assert_int_equal(listening.hearing, SIMBA__SQL_TESTS);
}

/* A test that does not come is made again after a minute, then after two, and it is said once. When one comes at last, everybody
 * who waits enters the line, since they were kept out of it. */
static void deaf_for_a_while(void **state)
{
    (void)state;
    begin_listening();
    for (unsigned minutes = 1; minutes <= 2; minutes++) {
        begin_test();
        assert_int_equal(asked, minutes);
        simba__sql_listening_answered(&listening);
        assert_int_equal(listening.hearing, SIMBA__SQL_DEAF);
        assert_false(simba__sql_listening_may_wait(&listening));
        testhost_advance(&host, minutes * 60000 - 2000);
        assert_false(simba__sql_listening_begin(&listening));
        testhost_advance(&host, 2001);
    }
    assert_int_equal(shut, 2);
    assert_int_equal(host.warnings, 1);
    assert_true(simba__sql_listening_begin(&listening));
    simba__sql_listening_up(&listening);
    assert_false(simba__sql_listening_may_wait(&listening));
    host.push_count = 0;
    simba__sql_listening_heard(&listening, "0");
    assert_int_equal(listening.hearing, SIMBA__SQL_HEARS);
    assert_true(simba__sql_listening_may_wait(&listening));
    assert_int_equal(host.push_count, 1);
    assert_int_equal(host.pushes[0].push.kind, SIMBA_PUSH_SESSION_BACK);
    simba__sql_listening_tested(&listening);
    assert_int_equal(listening.hearing, SIMBA__SQL_HEARS);
    end_listening();
}

/* A lane has connected, and the connection that listens has passed the test. How many pushes came of it? */
static size_t connect_and_pass(void)
{
    host.push_count = 0;
    simba__sql_listening_doubt(&listening);
    simba__sql_listening_heard(&listening, "0");
    assert_int_equal(listening.hearing, SIMBA__SQL_HEARS);
    return host.push_count;
}

/* L2: whenever a connection was lost, the server may have forgotten who waits: once its notifications arrive, everybody who waits
 * asks. A lane that connects for the first time makes nobody ask. */
static void queue_may_be_lost(void **state)
{
    (void)state;
    begin_listening();
    assert_true(simba__sql_listening_begin(&listening));
    simba__sql_listening_up(&listening);
    assert_int_equal(connect_and_pass(), 0);
    assert_int_equal(connect_and_pass(), 0);
    simba__sql_listening_lost(&listening);
    assert_int_equal(connect_and_pass(), 1);
    assert_int_equal(host.pushes[0].push.kind, SIMBA_PUSH_SESSION_BACK);
    assert_null(host.pushes[0].topic);
    assert_int_equal(connect_and_pass(), 0);
    simba__sql_listening_down(&listening);
    testhost_advance(&host, 51);
    assert_true(simba__sql_listening_begin(&listening));
    simba__sql_listening_up(&listening);
    assert_int_equal(connect_and_pass(), 1);
    assert_int_equal(host.pushes[0].push.kind, SIMBA_PUSH_SESSION_BACK);
    end_listening();
}

/* A pooler may bring the test together with an answer. That proves nothing: the next test has to come by itself. */
static void test_that_comes_with_the_answer(void **state)
{
    (void)state;
    begin_listening();
    for (int comes = 1; comes >= 0; comes--) {
        begin_test();
        simba__sql_listening_heard(&listening, "0");
        assert_int_equal(listening.hearing, SIMBA__SQL_TESTS);
        simba__sql_listening_answered(&listening);
        assert_int_equal(listening.hearing, SIMBA__SQL_LISTENS);
        asked = 0;
        simba__sql_listening_tested(&listening);
        assert_int_equal(asked, 0);
        if (comes) {
            simba__sql_listening_heard(&listening, "0");
            assert_int_equal(listening.hearing, SIMBA__SQL_HEARS);
            simba__sql_listening_down(&listening);
            testhost_advance(&host, 51);
        }
    }
    testhost_advance(&host, 2001);
    assert_int_equal(listening.hearing, SIMBA__SQL_DEAF);
    assert_int_equal(host.warnings, 1);
    end_listening();
}

/* An outage that swallows the test and the answer is no pooler. */
static void a_listener_that_stands_still_is_opened_anew(void **state)
{
    (void)state;
    begin_listening();
    begin_test();
    testhost_advance(&host, 2001);
    assert_int_equal(shut, 1);
    assert_int_equal(listening.hearing, SIMBA__SQL_ASLEEP);
    assert_true(simba__sql_listening_may_wait(&listening));
    assert_int_equal(host.warnings, 0);
    testhost_advance(&host, 51);
    begin_test();
    end_listening();
}

/* A lane that has connected since may be at another server, whose notifications go elsewhere. */
static void a_listener_at_another_server_is_opened_anew(void **state)
{
    (void)state;
    begin_listening();
    assert_true(simba__sql_listening_begin(&listening));
    simba__sql_listening_up(&listening);
    simba__sql_listening_doubt(&listening);
    simba__sql_listening_tested(&listening);
    simba__sql_listening_answered(&listening);
    assert_int_equal(shut, 1);
    assert_int_equal(listening.hearing, SIMBA__SQL_ASLEEP);
    assert_int_equal(host.warnings, 0);
    end_listening();
}

/* What was asked before the latest test may be answered before that test comes. */
static void an_answer_that_is_older_than_the_test(void **state)
{
    (void)state;
    begin_listening();
    assert_true(simba__sql_listening_begin(&listening));
    simba__sql_listening_up(&listening);
    simba__sql_listening_heard(&listening, "0");
    simba__sql_listening_doubt(&listening);
    simba__sql_listening_tested(&listening);
    simba__sql_listening_heard(&listening, "0");
    simba__sql_listening_doubt(&listening);
    simba__sql_listening_tested(&listening);
    assert_int_equal(asked, 1);
    simba__sql_listening_answered(&listening);
    assert_int_equal(asked, 2);
    assert_int_equal(listening.hearing, SIMBA__SQL_TESTS);
    simba__sql_listening_heard(&listening, "0");
    assert_int_equal(listening.hearing, SIMBA__SQL_HEARS);
    end_listening();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_that_are_over_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_that_are_over_later, setup, teardown),
        cmocka_unit_test_setup_teardown(two_lanes, setup, teardown),
        cmocka_unit_test_setup_teardown(locked_row_is_waited_for_alone, setup_one_lane, teardown),
        cmocka_unit_test_setup_teardown(locked_row_of_a_note_is_waited_for_alone, setup_one_lane, teardown),
        cmocka_unit_test_setup_teardown(pause_is_a_timer, setup, teardown),
        cmocka_unit_test_setup_teardown(put_off, setup, teardown),
        cmocka_unit_test_setup_teardown(about_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(expired_is_not_put_off, setup, teardown),
        cmocka_unit_test_setup_teardown(not_cut_too_early, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_that_takes_effect_later, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_after_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(renewal_does_not_wait_for_reads, setup_one_lane, teardown),
        cmocka_unit_test_setup_teardown(renewal_overtakes_a_silent_lane, setup, teardown),
        cmocka_unit_test_setup_teardown(renewal_does_not_overtake_at_a_locked_row, setup, teardown),
        cmocka_unit_test_setup_teardown(renewal_goes_before_reads, setup_one_lane, teardown),
        cmocka_unit_test_setup_teardown(renewal_waits_for_a_list, setup_one_lane, teardown),
        cmocka_unit_test_setup_teardown(cut_in_pause, setup, teardown),
        cmocka_unit_test_setup_teardown(about_close, setup, teardown),
        cmocka_unit_test_setup_teardown(close_that_takes_effect_later, setup, teardown),
        cmocka_unit_test_setup_teardown(about_notified, setup, teardown),
        cmocka_unit_test_setup_teardown(about_pace, setup, teardown),
        cmocka_unit_test_setup_teardown(poll_is_put_off, setup, teardown),
        cmocka_unit_test_setup_teardown(note_ends_no_lease, setup, teardown),
        cmocka_unit_test_setup_teardown(deaf_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(queue_may_be_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_that_comes_with_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_listener_that_stands_still_is_opened_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_listener_at_another_server_is_opened_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_is_older_than_the_test, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
