/* A database that several users share: every file and folder that belongs to it has the mode and the group of the URL,
 * whoever made it and under whatever umask. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>

#include "backends/test_sqlite.h"

enum { ALICE = 54321, BOB = 54322, TEAM = 54330 };

static gid_t team(void)
{
    return geteuid() == 0 ? TEAM : getegid();
}

static void name_shared(fixture *f, const char *folder)
{
    snprintf(f->path, sizeof f->path, "%s%s/simba.db", f->folder, folder);
    snprintf(f->url, sizeof f->url, "sqlite://%s?mode=0660&group=%u", f->path, (unsigned)team());
}

/* The mode of a file beside the database, with its kind; 0: there is none, or it has another group. */
static mode_t mode_of(const fixture *f, const char *ending)
{
    char path[160];
    struct stat status;
    snprintf(path, sizeof path, "%s%s", f->path, ending);
    return lstat(path, &status) == 0 && status.st_gid == team() ? status.st_mode : 0;
}

/* The socket of whoever waits there. */
static mode_t mode_of_a_socket(const fixture *f)
{
    char ending[64];
    snprintf(ending, sizeof ending, "-wake/%s", raw_text(f, "SELECT socket FROM simba_waiter"));
    return mode_of(f, ending);
}

/* b holds the mutex, and a waits for it. */
static void hold_and_wait(fixture *f)
{
    open_store(f, &f->a);
    open_store(f, &f->b);
    assert_mine(acquire(&f->b, "orders", "b", 2));
    assert_owned_by(wait_for(&f->a, "orders", "a", 1), "b");
}

static void make(const fixture *f, const char *ending, mode_t mode)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s", f->path, ending);
    const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void refuse(fixture *f, const char *url, int code, const char *word)
{
    simba_error err = {0};
    assert_int_equal(testhost_open(&f->a, &simba__backend_sqlite, url, &err), code);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", err.text, word);
}

static int prepare(fixture *f, const char *word)
{
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    testhost_ask(&f->a, &r);
    if (r.request.reply.status < 0 && !strstr(r.error.text, word))
        fail_msg("\"%s\" does not say \"%s\"", r.error.text, word);
    return r.request.reply.status;
}

static simba_verdict examine(fixture *f)
{
    f->a.found_count = 0;
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    testhost_ask(&f->a, &r);
    for (size_t i = 0; i < f->a.found_count; i++)
        if (strcmp(f->a.found[i].what, "users") == 0)
            return f->a.found[i].verdict;
    fail_msg("nothing was said about the users");
    return SIMBA_VERDICT_BROKEN;
}

/* The folder, too, if simba makes it. */
static void everything_is_shared(void **state)
{
    fixture *f = *state;
    struct stat status;
    char folder[80];
    name_shared(f, "/new");
    snprintf(folder, sizeof folder, "%s/new", f->folder);
    const mode_t before = umask(0077);
    hold_and_wait(f);
    umask(before);
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_gid, team());
    assert_int_equal(status.st_mode, S_IFDIR | 02770);
    assert_int_equal(mode_of(f, ""), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-wal"), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-shm"), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-wake"), S_IFDIR | 02770);
    assert_int_equal(mode_of_a_socket(f), S_IFSOCK | 0660);
    assert_int_equal(examine(f), SIMBA_VERDICT_OK);
    testhost_close(&f->a);
    testhost_close(&f->b);
}

