/* The SQLite store and its files: what it makes, what it refuses and leaves alone, what it survives. */
#include <fcntl.h>
#include <sys/wait.h>

#include "backends/test_sqlite.h"

/* Opening must fail, with this code, and words that contain `word`. */
static void refuse(const char *url, int code, const char *word)
{
    simba_error err = {0};
    static testhost h;
    const int rc = testhost_open(&h, &simba__backend_sqlite, url, &err);
    if (rc == 0)
        testhost_close(&h);
    assert_int_equal(rc, code);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

/* A file of the store's own: in write-ahead mode, marked as ours, of version 2, in a folder that only we may enter. */
static void about_created(void **state)
{
    fixture *f = *state;
    struct stat status;
    snprintf(f->path, sizeof f->path, "%s/new/simba.db", f->folder);
    snprintf(f->url, sizeof f->url, "sqlite://%s", f->path);
    open_store(f, &f->a);
    testhost_close(&f->a);
    assert_string_equal(raw_text(f, "PRAGMA application_id"), "1399418210");
    assert_string_equal(raw_text(f, "PRAGMA user_version"), "2");
    assert_string_equal(raw_text(f, "PRAGMA journal_mode"), "wal");
    assert_string_equal(raw_text(f, "SELECT group_concat(name, ' ') FROM pragma_table_info('simba_lock')"),
                        "mutex acquired_at ttl_at transition_at owner_id version token nonce revoked_token "
                        "until_boot_ns boot_id socket next_nonce next_until_boot_ns");
    char folder[80];
    snprintf(folder, sizeof folder, "%s/new", f->folder);
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(f->path, &status), 0);
    assert_int_equal(status.st_mode & 0007, 0); /* nobody else's business */
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode & 07777;
}

/* The sockets are for those who may use the database, whatever the umask is: the folder and each of them. They are made by the
 * first acquire, and go with the client. */
