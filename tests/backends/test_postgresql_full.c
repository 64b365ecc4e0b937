/* A PostgreSQL server whose disk is full: who holds a mutex keeps it, who wants a new one is told why not, and when there is room
 * again all is well. The disk is a limit on the size of files, which the table reaches in the middle of a page. */
#include <sys/resource.h>

#include "backends/test_postgresql.h"

enum { FILE_MOST = (16 << 20) + 4096 }; /* a file of the server's log of changes just fits */

static int full_setup(void **state)
{
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){FILE_MOST, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const int rc = group_setup(state);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    return rc;
}

/* False: there is no room. Rows that are rolled back leave theirs taken. */
static bool fill(const char *sql)
{
    PGresult *result = PQexec(raw, sql);
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const bool fits = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!fits)
        assert_string_equal(sqlstate, "53100");
    PQclear(result);
    return fits;
}

/* With long rows, and with short ones in what is left of their pages. */
static void fill_disk(void)
{
    assert_false(fill("insert into simba_mutex select 'long-' || n || repeat('x', 800), 0, 0, 0, '', 1 "
                      "from generate_series(1, 30000) n"));
    assert_false(fill("insert into simba_mutex select 'short-' || n, 0, 0, 0, '', 1 "
                      "from generate_series(1, 300000) n"));
}

/* The store knows of some places that were free before; then it is told, too. */
static simba_error acquire_until_full(void)
{
    for (int i = 0; i < 500; i++) {
        char mutex[16];
        snprintf(mutex, sizeof mutex, "new-%d", i);
        testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, mutex, "me", 2, 0);
        testhost_ask(&a, &r);
        if (r.request.reply.status < 0)
            return r.error;
    }
    fail_msg("the disk does not get full");
    return (simba_error){0};
}

static void full_disk(void **state)
{
    open_store(&a);
    const simba_reply won = acquire(&a, "orders", "me", 1);
    fill_disk();
    for (int i = 0; i < 20; i++)
        assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    const simba_error err = acquire_until_full();
    assert_int_equal(err.code, SIMBA_EUNAVAILABLE);
    assert_in(err.text, "53100");
    /* One that there is no room for does not hold up one of the same moment. */
    testhost_request new = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "mails", "me", 2, 0);
    testhost_request old = testhost_request_of(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token);
    testhost_submit(&a, &new);
    testhost_submit(&a, &old);
    testhost_flush(&a);
    assert_true(testhost_pump(&a, &new.done, 2000) && testhost_pump(&a, &old.done, 2000));
    assert_int_equal(new.request.reply.status, SIMBA_EUNAVAILABLE);
    assert_int_equal(old.request.reply.status, 0);
    assert_mine(old.request.reply);
    say("vacuum simba_mutex");
    assert_mine(acquire(&a, "invoices", "me", 1));
    testhost_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(full_disk, setup)};
    return SERVER_RUN_TESTS("postgres", tests, full_setup, group_teardown);
}
