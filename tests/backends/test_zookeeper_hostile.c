/* A ZooKeeper server that does not mean well. Whatever it says, the command must not crash, nor hang beyond the time that it
 * was given, nor run what it was to guard. Each case is a process of its own. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/fake_zookeeper.h"
#include "lib/referee.h"
#include "lib/testhost.h"

#include "stores/zookeeper/zookeeper.h"

static char said[2048];

/* What the trial is allowed by itself, and then what it has asked for, to be given back too, may take an op timeout each. */
#define END_MS (ref_scaled_ms(10000))
#define TRY_MS 200

/* What a server is tried with: a program that lists, a command that is to run, and one that is told to stop meanwhile; and a
 * program that forgets a mutex. */
typedef enum trial_kind { LISTS, RUNS, STOPS, TRIAL_KINDS, FORGETS = TRIAL_KINDS } trial_kind;

typedef struct trial {
    const char *what;
    trial_kind kind;
    fake_zookeeper fake;
    pid_t pid;
    int out;
} trial;

static const char *const kinds[] = {"list", "run", "run and SIGTERM", "forget"};

/* --- the one who lists ------------------------------------------------------------------------------------- */

static void ignore_row(const simba_listing *row, void *user)
{
    puts(row->owner->id);
}

/* `simba list` or `simba forget m`, with a short timeout. */
static int use(const char *what, const char *url)
{
    simba_error err = {0};
    simba_client *client = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = TRY_MS;
    int rc = simba_client_open(url, &options, &err, &client);
    if (rc == 0) {
        rc = strcmp(what, "list") == 0 ? simba_client_list(client, NULL, ignore_row, NULL, &err)
                                       : simba_client_forget(client, "m", &err);
        simba_client_close(client);
    }
    puts(err.text);
    return rc < 0;
}

/* --- trials ------------------------------------------------------------------------------------------------- */