static void sockets_have_the_mode_of_the_database(void **state)
{
    static const struct {
        mode_t database, folder;
    } cases[] = {{0600, 0700}, {0660, 02770}, {0666, 0777}};
    fixture *f = *state;
    char path[128];
    char name[160];
    snprintf(path, sizeof path, "%s-wake", f->path);
    const mode_t before = umask(077);
    for (size_t i = 0; i < 3; i++) {
        close(open(f->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_int_equal(chmod(f->path, cases[i].database), 0);
        open_store(f, &f->a);
        assert_int_equal(access(path, F_OK), -1);
        assert_mine(acquire(&f->a, "orders", "me", 1));
        assert_int_equal(mode_of(path), cases[i].folder);
        snprintf(name, sizeof name, "%s/%s", path, raw_text(f, "SELECT socket FROM simba_lock"));
        assert_int_equal(mode_of(name), cases[i].database);
        testhost_close(&f->a);
        assert_int_equal(access(name, F_OK), -1);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(unlink(f->path), 0);
    }
    umask(before);
}

/* URLs that are not one of this store say what is wrong with them. */
static void bad_urls(void **state)
{
    fixture *f = *state;
    char url[160];
    refuse("sqlite://host/path/simba.db", SIMBA_EURL,
           "three slashes: write sqlite:///host/path/simba.db, or sqlite:///");
    assert_int_equal(chdir(f->folder), 0);
    snprintf(url, sizeof url, "for a file in this folder write sqlite://%s/relative.db", f->folder);
    refuse("sqlite://relative.db", SIMBA_EURL, url);
    assert_int_equal(chdir("/"), 0);
    refuse("sqlite://relative.db", SIMBA_EURL, "write sqlite:///relative.db");
    refuse("sqlite://", SIMBA_EURL, "names no file");
    refuse("sqlite:///", SIMBA_EURL, "names no file");
    snprintf(url, sizeof url, "sqlite://%s/", f->folder);
    refuse(url, SIMBA_EURL, "names no file");
    snprintf(url, sizeof url, "sqlite://%s", f->folder);
    refuse(url, SIMBA_EURL, "is a folder");
    snprintf(url, sizeof url, "%s?sync=maybe", f->url);
    refuse(url, SIMBA_EURL, "normal or full");
    assert_int_equal(access(f->path, F_OK), -1);
}

typedef struct contents {
    size_t size;
    char bytes[1 << 16];
} contents;

static void read_file(const char *path, contents *out)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    out->size = fread(out->bytes, 1, sizeof out->bytes, file);
    fclose(file);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* Refused, and not a byte of it changed. */
static void refuse_untouched(const fixture *f, int code, const char *word)
{
    static contents before;
    static contents after;
    read_file(f->path, &before);
    refuse(f->url, code, word);
    read_file(f->path, &after);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.bytes, after.bytes, before.size);
}

/* Something that is no database at all. */
static void not_a_database(void **state)
{
    fixture *f = *state;
    static char text[8192];
    memset(text, 'x', sizeof text);
    write_file(f->path, text, sizeof text);
    refuse_untouched(f, SIMBA_ECORRUPT, f->path);
    write_file(f->path, "short", 5);
    refuse_untouched(f, SIMBA_ECORRUPT, f->path);
}

/* A database of ours that was damaged: its header, or its end. */
static void damaged_database(void **state)
{
    fixture *f = *state;
    static contents whole;
    open_store(f, &f->a);
    acquire(&f->a, "orders", "me", 1);
    testhost_close(&f->a);
    read_file(f->path, &whole);

    static contents damaged;
    damaged = whole;
    memset(damaged.bytes, 0xA5, 64);
    write_file(f->path, damaged.bytes, damaged.size);
    refuse_untouched(f, SIMBA_ECORRUPT, f->path);

    const size_t sizes[] = {50, 600, whole.size / 2, whole.size - 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        write_file(f->path, whole.bytes, sizes[i]);
        refuse_untouched(f, SIMBA_ECORRUPT, f->path);
    }
    write_file(f->path, whole.bytes, whole.size);
    open_store(f, &f->a);
    assert_owned_by(acquire(&f->a, "orders", "you", 2), "me");
    testhost_close(&f->a);
}

/* Another program's database, known by any of its application id, its version or its tables. */
static void foreign_database(void **state)
{
    fixture *f = *state;
    static const char *const marks[] = {"PRAGMA application_id = 252006673", "PRAGMA user_version = 7",
                                        "CREATE TABLE customers (id INTEGER PRIMARY KEY)"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        unlink(f->path);
        raw_once(f, marks[i]);
        refuse_untouched(f, SIMBA_ECORRUPT, "another program");
    }
}

/* Another program that crashed has left its log: neither the database nor the log is touched. */
static void foreign_log(void **state)
{
    fixture *f = *state;
    static contents before;
    static contents after;
    char log[128];
    snprintf(log, sizeof log, "%s-wal", f->path);
    if (fork() == 0) {
        sqlite3 *db = open_raw(f);
        raw(db, "PRAGMA journal_mode = WAL; CREATE TABLE customers (id INTEGER PRIMARY KEY)");
        _exit(0); /* without closing */
    }
    wait(NULL);
    read_file(log, &before);
    assert_true(before.size > 0);
    refuse_untouched(f, SIMBA_ECORRUPT, "another program");
    read_file(log, &after);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.bytes, after.bytes, before.size);
}

/* A database of a later simba. */
static void newer_schema(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    testhost_close(&f->a);
    raw_once(f, "PRAGMA user_version = 3");
    refuse_untouched(f, SIMBA_ESTORE, "newer version");
}

/* Run `body` in a child without root's privileges, which would make every file writable. */
static void unprivileged(fixture *f, void (*body)(fixture *f))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
            _exit(99);
        body(f);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* In the child, where cmocka's assertions would be lost. */
static void must_refuse(const char *url, int code, const char *word)
{
    static testhost h;
    simba_error err = {0};
    const int rc = testhost_open(&h, &simba__backend_sqlite, url, &err);
    if (rc != code || !strstr(err.text, word)) {
        fprintf(stderr, "%s: %s, and not %s with \"%s\"\n", simba_error_name(rc), err.text, simba_error_name(code),
                word);
        _exit(1);
    }
}

