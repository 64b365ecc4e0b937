/* What the tests of the SQLite store share: a folder of their own, stores opened on a file in it, and a second way to
 * the file, through SQLite itself. */
#ifndef TESTS_BACKENDS_TEST_SQLITE_H
#define TESTS_BACKENDS_TEST_SQLITE_H

#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/asking.h"
#include "lib/cm.h"
#include "lib/testhost.h"
#include "stores/sqlite/store.h"
#include "util/clock.h"

typedef struct fixture {
    char folder[64];
    char path[96];
    char url[128];
    testhost a, b; /* two stores on the same file; as good as two processes, since they share nothing else */
} fixture;

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const char *tmp = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%.40s/simba-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/simba.db", f->folder);
    snprintf(f->url, sizeof f->url, "sqlite://%s", f->path);
    *state = f;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    return remove(path);
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    nftw(f->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

static inline void open_store(fixture *f, testhost *h)
{
    simba_error err = {0};
    if (testhost_open(h, &simba__backend_sqlite, f->url, &err) < 0)
        fail_msg("%s", err.text);
}

/* The second way. */
static inline sqlite3 *open_raw(const fixture *f)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
    return db;
}

static inline void raw(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
}

static inline void raw_once(const fixture *f, const char *sql)
{
    sqlite3 *db = open_raw(f);
    raw(db, sql);
    sqlite3_close(db);
}

/* The first column of the first row, as text; "" if there is none. */
static inline const char *raw_text(const fixture *f, const char *sql)
{
    static char text[256];
    sqlite3 *db = open_raw(f);
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    text[0] = '\0';
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0))
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return text;
}

/* Ask for it as a contender that will wait if it does not win. */
static inline simba_reply wait_for(testhost *h, const char *mutex, const char *id, uint64_t nonce)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_ACQUIRE, mutex, id, nonce, 0);
    r.request.queue = true;
    testhost_ask(h, &r);
    if (r.request.reply.status < 0)
        fail_msg("%s", r.error.text);
    return r.request.reply;
}

/* The contender of this nonce was told, or with 0 a watch. */
static inline void assert_told(const testhost *h, size_t index, simba_push_kind kind, uint64_t nonce)
{
    assert_true(index < h->push_count);
    assert_int_equal(h->pushes[index].push.kind, kind);
    assert_int_equal(h->pushes[index].nonce, nonce);
}

#endif
