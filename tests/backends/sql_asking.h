/* Asking a store on an SQL server, and its server: the same for MySQL and PostgreSQL. The header that includes this has STORE, the
 * back end, and STORE_URL, and a second connection to the server, `raw`, with `say_on` to talk by it. */
#ifndef TESTS_BACKENDS_SQL_ASKING_H
#define TESTS_BACKENDS_SQL_ASKING_H

#include <stdarg.h>
#include <stdio.h>

#include "backends/asking.h"

__attribute__((format(printf, 1, 2))) static inline const char *say(const char *format, ...)
{
    char sql[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    return say_on(raw, sql);
}

static inline void open_at(testhost *h, const char *url)
{
    simba_error err = {0};
    if (testhost_open(h, STORE, url, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void open_store(testhost *h)
{
    open_at(h, STORE_URL);
}

/* A request that has to fail, and how. */
static inline simba_error refused(testhost *h, simba_op op, const char *mutex, const char *id)
{
    testhost_request r = testhost_request_of(h, op, mutex, id, 1, 0);
    testhost_ask(h, &r);
    assert_true(r.request.reply.status < 0);
    return r.error;
}

static inline void assert_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Several requests in one flush, until all of them are done. */
static inline void ask_all(testhost *h, testhost_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        testhost_submit(h, &requests[i]);
    testhost_flush(h);
    for (size_t i = 0; i < count; i++)
        assert_true(testhost_pump(h, &requests[i].done, 60000));
}

/* Until the store has answered everything. */
static inline void await_answers(testhost *h)
{
    testhost_run_jobs(h);
    for (int i = 0; i < 60000 && h->window.outstanding.count > 0; i++)
        testhost_pump(h, NULL, 1);
    assert_int_equal(h->window.outstanding.count, 0);
}

/* The note of "orders", which the store `a` reads, is longer than a note can be. */
__attribute__((unused)) static void assert_note_too_long(void)
{
    assert_int_equal(refused(&a, SIMBA_OP_READ_NOTE, "orders", "").code, SIMBA_ECORRUPT);
    ask(&a, SIMBA_OP_LIST, NULL, NULL, 0, 0);
    assert_int_equal(a.listed_count, 0);
    assert_in(a.log, "note");
}

/* The lease of a mutex is over. */
static inline void expire(const char *mutex)
{
    assert_string_equal(say("update simba_mutex set transition_at = 1 where mutex = '%s'", mutex), "1");
}

#endif