/* In a child: as this user, with a group of the user's own and the team among the others. It ends without closing. */
static void as_user(fixture *f, uid_t user, void (*body)(fixture *f))
{
    const gid_t groups[] = {TEAM};
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        umask(0077);
        if (setgroups(1, groups) != 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)
            _exit(99);
        body(f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void must_open(fixture *f)
{
    simba_error err = {0};
    if (testhost_open(&f->a, &simba__backend_sqlite, f->url, &err) == 0)
        return;
    fprintf(stderr, "user %u: %s\n", (unsigned)geteuid(), err.text);
    _exit(1);
}

static simba_outcome ask_in_child(fixture *f, uint64_t nonce)
{
    testhost_request r = testhost_request_of(&f->a, SIMBA_OP_ACQUIRE, "orders", "somebody", nonce, 0);
    r.request.queue = true;
    testhost_ask(&f->a, &r);
    if (r.request.reply.status < 0) {
        fprintf(stderr, "user %u: %s\n", (unsigned)geteuid(), r.error.text);
        _exit(1);
    }
    return r.request.reply.outcome;
}

static void must_get(fixture *f)
{
    must_open(f);
    if (ask_in_child(f, (uint64_t)getpid()) != SIMBA_MINE)
        _exit(2);
}

static void must_be_refused(fixture *f)
{
    must_open(f);
    if (ask_in_child(f, (uint64_t)getpid()) != SIMBA_NOT_MINE)
        _exit(2);
}

static void must_not_open(fixture *f)
{
    simba_error err = {0};
    if (testhost_open(&f->a, &simba__backend_sqlite, f->url, &err) != SIMBA_EPERM)
        _exit(1);
}

/* Each user meets what the other one made and holds; somebody else does not get in. */
static void two_users(void **state)
{
    fixture *f = *state;
    char folder[80];
    if (geteuid() != 0)
        skip();
    name_shared(f, "/team");
    snprintf(folder, sizeof folder, "%s/team", f->folder);
    assert_int_equal(chmod(f->folder, 0755), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chown(folder, 0, TEAM), 0);
    assert_int_equal(chmod(folder, 02770), 0);
    as_user(f, ALICE, must_get);
    as_user(f, BOB, must_be_refused);
    assert_int_equal(mode_of(f, "-wal"), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-wake"), S_IFDIR | 02770);
    assert_int_equal(mode_of_a_socket(f), S_IFSOCK | 0660);
    as_user(f, ALICE, must_be_refused);
    assert_int_equal(chmod(folder, 02775), 0);
    snprintf(f->url, sizeof f->url, "sqlite://%s", f->path);
    const pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setresgid(BOB, BOB, BOB) != 0 || setresuid(BOB, BOB, BOB) != 0)
            _exit(99);
        must_not_open(f);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A database of one user becomes one of the group, with all that belongs to it; only `simba init` does that. */
static void prepare_shares_what_exists(void **state)
{
    fixture *f = *state;
    assert_int_equal(chown(f->folder, (uid_t)-1, team()), 0);
    assert_int_equal(chmod(f->folder, 02770), 0);
    make(f, "", 0600);
    hold_and_wait(f);
    make(f, "-journal", 0600);
    testhost_close(&f->a);
    testhost_close(&f->b);
    name_shared(f, "");
    open_store(f, &f->a);
    ask(&f->a, SIMBA_OP_ACQUIRE, "others", "me", 3, 0);
    assert_int_equal(mode_of(f, "-wake"), S_IFDIR | 0700);
    assert_int_equal(examine(f), SIMBA_VERDICT_BROKEN);
    assert_int_equal(prepare(f, ""), 0);
    assert_int_equal(examine(f), SIMBA_VERDICT_OK);
    assert_int_equal(mode_of(f, ""), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-wal"), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-shm"), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-journal"), S_IFREG | 0660);
    assert_int_equal(mode_of(f, "-wake"), S_IFDIR | 02770);
    testhost_close(&f->a);
}

/* Nothing is opened up that does not belong to the database: neither the end of a link nor a file with a second name. */
static void prepare_follows_no_link(void **state)
{
    fixture *f = *state;
    struct stat status;
    char victim[96];
    char beside[128];
    assert_int_equal(chown(f->folder, (uid_t)-1, team()), 0);
    assert_int_equal(chmod(f->folder, 02770), 0);
    name_shared(f, "");
    open_store(f, &f->a);
    snprintf(victim, sizeof victim, "%s/victim", f->folder);
    snprintf(beside, sizeof beside, "%s-journal", f->path);
    close(open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(symlink(victim, beside), 0);
    assert_true(prepare(f, "simba.db-journal") < 0);
    assert_int_equal(unlink(beside), 0);
    assert_int_equal(link(victim, beside), 0);
    assert_true(prepare(f, "simba.db-journal") < 0);
    assert_int_equal(unlink(beside), 0);
    assert_int_equal(stat(victim, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(prepare(f, ""), 0);
    testhost_close(&f->a);
}

/* A folder in which the second user would be stopped, or get files of another group, is refused to the first one. */
static void folder_must_be_shared(void **state)
{
    fixture *f = *state;
    struct stat status;
    name_shared(f, "");
    assert_int_equal(chown(f->folder, (uid_t)-1, team()), 0);
    refuse(f, f->url, SIMBA_EPERM, "chmod g+rwxs on it");
    assert_int_equal(chmod(f->folder, 0770), 0);
    refuse(f, f->url, SIMBA_EPERM, "chmod g+rwxs on it");
    assert_int_equal(chmod(f->folder, 03770), 0);
    refuse(f, f->url, SIMBA_EPERM, "sticky bit");
    snprintf(f->url, sizeof f->url, "sqlite://%s?mode=0666", f->path);
    assert_int_equal(chmod(f->folder, 0770), 0);
    refuse(f, f->url, SIMBA_EPERM, "chmod a+rwx on it");
    assert_int_equal(access(f->path, F_OK), -1);
    assert_int_equal(chmod(f->folder, 0777), 0);
    open_store(f, &f->a);
    assert_mine(acquire(&f->a, "orders", "me", 1));
    assert_int_equal(examine(f), SIMBA_VERDICT_OK);
    testhost_close(&f->a);
    assert_int_equal(stat(f->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0666);
}

static void bad_settings(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *query;
        const char *word;
    } bad[] = {
        {"mode=0640", "0600, 0660 or 0666"},
        {"mode=660x", "0600, 0660 or 0666"},
        {"mode=", "0600, 0660 or 0666"},
        {"group=no-such-group", "no group \"no-such-group\""},
        {"group=99999999999", "no group \"99999999999\""},
        {"mode=0600&group=0", "mode=0660"},
        {"mode=0666&group=0", "mode=0660"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char url[192];
        snprintf(url, sizeof url, "sqlite://%s?%s", f->path, bad[i].query);
        refuse(f, url, SIMBA_EURL, bad[i].word);
    }
    assert_int_equal(access(f->path, F_OK), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(everything_is_shared),    TEST(two_users),    TEST(prepare_shares_what_exists),
        TEST(prepare_follows_no_link), TEST(bad_settings), TEST(folder_must_be_shared),
    };
    return cmocka_run_group_tests_name("sqlite share", tests, NULL, NULL);
}