static void begin(trial *t)
{
    char url[96];
    char wait[16];
    int ends[2];
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d?session-timeout=10s", t->fake.port);
    snprintf(wait, sizeof wait, "%dms", t->kind == STOPS ? 60000 : TRY_MS);
    const char *const lists[] = {"/proc/self/exe", "list", url, NULL};
    const char *const runs[] = {SIMBA_TEST_COMMAND, "run", "--url", url, "--wait", wait, "m", "--", "echo",
                                "it-ran",           NULL};
    const char *const forgets[] = {"/proc/self/exe", "forget", url, NULL};
    const char *const *arguments = t->kind == LISTS ? lists : t->kind == FORGETS ? forgets : runs;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    t->pid = fork();
    if (t->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(ends[1]);
    t->out = ends[0];
}

/* The exit code, or 1000 and the signal that ended it: SIGKILL, if that had to be sent. What it said is in `said`. */
static int end(trial *t)
{
    int status = 0;
    const int64_t begun_ms = ref_now_ms();
    bool told = t->kind != STOPS;
    while (waitpid(t->pid, &status, WNOHANG) == 0) {
        const int64_t after_ms = ref_now_ms() - begun_ms;
        if (after_ms > END_MS)
            kill(t->pid, SIGKILL);
        if (!told && after_ms > TRY_MS) { /* for so long the server was bad to it */
            told = true;
            kill(t->pid, SIGTERM);
        }
        usleep(2000);
    }
    const ssize_t length = read(t->out, said, sizeof said - 1);
    said[length > 0 ? length : 0] = '\0';
    close(t->out);
    fake_zookeeper_stop(&t->fake);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void assert_survived(trial *t)
{
    const int code = end(t);
    const bool stopped = t->kind == STOPS && code == 1000 + SIGTERM; /* before it had a handler */
    /* In builds that look for it. */
    const bool crashed = strstr(said, "runtime error") || strstr(said, "Sanitizer");
    if ((code >= 1000 && !stopped) || crashed || strstr(said, "it-ran"))
        REF_COMPLAIN("%s, %s: %d: %s", t->what, kinds[t->kind], code, said);
}

typedef struct bad_server {
    const char *what;
    fake_odd odd;
} bad_server;

static void assert_survives(const bad_server *bad)
{
    trial trials[TRIAL_KINDS] = {0};
    const bool stops = bad->odd.endless || bad->odd.manner == FAKE_SILENCE;
    const int kinds_tried = stops ? TRIAL_KINDS : STOPS;
    for (int kind = 0; kind < kinds_tried; kind++) {
        trial *t = &trials[kind];
        t->what = bad->what;
        t->kind = (trial_kind)kind;
        fake_zookeeper_start(&t->fake, bad->odd);
        begin(t);
    }
    for (int kind = 0; kind < kinds_tried; kind++)
        assert_survived(&trials[kind]);
}

/* Nothing may be taken for a success. */
static void assert_not_forgotten(const bad_server *bad)
{
    trial t = {.what = bad->what, .kind = FORGETS};
    fake_zookeeper_start(&t.fake, bad->odd);
    begin(&t);
    const int code = end(&t);
    if (code != 1 || strstr(said, "runtime error") || strstr(said, "AddressSanitizer"))
        REF_COMPLAIN("%s: %d: %s", bad->what, code, said);
}

#define ASSERT_SURVIVES(cases)                                                                                         \
    do {                                                                                                               \
        for (size_t i_ = 0; i_ < sizeof(cases) / sizeof *(cases); i_++)                                                \
            assert_survives(&(cases)[i_]);                                                                             \
        assert_int_equal(ref_complaints(), 0);                                                                         \
    } while (0)

#define BODY(text) .body = (text), .size = sizeof(text) - 1
#define MOST "\x7f\xff\xff\xff"
#define NONE "\xff\xff\xff\xff"

static void about_answers(void **state)
{
    static const bad_server cases[] = {
        {.what = "2^31 - 1 children", .odd = {FAKE_CHILDREN, FAKE_REPLY, BODY(MOST)}},
        {.what = "a child with a slash", .odd = {FAKE_CHILDREN, FAKE_REPLY, BODY("\0\0\0\1\0\0\0\3a/b")}},
        {.what = "a child that is too long", .odd = {FAKE_CHILDREN, FAKE_REPLY, BODY("\0\0\0\1" MOST "m")}},
        {.what = "made with a path too long", .odd = {FAKE_CREATE2, FAKE_REPLY, BODY(MOST "/simba")}},
        {.what = "data of 2^31 - 1", .odd = {FAKE_GET, FAKE_REPLY, BODY(MOST "x")}},
        {.what = "a frame of 2^31 - 1 that comes",
         .odd = {FAKE_CHILDREN, FAKE_REPLY, BODY("xxxxxxxx"), INT32_MAX, .endless = true}},
        {.what = "a frame of less than nothing", .odd = {FAKE_SET, FAKE_RAW, BODY(NONE)}},
        {.what = "something else",
         .odd = {FAKE_SET, FAKE_RAW, BODY("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")}},
        {.what = "an answer to nothing", .odd = {FAKE_SET, FAKE_UNASKED, BODY("")}},
        {.what = "answers to nothing, for ever", .odd = {FAKE_SET, FAKE_UNASKED, BODY(""), .endless = true}},
        {.what = "silence", .odd = {FAKE_SET, FAKE_SILENCE, BODY("")}},
    };
    ASSERT_SURVIVES(cases);
}

#define EVENT(path) "\0\0\0\4\0\0\0\3" path /* its children have changed, while connected */

static void about_events(void **state)
{
    static const bad_server cases[] = {
        {.what = "an event with a path too long", .odd = {FAKE_SET, FAKE_EVENT, BODY(EVENT(MOST "/"))}},
        {.what = "a session event", .odd = {FAKE_SET, FAKE_EVENT, BODY("\xff\xff\xff\xff\xff\xff\xff\x90\0\0\0\1/")}},
        {.what = "a flood of events",
         .odd = {FAKE_SET, FAKE_EVENT, BODY(EVENT("\0\0\0\x08/simba/m")), .endless = true}},
        {.what = "a flood while one waits",
         .odd = {FAKE_GET, FAKE_EVENT, BODY("\0\0\0\2\0\0\0\3\0\0\0\x08/simba/m"), .endless = true}},
        {.what = "a flood after the handshake",
         .odd = {FAKE_HANDSHAKE, FAKE_EVENT, BODY(EVENT("\0\0\0\1/")), .endless = true}},
    };
    ASSERT_SURVIVES(cases);
}

static void about_handshakes(void **state)
{
    static const bad_server cases[] = {
        {.what = "a session of no time", .odd = {.request = FAKE_NEVER, .timeout_ms = FAKE_NO_TIMEOUT}},
        {.what = "a session of least", .odd = {.request = FAKE_NEVER, .timeout_ms = INT32_MIN}},
        {.what = "a session of 25 days", .odd = {.request = FAKE_NEVER, .timeout_ms = INT32_MAX}},
        {.what = "a server for reading only", .odd = {.request = FAKE_NEVER, .read_only = true}},
    };
    ASSERT_SURVIVES(cases);
}

#define RESULT(type, last, error) type last error
#define DONE RESULT("\0\0\0\2", "\0", "\0\0\0\0")
#define LAST RESULT(NONE, "\1", NONE)
#define FAILED(error) RESULT(NONE, "\0", error) error

/* Neither more results than parts nor one that is cut off are taken for an outcome. */
static void about_transactions(void **state)
{
    static const bad_server cases[] = {
        {.what = "three results", .odd = {FAKE_MULTI, FAKE_REPLY, BODY(DONE DONE DONE LAST)}},
        {.what = "two results without an end", .odd = {FAKE_MULTI, FAKE_REPLY, BODY(DONE DONE)}},
        {.what = "a failure that is none",
         .odd = {FAKE_MULTI, FAKE_REPLY, BODY(FAILED("\0\0\0\0") FAILED("\0\0\0\0") LAST)}},
        {.what = "something that is always there",
         .odd = {FAKE_MULTI, FAKE_REPLY, BODY(FAILED("\xff\xff\xff\x91") FAILED("\xff\xff\xff\xfe") LAST)}},
        {.what = "silence", .odd = {FAKE_MULTI, FAKE_SILENCE, BODY("")}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_not_forgotten(&cases[i]);
    assert_int_equal(ref_complaints(), 0);
}

/* The fake can be got along with: what fails above does so because of what is odd. */
static void about_good(void **state)
{
    trial t = {.what = "good", .kind = LISTS};
    fake_zookeeper_start(&t.fake, (fake_odd){.request = FAKE_NEVER});
    begin(&t);
    const int code = end(&t);
    if (code != 0 || !strstr(said, "somebody"))
        fail_msg("%d: %s", code, said);
    t = (trial){.what = "good", .kind = FORGETS};
    fake_zookeeper_start(&t.fake, (fake_odd){FAKE_MULTI, FAKE_REPLY, BODY(DONE DONE LAST)});
    begin(&t);
    assert_int_equal(end(&t), 0);
}

/* A message that claims to be long is refused by its length alone, and an answer to another question by its number; one that comes in
 * parts keeps nobody busy. */
static void about_heads(void **state)
{
    static const fake_odd odds[] = {{FAKE_SYNC, FAKE_REPLY, BODY("x"), .length = 16 << 20},
                                    {FAKE_CHILDREN, FAKE_UNASKED, BODY("\0\0\0\0")},
                                    {FAKE_SYNC, FAKE_RAW, BODY("\0\0")}};
    for (size_t i = 0; i < sizeof odds / sizeof *odds; i++) {
        char url[64];
        fake_zookeeper fake;
        testhost h;
        ref_watchdog(60);
        fake_zookeeper_start(&fake, odds[i]);
        snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", fake.port);
        assert_int_equal(testhost_open(&h, &simba__backend_zookeeper, url, NULL), 0);
        const zk_session *session = &((const zk_store *)h.store)->session;
        testhost_request r = testhost_request_of(&h, SIMBA_OP_READ, "m", "me", 7, 0);
        testhost_submit(&h, &r);
        testhost_flush(&h);
        while (i < 2 ? h.warnings == 0 : session->in.length != 2)
            testhost_pump(&h, NULL, 1);
        struct pollfd reported = {.fd = h.reactor.set, .events = POLLIN};
        assert_true(i < 2 || poll(&reported, 1, 0) == 0);
        assert_false(r.done && r.request.reply.status == 0);
        testhost_close(&h);
        fake_zookeeper_stop(&fake);
    }
    ref_watchdog(0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && (strcmp(argv[1], "list") == 0 || strcmp(argv[1], "forget") == 0))
        return use(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_good),       cmocka_unit_test(about_answers),      cmocka_unit_test(about_events),
        cmocka_unit_test(about_handshakes), cmocka_unit_test(about_transactions), cmocka_unit_test(about_heads),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
