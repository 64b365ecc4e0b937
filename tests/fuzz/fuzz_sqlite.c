/* SQLite: files that somebody has damaged or made up, and rows that nobody of us has written. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/sqlite/db.h"
#include "backends/sqlite/note.h"
#include "fuzz/targets.h"
#include "util/clock.h"
#include "util/mem.h"

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

static void check_row(const simba__row *row)
{
    FUZZ_CHECK(memchr(row->owner.id, '\0', sizeof row->owner.id));
    FUZZ_CHECK(row->token <= SIMBA__TOKEN_MAX);
}

static int on_listed(void *user, const char *mutex, const simba__row *row, const simba_stored_note *note,
                     const simba_error *fault)
{
    (void)user;
    FUZZ_CHECK(mutex && (row || (fault && fault->code < 0)));
    if (row)
        check_row(row);
    FUZZ_CHECK(!note || note->size <= SIMBA_NOTE_MAX);
    return 0;
}

static void lock_and_note(simba__sqlite_db *db)
{
    simba_request request = {.op = SIMBA_OP_ACQUIRE, .mutex = "m", .id = "me", .nonce = 1, .ttl_ms = 1000};
    const simba__row_now now = {1, 1};
    simba_error err = {0};
    simba__sqlite_note_copy *note = NULL;
    simba__row row;
    bool exists;
    if (simba__sqlite_db_load(db, "m", &row, &exists, &err) < 0)
        return;
    check_row(&row);
    if (simba__row_apply(&row, now, &request))
        (void)simba__sqlite_db_store(db, "m", &row, exists, &err);
    if (simba__sqlite_note_identify(db, "m", &row, &err) < 0)
        return;
    request.op = SIMBA_OP_WRITE_NOTE;
    request.token = row.token;
    request.note = "note";
    request.note_size = 4;
    request.note_number = 7;
    if (simba__row_apply(&row, now, &request))
        (void)simba__sqlite_note_store(db, &request, &row, &err);
    if (simba__sqlite_note_load(db, "m", &note, &err) == 0 && note)
        FUZZ_CHECK(note->stored.size <= SIMBA_NOTE_MAX);
    simba__free(note);
}

/* What a client does with a file, whatever is in it: errors are fine. */
static void use(void)
{
    simba_host host = {.now = host_now, .random = host_random};
    simba_error err = {0};
    simba__sqlite_db db = {0};
    bool opened;
    if (simba__sqlite_db_init(&db, &host, path, false, &err) == 0) {
        simba__sqlite_busy_set(&db.busy, (simba_local){INT64_MAX});
        if (simba__sqlite_db_refresh(&db, &opened, &err) < 0)
            FUZZ_CHECK(err.code < 0 && fuzz_is_shown_safely(err.text));
        if (db.handle && simba__sqlite_db_begin(&db, true, &err) == 0) {
            (void)simba__sqlite_db_list(&db, NULL, on_listed, NULL, &err);
            lock_and_note(&db);
            (void)simba__sqlite_db_list(&db, NULL, on_listed, NULL, &err);
            if (simba__sqlite_db_commit(&db, &err) < 0)
                simba__sqlite_db_rollback(&db);
        }
    }
    simba__sqlite_db_fini(&db);
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
    while (in.left > 0)
        if (fuzz_below(&in, 2))
            insert_any(handle, "INSERT OR REPLACE INTO simba_mutex VALUES (?,?,?,?,?,?,?,?,?,?,?)", 11, &in);
        else
            insert_any(handle, "INSERT OR REPLACE INTO simba_note VALUES (?,?,?,?,?)", 5, &in);
    sqlite3_close(handle);
    use();
}
