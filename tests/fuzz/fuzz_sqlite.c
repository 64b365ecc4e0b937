/* SQLite: files that somebody has damaged or made up, and rows that nobody of us has written. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/targets.h"
#include "stores/sqlite/store.h"
#include "util/clock.h"

static char folder[64];
static char path[96];

static void remove_folder(void)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 4; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s%s", path, endings[i]);
        unlink(file);
    }
    rmdir(folder);
}

/* A folder in memory, where there is one, with nothing in it. */
static void prepare(void)
{
    if (folder[0] == '\0') {
        strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/simba-fuzz-XXXXXX" : "/tmp/simba-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/fuzz.db", folder);
        atexit(remove_folder);
        return;
    }
    remove_folder();
    FUZZ_CHECK(mkdir(folder, 0700) == 0);
}

static simba_local host_now(simba_host *host)
{
    (void)host;
    return simba__clock_boot();
}

static uint64_t host_random(simba_host *host)
{
    (void)host;
    return 7;
}

static int64_t host_epoch_us(simba_host *host)
{
    (void)host;
    return 1;
}

static void check_item(const simba__sqlite_item *item)
{
    const simba_reply *reply = &item->ask.reply;
    FUZZ_CHECK(memchr(reply->owner.id, '\0', sizeof reply->owner.id));
    FUZZ_CHECK(reply->owner.token <= SIMBA__TOKEN_MAX);
    FUZZ_CHECK(!item->fault || fuzz_is_shown_safely(item->fault));
    for (const simba__sqlite_listing *row = item->listed; row; row = row->next) {
        FUZZ_CHECK(!row->mutex == (row->fault != NULL));
        FUZZ_CHECK(memchr(row->owner.id, '\0', sizeof row->owner.id));
        FUZZ_CHECK(row->note.size <= SIMBA_NOTE_MAX && (!row->first || strlen(row->first) <= SIMBA_ID_MAX));
    }
}

/* What a client does with a file, whatever is in it: errors are fine. */
static void use(void)
{
    static const simba_op ops[] = {SIMBA_OP_LIST,    SIMBA_OP_READ,          SIMBA_OP_READ_NOTE, SIMBA_OP_ACQUIRE,
                                   SIMBA_OP_ACQUIRE, SIMBA_OP_WRITE_NOTE,    SIMBA_OP_RENEW,     SIMBA_OP_RELEASE,
                                   SIMBA_OP_ACQUIRE, SIMBA_OP_FORCE_RELEASE, SIMBA_OP_FORGET,    SIMBA_OP_PREPARE};
    enum { COUNT = sizeof ops / sizeof *ops };
    simba_host host = {.now = host_now, .random = host_random, .epoch_us = host_epoch_us};
    simba__sqlite_item *items = calloc(COUNT, sizeof *items);
    simba__sqlite_batch batch = {.host = &host, .items = items, .count = COUNT, .look = SIMBA__SQLITE_LOOK_OVERDUE};
    const simba__sqlite_options options = {.path = path};
    simba_error err = {0};
    FUZZ_CHECK(items);
    simba__sqlite_wake_init(&batch.wake, 7);
    for (size_t i = 0; i < COUNT; i++) {
        items[i] = (simba__sqlite_item){
            .ask = {.op = ops[i], .mutex = ops[i] == SIMBA_OP_LIST ? NULL : "m", .id = "me", .nonce = 1 + i % 3}};
        items[i].ask.queue = true;
        items[i].ask.ttl_ms = 1000;
        items[i].ask.note = "note";
        items[i].ask.note_size = 4;
        items[i].ask.note_number = 7;
        items[i].part = simba__sqlite_part_of(ops[i]);
        atomic_init(&items[i].state, SIMBA__SQLITE_WAITS);
        batch.todo[items[i].part] = true;
    }
    if (simba__sqlite_db_init(&batch.db, &host, &options, &err) == 0) {
        simba__sqlite_busy_set(&batch.db.busy, (simba_local){INT64_MAX});
        simba__sqlite_batch_run(&batch);
        FUZZ_CHECK(batch.error.code == 0 || fuzz_is_shown_safely(batch.error.text));
        for (size_t i = 0; i < COUNT; i++)
            check_item(&items[i]);
    }
    simba__sqlite_batch_clear(&batch);
    simba__sqlite_db_fini(&batch.db);
    free(batch.notify);
}

void fuzz_sqlite_file(const uint8_t *data, size_t size)
{
    prepare();
    const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
    use();
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void bind_any(sqlite3_stmt *statement, int column, fuzz_input *in)
{
    char text[256];
    switch (fuzz_below(in, 5)) {
    case 0:
        sqlite3_bind_int64(statement, column, fuzz_number(in));
        break;
    case 1: {
        const size_t length = fuzz_text(in, text, 255);
        sqlite3_bind_text(statement, column, text, (int)length, SQLITE_TRANSIENT);
        break;
    }
    case 2: {
        const size_t length = fuzz_text(in, text, 255);
        sqlite3_bind_blob(statement, column, text, (int)length, SQLITE_TRANSIENT);
        break;
    }
    case 3:
        sqlite3_bind_double(statement, column, (double)fuzz_number(in) / 7);
        break;
    case 4:
        sqlite3_bind_text(statement, column, column == 1 ? "m" : "", -1, SQLITE_STATIC);
        break;
    }
}

static void insert_any(sqlite3 *handle, const char *sql, int columns, fuzz_input *in)
{
    sqlite3_stmt *statement = NULL;
    FUZZ_CHECK(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) == SQLITE_OK);
    for (int column = 1; column <= columns; column++)
        bind_any(statement, column, in);
    (void)sqlite3_step(statement);
    sqlite3_finalize(statement);
}

void fuzz_sqlite_row(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    sqlite3 *handle = NULL;
    prepare();
    use(); /* makes the tables */
    FUZZ_CHECK(sqlite3_open(path, &handle) == SQLITE_OK);
    while (in.left > 0) {
        switch (fuzz_below(&in, 3)) {
        case 0:
            insert_any(handle, "INSERT OR REPLACE INTO simba_lock VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 14, &in);
            break;
        case 1:
            insert_any(handle, "INSERT OR REPLACE INTO simba_note VALUES (?,?,?,?,?)", 5, &in);
            break;
        case 2: /* the mutex is bound first, as above */
            insert_any(handle,
                       "INSERT OR REPLACE INTO simba_waiter (mutex, nonce, what, since, id, socket, until, called) "
                       "VALUES (?,?,?,?,?,?,?,?)",
                       8, &in);
            break;
        }
    }
    sqlite3_close(handle);
    use();
}