static void must_refuse_file(fixture *f)
{
    must_refuse(f->url, SIMBA_EPERM, f->path);
}

static void must_refuse_folder(fixture *f)
{
    must_refuse(f->url, SIMBA_EPERM, f->folder);
    char url[160];
    snprintf(url, sizeof url, "sqlite://%s/deeper/simba.db", f->folder);
    must_refuse(url, SIMBA_EPERM, "deeper");
}

/* A file that may only be read, or not even that; a folder that may only be read, with and without a database in it. */
static void no_permission(void **state)
{
    fixture *f = *state;
    open_store(f, &f->a);
    testhost_close(&f->a);
    chmod(f->folder, 0777);
    chmod(f->path, 0444);
    unprivileged(f, must_refuse_file);
    chmod(f->path, 0000);
    unprivileged(f, must_refuse_file);
    chmod(f->path, 0666);
    chmod(f->folder, 0555);
    unprivileged(f, must_refuse_folder);
    chmod(f->folder, 0755);
    unlink(f->path);
    chmod(f->folder, 0555);
    unprivileged(f, must_refuse_folder);
    chmod(f->folder, 0755);
}

static void must_refuse_link(fixture *f)
{
    must_refuse(f->url, SIMBA_EPERM, "/deeper: this folder cannot be written to");
}

/* A link leads to a database in another folder: what holds there counts. */
static void link_into_another_folder(void **state)
{
    fixture *f = *state;
    char folder[80];
    char link[100];
    snprintf(folder, sizeof folder, "%s/deeper", f->folder);
    snprintf(link, sizeof link, "%s/link.db", f->folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(f->path, sizeof f->path, "%s/simba.db", folder);
    snprintf(f->url, sizeof f->url, "sqlite://%s", f->path);
    open_store(f, &f->a);
    testhost_close(&f->a);
    assert_int_equal(symlink(f->path, link), 0);
    snprintf(f->url, sizeof f->url, "sqlite://%s", link);
    chmod(f->folder, 0777);
    chmod(f->path, 0666);
    chmod(folder, 0555);
    unprivileged(f, must_refuse_link);
    chmod(folder, 0755);
}

/* In a child: open, ask for the mutex, close. */
static void open_and_acquire(fixture *f, const char *id)
{
    simba_error err = {0};
    if (testhost_open(&f->a, &simba__backend_sqlite, f->url, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", id, 1, 0);
    const int status = testhost_ask(&f->a, &r)->status;
    testhost_close(&f->a);
    _exit(status < 0 ? 2 : 0);
}

/* Many processes find no file and make it at the same moment. */
static void creation_race(void **state)
{
    enum { ROUNDS = 5, PROCESSES = 8 };
    fixture *f = *state;
    for (int round = 0; round < ROUNDS; round++) {
        int go[2];
        assert_int_equal(pipe(go), 0);
        for (int i = 0; i < PROCESSES; i++)
            if (fork() == 0) {
                const char id[] = {(char)('a' + i), '\0'};
                char byte;
                close(go[1]);
                (void)!read(go[0], &byte, 1); /* until the parent closes its end */
                open_and_acquire(f, id);
            }
        close(go[0]);
        close(go[1]);
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
        assert_string_equal(raw_text(f, "SELECT count(*) || ' ' || max(version) FROM simba_lock"), "1 1");
        assert_string_equal(raw_text(f, "PRAGMA integrity_check"), "ok");
        raw_once(f, "PRAGMA journal_mode = DELETE");
        assert_int_equal(unlink(f->path), 0);
    }
}

/* The file is deleted under two stores, with or without the files beside it: both go on, with a new file, together. */
static void deleted_underneath(void **state)
{
    fixture *f = *state;
    static const char *const endings[] = {"-wal", "-shm"};
    for (int with_others = 0; with_others < 2; with_others++) {
        open_store(f, &f->a);
        open_store(f, &f->b);
        assert_mine(acquire(&f->a, "orders", "me", 1));
        assert_owned_by(acquire(&f->b, "orders", "you", 2), "me");
        assert_int_equal(unlink(f->path), 0);
        for (int i = 0; with_others && i < 2; i++) {
            char path[128];
            snprintf(path, sizeof path, "%s%s", f->path, endings[i]);
            assert_int_equal(unlink(path), 0);
        }
        assert_int_equal(f->a.warnings, 0);
        assert_mine(acquire(&f->a, "orders", "me", 3));
        assert_int_equal(f->a.warnings, 1);
        assert_non_null(strstr(f->a.log, "deleted"));
        assert_owned_by(acquire(&f->b, "orders", "you", 4), "me");
        assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "me", 3, 0));
        assert_mine(acquire(&f->b, "orders", "you", 4));
        assert_owned_by(acquire(&f->a, "orders", "me", 3), "you");
        assert_string_equal(raw_text(f, "PRAGMA integrity_check"), "ok");
        assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "you", 4, 0));
        testhost_close(&f->a);
        testhost_close(&f->b);
    }
}

