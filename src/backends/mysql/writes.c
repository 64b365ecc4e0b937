/* What a job does with requests that write.
 *
 * They share one transaction: all rows are locked and read by one statement, in the order of their names so that two
 * batches do not deadlock, core/row.c decides, and the rows that changed are written by one statement. A request that is
 * alone does without the transaction. Whatever goes wrong is a matter of the whole batch, of one mutex, or of nobody
 * because it is done again; error.c has the table. */
#include <string.h>
#include <time.h>

#include "backends/mysql/batch.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/random.h"

enum { DEADLOCKS_MAX = 5 };

/* --- a stretch of rows ---------------------------------------------------------------------------------- */

typedef struct stretch {
    simba__my_batch *batch;
    size_t from, to; /* rows */
} stretch;

static simba__sql_item **items_begin(const stretch *s)
{
    return s->batch->order + s->batch->firsts[s->from];
}

static simba__sql_item **items_end(const stretch *s)
{
    return s->batch->order + s->batch->firsts[s->to];
}

static void fail_stretch(const stretch *s, const simba_error *why)
{
    for (simba__sql_item **at = items_begin(s); at < items_end(s); at++)
        if (!(*at)->is_refused)
            simba__my_item_fail(*at, why);
}

static unsigned characters(const char *text)
{
    unsigned n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* What the columns have no room for is not sent: it might come back as something else. */
static void refuse_oversized(const stretch *s)
{
    const simba__my_session *session = &s->batch->session;
    for (simba__sql_item **at = items_begin(s); at < items_end(s); at++) {
        simba__sql_item *item = *at;
        simba_error why = {0};
        if (item->ask.id && characters(item->ask.id) > session->schema.id_chars)
            simba__error_set(
                &why, SIMBA_EINVAL, "mysql: the id \"%.40s\" has %u characters, and the column owner_id of %s takes %u",
                item->ask.id, characters(item->ask.id), session->conn.options->table, session->schema.id_chars);
        else if (characters(item->ask.mutex) > session->schema.mutex_chars)
            simba__error_set(&why, SIMBA_EINVAL,
                             "mysql: the name has %u characters, and the column mutex of %s takes %u",
                             characters(item->ask.mutex), session->conn.options->table, session->schema.mutex_chars);
        item->is_refused = why.code < 0;
        if (item->is_refused)
            simba__my_item_fail(item, &why);
    }
}

/* --- one request by itself ------------------------------------------------------------------------------ */

static bool is_lone(const stretch *s)
{
    return s->to - s->from == 1 && items_end(s) - items_begin(s) == 1;
}

static int read_row(const stretch *s, simba__sql_failure *why)
{
    return simba__my_get_rows(&s->batch->session, &s->batch->rows[s->from], 1, SIMBA__MY_GET, why);
}

/* It is ours by what the statement said; now what the row says: the times, or that it is gone already. */
static void answer_granted(const simba__my_row *row, simba__sql_item *item, uint64_t token)
{
    simba_reply *reply = &item->ask.reply;
    simba__my_row seen = *row;
    simba_request look = {.op = SIMBA_OP_READ, .id = ""};
    simba__my_apply(&seen, &look, 0);
    *reply = look.reply;
    if (row->found && row->version == token && strcmp(row->row.owner.id, item->ask.id) == 0) {
        reply->outcome = SIMBA_MINE;
        reply->owner = row->row.owner;
    }
    item->version = row->version;
}

/* 1: answered; 0: that takes a transaction. */
static int acquire_alone(const stretch *s, simba__sql_item *item, simba__sql_failure *why)
{
    simba__my_row *row = &s->batch->rows[s->from];
    int rc = simba__my_acquire(&s->batch->session, &item->ask, item->floor, why);
    if (rc < 0)
        return rc;
    const bool won = rc == 1;
    rc = read_row(s, why);
    if (rc < 0)
        return rc;
    if (won && !row->flaw) {
        answer_granted(row, item, row->last_insert_id);
        return 1;
    }
    simba__my_row tried = *row;
    if (!row->found || row->flaw || !simba__my_apply(&tried, &item->ask, item->floor) || tried.changed)
        return 0;
    item->version = row->version;
    return 1;
}

static int renew_alone(const stretch *s, simba__sql_item *item, simba__sql_failure *why)
{
    int rc = simba__my_renew(&s->batch->session, &item->ask, why);
    if (rc != 1)
        return rc;
    rc = read_row(s, why);
    if (rc < 0 || s->batch->rows[s->from].flaw)
        return rc;
    answer_granted(&s->batch->rows[s->from], item, item->ask.token);
    return 1;
}

static int release_alone(const stretch *s, simba__sql_item *item, simba__sql_failure *why)
{
    int64_t now_ms = 0;
    int rc = simba__my_release(&s->batch->session, &item->ask, &now_ms, why);
    if (rc != 1)
        return rc;
    if (now_ms == 0) {
        rc = read_row(s, why);
        now_ms = s->batch->rows[s->from].now_ms;
    }
    item->ask.reply = (simba_reply){.outcome = SIMBA_MINE, .now_ms = now_ms};
    item->version = item->ask.token + 1;
    return rc < 0 ? rc : 1;
}

static int try_alone(const stretch *s, simba__sql_failure *why)
{
    simba__sql_item *item = *items_begin(s);
    if (!is_lone(s) || item->guarded || !s->batch->session.schema.is_exact)
        return 0;
    switch (item->ask.op) {
    case SIMBA_OP_ACQUIRE:
        return acquire_alone(s, item, why);
    case SIMBA_OP_RENEW:
        return renew_alone(s, item, why);
    case SIMBA_OP_RELEASE:
        return item->ask.token != 0 ? release_alone(s, item, why) : 0;
    default:
        return 0;
    }
}

/* --- the transaction ------------------------------------------------------------------------------------ */

static bool wants_row(const stretch *s, size_t row)
{
    const simba__my_batch *batch = s->batch;
    for (size_t i = batch->firsts[row]; i < batch->firsts[row + 1]; i++)
        if (batch->order[i]->ask.op == SIMBA_OP_ACQUIRE && !batch->order[i]->is_refused)
            return true;
    return false;
}

static bool lacks_rows(const stretch *s)
{
    for (size_t i = s->from; i < s->to; i++)
        if (!s->batch->rows[i].found && wants_row(s, i))
            return true;
    return false;
}

static int lock_rows(const stretch *s, simba__my_statement how, simba__sql_failure *why)
{
    const int rc = simba__my_conn_say(&s->batch->session.conn, "begin", why);
    return rc < 0 ? rc : simba__my_get_rows(&s->batch->session, &s->batch->rows[s->from], s->to - s->from, how, why);
}

/* Outside of the transaction: a lock on a row that is not there is a lock on the gap, and two who have that and insert are
 * a deadlock. */
static int make_rows(const stretch *s, simba__sql_failure *why)
{
    const int rc = simba__my_conn_say(&s->batch->session.conn, "rollback", why);
    if (rc < 0)
        return rc;
    for (size_t i = s->from; i < s->to; i++)
        s->batch->rows[i].found |= !wants_row(s, i);
    return simba__my_try_init_rows(&s->batch->session, &s->batch->rows[s->from], s->to - s->from, why);
}

static void apply_item(const stretch *s, simba__my_row *row, simba__sql_item *item)
{
    const simba__my_session *session = &s->batch->session;
    simba_error why = {0};
    simba__free(item->error); /* of an earlier try */
    item->error = NULL;
    item->kept_back = false;
    const simba__row_now now = {row->now_ms * SIMBA__NS_PER_MS, row->now_ms * 1000};
    if (!row->found && item->ask.op == SIMBA_OP_ACQUIRE) {
        simba__error_set(&why, session->schema.is_exact ? SIMBA_EUNAVAILABLE : SIMBA_ECORRUPT,
                         session->schema.is_exact
                             ? "mysql %s: the row of this mutex in %s was deleted just now"
                             : "mysql %s: the column mutex of %s takes this name for another; make it utf8mb4_bin",
                         session->conn.options->where, session->conn.options->table);
    } else if (row->flaw) {
        simba__sql_failure flaw;
        simba__my_row_fail(session, row, &flaw);
        why = flaw.error;
    } else if (item->guarded && !row->changed && simba__row_is_free(&row->row, now)) {
        item->ask.op = SIMBA_OP_READ;
        simba__my_apply(row, &item->ask, 0);
        item->ask.op = SIMBA_OP_ACQUIRE;
        item->kept_back = true;
    } else if (!simba__my_apply(row, &item->ask, item->floor)) {
        simba__error_set(&why, SIMBA_ECORRUPT, "mysql %s: the version of this mutex in %s is used up: it is %llu",
                         session->conn.options->where, session->conn.options->table, (unsigned long long)row->version);
    }
    item->version = row->version;
    if (why.code < 0)
        simba__my_item_fail(item, &why);
}

static void apply_all(const stretch *s)
{
    for (size_t i = s->from; i < s->to; i++)
        for (size_t k = s->batch->firsts[i]; k < s->batch->firsts[i + 1]; k++)
            if (!s->batch->order[k]->is_refused && !s->batch->rows[i].skipped)
                apply_item(s, &s->batch->rows[i], s->batch->order[k]);
}

/* By LOCK_FREE: rows that somebody else has locked, and those that are missing, are skipped. */
static int transact(const stretch *s, simba__my_statement how, simba__sql_failure *why)
{
    int rc = lock_rows(s, how, why);
    if (rc == 0 && how == SIMBA__MY_LOCK && lacks_rows(s)) {
        rc = make_rows(s, why);
        if (rc == 0)
            rc = lock_rows(s, how, why);
    }
    if (rc < 0)
        return rc;
    for (size_t i = s->from; i < s->to; i++)
        s->batch->rows[i].skipped = how == SIMBA__MY_LOCK_FREE && !s->batch->rows[i].found;
    apply_all(s);
    rc = simba__my_put_rows(&s->batch->session, &s->batch->rows[s->from], s->to - s->from, why);
    return rc < 0 ? rc : simba__my_conn_say(&s->batch->session.conn, "commit", why);
}

static int carry_out(const stretch *s, simba__sql_failure *why)
{
    if (is_lone(s) && (*items_begin(s))->is_refused)
        return 0;
    const int rc = try_alone(s, why);
    return rc == 0 ? transact(s, SIMBA__MY_LOCK, why) : rc < 0 ? rc : 0;
}

/* --- and again -------------------------------------------------------------------------------------------- */

/* Is there somebody left who waits for it? */
static bool is_wanted(const stretch *s)
{
    const simba__my_session *session = &s->batch->session;
    if (atomic_load(&session->conn.over))
        return false;
    const int64_t now_ns = session->conn.host->now(session->conn.host).ns;
    for (simba__sql_item **at = items_begin(s); at < items_end(s); at++)
        if (now_ns < (*at)->ask.deadline.ns)
            return true;
    return false;
}

static void put_off(const stretch *s)
{
    for (simba__sql_item **at = items_begin(s); at < items_end(s); at++)
        (*at)->put_off = !(*at)->is_refused;
}

static void pause_briefly(simba__my_batch *batch, unsigned tries)
{
    const int64_t most_ns = (int64_t)(tries + 1) * 4 * SIMBA__NS_PER_MS;
    const struct timespec pause = {0, (long)simba__random_range(&batch->seed, SIMBA__NS_PER_MS / 2, most_ns)};
    nanosleep(&pause, NULL);
}

static void settle(stretch s);

static void settle_one_by_one(const stretch *s)
{
    for (size_t i = s->from; i < s->to; i++)
        settle((stretch){s->batch, i, i + 1});
}

/* What is locked is for another job: those who have their answers by now are told when this one ends, and must not wait for
 * the lock meanwhile. What is only missing is made. */
static void settle_skipped(const stretch *s)
{
    for (size_t i = s->from; i < s->to; i++) {
        const stretch one = {s->batch, i, i + 1};
        simba__sql_failure ignored;
        if (!s->batch->rows[i].skipped)
            continue;
        if (s->batch->session.conn.mysql && read_row(&one, &ignored) == 0 && s->batch->rows[i].found)
            put_off(&one);
        else
            settle(one);
    }
}

/* Some row is locked by somebody who keeps it for long: first those that are not, in one go, then the others. */
static void settle_around_locks(const stretch *s)
{
    simba__sql_failure why;
    if (transact(s, SIMBA__MY_LOCK_FREE, &why) == 0) {
        settle_skipped(s);
        return;
    }
    simba__my_batch_undo(s->batch,
                         &why); /* an old server does not know how, or it is about something else: one by one */
    settle_one_by_one(s);
}

/* After something went wrong. */
typedef enum course { AGAIN, LATER, ONE_BY_ONE, AROUND_LOCKS, FAIL } course;

/* Doing it again after the connection was lost is safe where a grant whose answer was lost is known again. */
static course choose(const stretch *s, const simba__sql_failure *why, unsigned tries, bool may_put_off)
{
    const bool one = s->to - s->from == 1;
    if (!s->batch->session.conn.mysql)
        return may_put_off ? LATER : FAIL;
    switch (why->remedy) {
    case SIMBA__SQL_RETRY:
        return tries < DEADLOCKS_MAX ? AGAIN : one ? FAIL : ONE_BY_ONE;
    case SIMBA__SQL_LOCKED: /* others may need the connection meanwhile */
        return one ? LATER : AROUND_LOCKS;
    case SIMBA__SQL_SPLIT:
        return one ? FAIL : ONE_BY_ONE;
    default:
        return FAIL;
    }
}

static void settle(stretch s)
{
    simba__my_session *session = &s.batch->session;
    simba__sql_failure why = {0};
    for (unsigned tries = 0; is_wanted(&s); tries++) {
        if (!session->conn.mysql) {
            put_off(&s); /* another stretch has lost it */
            return;
        }
        if (carry_out(&s, &why) == 0)
            return;
        const bool knows_grants = session->schema.has_nonce || why.remedy != SIMBA__SQL_LOST;
        const bool may_put_off = knows_grants && simba__my_batch_may_put_off(s.batch, &why);
        simba__my_batch_undo(s.batch, &why);
        switch (choose(&s, &why, tries, may_put_off)) {
        case AGAIN:
            pause_briefly(s.batch, tries);
            break;
        case LATER:
            put_off(&s);
            return;
        case ONE_BY_ONE:
            settle_one_by_one(&s);
            return;
        case AROUND_LOCKS:
            settle_around_locks(&s);
            return;
        case FAIL:
            fail_stretch(&s, &why.error);
            return;
        }
    }
    if (why.error.code == 0)
        simba__error_set(&why.error, SIMBA_ETIMEDOUT, "mysql %s: no answer in time", session->conn.options->where);
    fail_stretch(&s, &why.error);
}

void simba__my_batch_write(simba__my_batch *batch)
{
    simba__sql_failure why;
    simba__my_batch_arrange(batch);
    const stretch all = {batch, 0, batch->row_count};
    if (simba__my_session_ready(&batch->session, false, &why) < 0) {
        fail_stretch(&all, &why.error);
        return;
    }
    refuse_oversized(&all);
    settle(all);
    batch->session.reused = batch->session.conn.mysql != NULL;
}