/* The file is deleted under a store that has nothing to do for the moment, and one that comes now makes it anew. */
static void deleted_under_an_idle_store(void **state)
{
    fixture *f = *state;
    open_store(f, &f->b);
    for (int i = 0; i < 3; i++) { /* so that there is something in the log that could be taken for the new one's */
        assert_mine(acquire(&f->b, "orders", "b", 2));
        assert_mine(ask(&f->b, SIMBA_OP_RELEASE, "orders", "b", 2, 0));
    }
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_int_equal(unlink(f->path), 0);
    open_store(f, &f->a);
    assert_mine(acquire(&f->a, "orders", "a", 1));
    assert_mine(acquire(&f->a, "invoices", "a", 1));
    assert_owned_by(acquire(&f->b, "orders", "b", 2), "a");
    assert_mine(ask(&f->a, SIMBA_OP_RELEASE, "orders", "a", 1, 0));
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_string_equal(raw_text(f, "PRAGMA integrity_check"), "ok");
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* Another database of simba takes its place; it counts from then on. */
static void replaced_underneath(void **state)
{
    fixture *f = *state;
    char aside[128];
    snprintf(aside, sizeof aside, "%s.other", f->path);
    open_store(f, &f->a);
    acquire(&f->a, "orders", "somebody", 9);
    testhost_close(&f->a);
    assert_int_equal(rename(f->path, aside), 0);
    open_store(f, &f->a);
    assert_mine(acquire(&f->a, "orders", "me", 1));
    assert_int_equal(rename(aside, f->path), 0);
    assert_owned_by(acquire(&f->a, "orders", "me", 1), "somebody");
    assert_int_equal(f->a.warnings, 1);
    testhost_close(&f->a);
}

/* The store under a second name, a symbolic link, is the same store. */
static void symbolic_link(void **state)
{
    fixture *f = *state;
    char link[100];
    open_store(f, &f->a);
    snprintf(link, sizeof link, "%s/link.db", f->folder);
    assert_int_equal(symlink(f->path, link), 0);
    snprintf(f->url, sizeof f->url, "sqlite://%s", link);
    open_store(f, &f->b);
    assert_mine(acquire(&f->a, "orders", "me", 1));
    assert_owned_by(wait_for(&f->b, "orders", "you", 2), "me");
    ask(&f->a, SIMBA_OP_RELEASE, "orders", "me", 1, 0);
    assert_true(testhost_await_pushes(&f->b, 1));
    testhost_close(&f->a);
    testhost_close(&f->b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(about_created),
        TEST(sockets_have_the_mode_of_the_database),
        TEST(bad_urls),
        TEST(not_a_database),
        TEST(damaged_database),
        TEST(foreign_database),
        TEST(foreign_log),
        TEST(newer_schema),
        TEST(no_permission),
        TEST(link_into_another_folder),
        TEST(creation_race),
        TEST(deleted_underneath),
        TEST(deleted_under_an_idle_store),
        TEST(replaced_underneath),
        TEST(symbolic_link),
    };
    return cmocka_run_group_tests_name("sqlite files", tests, NULL, NULL);
}
