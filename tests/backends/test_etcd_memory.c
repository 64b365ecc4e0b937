/* What happens when memory runs out, at every place where it can: a scenario with all that the store does is played again
 * and again, and each time another allocation fails, until it was played without one that did. Every request comes to an
 * end, and says so when it was for lack of memory. Whoever waits is told when it is its turn, whoever was robbed is told,
 * what is given back goes, and nothing is left behind, in the store or in the process. */
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"
#include "lib/server.h"

#include "backends/asking.h"
#include "lib/failing_alloc.h"
#include "stores/etcd/etcd.h"

enum {
    TIMEOUT_MS = 5000,
    CONNECT_MS = 2500, /* less than a client would sleep without being woken */
    CHORES_MS = 20,
    TURNS = 3,
};

static server etcd;
static testhost a;          /* the one that suffers */
static testhost b;          /* the one that comes afterwards */
static unsigned round_no;   /* each has a prefix of its own, where nothing is made yet */
static uint64_t newest;     /* nonce */
static simba_watch watched; /* that of the observer */

/* --- asking ------------------------------------------------------------------------------------------------- */

static void open_store(testhost *h, const char *host)
{
    char url[64];
    simba_error err = {0};
    snprintf(url, sizeof url, "etcd://%s:%d?prefix=%u/", host, etcd.port, round_no);
    while (testhost_open(h, &simba__backend_etcd, url, &err) < 0)
        assert_int_equal(err.code, SIMBA_ENOMEM);
}

/* Run the loop until it holds. */
#define AWAIT_WITHIN(h, most_ms, condition)                                                                            \
    do {                                                                                                               \
        for (int ms_ = 0; !(condition); ms_++) {                                                                       \
            if (ms_ > (most_ms))                                                                                       \
                fail_msg("never: %s", #condition);                                                                     \
            testhost_pump(h, NULL, 1);                                                                                 \
        }                                                                                                              \
    } while (0)

#define AWAIT(h, condition) AWAIT_WITHIN(h, TIMEOUT_MS, condition)

static const char *id_of(uint64_t nonce)
{
    static char text[4][16];
    char *id = text[nonce % 4];
    snprintf(id, sizeof text[0], "me-%u", (unsigned)nonce);
    return id;
}

/* It comes to an end in time, and that is honest. The host itself asks until it has the memory for a request. */
static simba_reply ask_once(simba_op op, const char *mutex, uint64_t nonce, uint64_t token, bool queue)
{
    testhost_request r = testhost_request_of(&a, op, mutex, id_of(nonce), nonce, token);
    r.request.queue = queue;
    if (op == SIMBA_OP_WRITE_NOTE) {
        r.request.note = "news";
        r.request.note_size = 4;
        r.request.note_number = 1;
    }
    a.listed_count = 0;
    do {
        r.done = false;
        testhost_submit(&a, &r);
    } while (r.unasked);
    testhost_flush(&a);
    assert_true(testhost_pump(&a, &r.done, TIMEOUT_MS));
    const int status = r.request.reply.status;
    if (status != 0 && status != SIMBA_ENOMEM && (status != SIMBA_EUNAVAILABLE || !strstr(r.error.text, "memory")))
        fail_msg("%s: %s", simba_error_name(status), r.error.text);
    return r.request.reply;
}

/* Again and again, as a contender would. */
static simba_reply insist(simba_op op, const char *mutex, uint64_t nonce, uint64_t token)
{
    for (int i = 0; i < 10; i++) {
        const simba_reply reply = ask_once(op, mutex, nonce, token, true);
        if (reply.status == 0)
            return reply;
    }
    fail_msg("it does not recover");
    return (simba_reply){0};
}

/* Once: also when it fails, it is carried out in the end. */
static void give_back(uint64_t nonce)
{
    ask_once(SIMBA_OP_RELEASE, "orders", nonce, 0, false);
}

/* --- being told --------------------------------------------------------------------------------------------- */

/* A contender was told to ask. */
static bool is_called(uint64_t nonce)
{
    for (size_t i = 0; i < a.push_count; i++)
        if (a.pushes[i].nonce == nonce && a.pushes[i].push.kind != SIMBA_PUSH_ACQUIRED)
            return true;
    return false;
}

/* Somebody who waits, or the observer with nonce 0, was told who leads; "": nobody. */
static bool is_shown(uint64_t nonce, const char *id)
{
    for (size_t i = 0; i < a.push_count; i++) {
        const testhost_push *p = &a.pushes[i];
        if (p->nonce == nonce && p->watch == (nonce ? NULL : &watched) &&
            p->push.kind == (id[0] ? SIMBA_PUSH_ACQUIRED : SIMBA_PUSH_FREED) && strcmp(p->push.owner.id, id) == 0)
            return true;
    }
    return false;
}

/* Ask, and when called again, until it leads. */
static simba_owner lead(uint64_t nonce)
{
    simba_reply reply;
    while (reply = insist(SIMBA_OP_ACQUIRE, "orders", nonce, 0), reply.outcome != SIMBA_MINE) {
        AWAIT(&a, is_called(nonce));
        a.push_count = 0;
    }
    assert_string_equal(reply.owner.id, id_of(nonce));
    return reply.owner;
}

/* --- the scenario ------------------------------------------------------------------------------------------- */

/* Somebody comes where nobody has been before, and goes. */
static void observe(void)
{
    watched = (simba_watch){.mutex = "orders"};
    for (int rc; (rc = testhost_watch(&a, &watched)) < 0;)
        assert_int_equal(rc, SIMBA_ENOMEM);
    AWAIT_WITHIN(&a, CONNECT_MS, a.push_count > 0); /* it has taken effect */
    assert_int_equal(a.pushes[0].push.kind, SIMBA_PUSH_CHANGED);
    lead(++newest);
    AWAIT(&a, is_shown(0, id_of(newest)));
    give_back(newest);
    AWAIT(&a, is_shown(0, ""));
    testhost_unwatch(&a, &watched);
}

/* Without anybody else. */
static void take_turns(void)
{
    for (int i = 0; i < TURNS; i++) {
        lead(++newest);
        give_back(newest);
    }
}

/* Without waiting for it. Whoever fails at that gives back what it may have made. */
static void try_once(const char *holder)
{
    simba_reply reply;
    while (reply = ask_once(SIMBA_OP_ACQUIRE, "orders", ++newest, 0, false), reply.status != 0)
        give_back(newest);
    assert_owned_by(reply, holder);
}

static void look(const simba_owner *holder)
{
    assert_owned_by(insist(SIMBA_OP_READ, "orders", 0, 0), holder->id);
    insist(SIMBA_OP_LIST, "ord*", 0, 0);
    assert_int_equal(a.listed_count, 1);
    assert_string_equal(a.listed[0].mutex, "orders");
    assert_string_equal(a.listed[0].owner.id, holder->id);
    assert_true(a.listed[0].waiters >= 2);
}

static void contend(void)
{
    a.push_count = 0;
    const uint64_t first = ++newest;
    const uint64_t second = ++newest;
    const uint64_t third = ++newest;
    const simba_owner holder = lead(first);
    assert_owned_by(insist(SIMBA_OP_ACQUIRE, "orders", second, 0), holder.id);
    assert_int_equal(insist(SIMBA_OP_ACQUIRE, "orders", third, 0).outcome, SIMBA_NOT_MINE);
    try_once(holder.id);
    assert_mine(insist(SIMBA_OP_RENEW, "orders", first, holder.token));
    look(&holder);
    /* A hand-over. */
    a.push_count = 0;
    give_back(first);
    AWAIT(&a, is_called(second));
    const simba_owner robbed = lead(second);
    assert_true(robbed.token > holder.token);
    testhost_advance(&a, CHORES_MS);
    assert_mine(insist(SIMBA_OP_RENEW, "orders", second, robbed.token)); /* answered after its watch is set */
    /* And one by force. */
    a.push_count = 0;
    assert_mine(insist(SIMBA_OP_FORCE_RELEASE, "orders", 0, 0));
    AWAIT(&a, is_called(second) && is_called(third));
    assert_int_equal(insist(SIMBA_OP_RENEW, "orders", second, robbed.token).outcome, SIMBA_REVOKED);
    assert_true(lead(third).token > robbed.token);
    give_back(third);
}

/* --- afterwards ---------------------------------------------------------------------------------------------- */

/* Somebody else gets it, while the first session lives, and there is nobody in the queue. */
static void assert_works(void)
{
    open_store(&b, "127.0.0.1");
    testhost_request r = testhost_request_of(&b, SIMBA_OP_ACQUIRE, "orders", "other", 1, 0);
    r.request.queue = true;
    testhost_ask(&b, &r);
    for (int i = 0; r.request.reply.outcome != SIMBA_MINE; i++) {
        assert_int_equal(r.request.reply.status, 0);
        assert_true(i < TIMEOUT_MS);
        testhost_pump(&a, NULL, 1);
        testhost_pump(&b, NULL, 1);
        if (b.push_count == 0)
            continue;
        b.push_count = 0;
        r.done = false;
        testhost_ask(&b, &r);
    }
    ask(&b, SIMBA_OP_LIST, "orders", NULL, 0, 0);
    assert_int_equal(b.listed_count, 1);
    assert_int_equal(b.listed[0].waiters, 0);
    testhost_close(&b);
}

/* With the nth allocation failing, and more after it. False: there were not so many. */
static bool play(const char *host, unsigned nth, unsigned row)
{
    newest = 0;
    round_no++;
    failing_arm(FAILING_SIMBA, nth, row);
    open_store(&a, host);
    observe();
    take_turns();
    contend();
    const bool failed = failing_disarm() > 0;
    assert_works();
    lead(++newest);
    testhost_close(&a);
    return failed;
}

/* From the nth allocation of this kind on `row` fail; then those that come after them. */
static unsigned sweep(const char *host, unsigned row)
{
    play(host, 1000000, 1); /* what is made once in a program is made now */
    const long before = failing_live(FAILING_SIMBA);
    unsigned nth = 1;
    for (; play(host, nth, row); nth += row)
        assert_int_equal(failing_live(FAILING_SIMBA), before);
    print_message("# %s: %u allocations, %u at a time\n", host, nth - 1, row);
    return nth;
}

static void one_by_one(void **state)
{
    (void)state;
    assert_true(sweep("127.0.0.1", 1) > 50);
}

static void in_rows(void **state)
{
    (void)state;
    sweep("127.0.0.1", 3);
}

/* With a name that has to be looked up. */
static void about_name(void **state)
{
    (void)state;
    sweep("localhost", 1);
}

/* A lease that is revoked takes along what it has, also without memory for that. */
static void about_close(void **state)
{
    (void)state;
    bool failed = true;
    const long before = failing_live(FAILING_SIMBA);
    for (unsigned nth = 1; failed; nth++) {
        open_store(&a, "127.0.0.1");
        lead(1);
        insist(SIMBA_OP_ACQUIRE, "orders", 2, 0);
        testhost_request r = testhost_request_of(&a, SIMBA_OP_RELEASE, "orders", id_of(1), 1, 0);
        testhost_submit(&a, &r);
        failing_arm(FAILING_SIMBA, nth, 3);
        testhost_close(&a);
        assert_true(r.done);
        failed = failing_disarm() > 0;
        open_store(&a, "127.0.0.1");
        assert_works();
        testhost_close(&a);
        assert_int_equal(failing_live(FAILING_SIMBA), before);
    }
}

/* Somebody writes a note where nobody has been before, and all is forgotten. The note is written also when the first try may
 * have written it. */
static bool play_notes(unsigned nth)
{
    newest = 0;
    round_no++;
    open_store(&a, "127.0.0.1");
    const simba_owner holder = lead(1);
    watched = (simba_watch){.mutex = "orders"};
    assert_int_equal(testhost_watch(&a, &watched), 0);
    AWAIT(&a, a.push_count > 0);
    failing_arm(FAILING_SIMBA, nth, 1);
    assert_mine(insist(SIMBA_OP_WRITE_NOTE, "orders", 1, holder.token));
    a.noted_count = 0;
    insist(SIMBA_OP_READ_NOTE, "orders", 0, 0);
    assert_true(a.noted_count > 0);
    assert_memory_equal(a.note.bytes, "news", 4);
    insist(SIMBA_OP_LIST, "orders", 0, 0);
    assert_int_equal(a.listed_count, 1);
    assert_int_equal(a.listed[0].note_length, 4);
    assert_owned_by(insist(SIMBA_OP_FORGET, "orders", 0, 0), id_of(1));
    assert_mine(insist(SIMBA_OP_RELEASE, "orders", 1, holder.token));
    assert_mine(insist(SIMBA_OP_FORGET, "orders", 0, 0));
    const bool failed = failing_disarm() > 0;
    testhost_unwatch(&a, &watched);
    testhost_close(&a);
    return failed;
}

static void about_notes(void **state)
{
    (void)state;
    play_notes(1000000);
    const long before = failing_live(FAILING_SIMBA);
    unsigned nth = 1;
    for (; play_notes(nth); nth++)
        assert_int_equal(failing_live(FAILING_SIMBA), before);
    assert_true(nth > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one),  cmocka_unit_test(in_rows),     cmocka_unit_test(about_name),
        cmocka_unit_test(about_close), cmocka_unit_test(about_notes),
    };
    failing_install();
    if (!server_has("etcd")) {
        puts("1..0 # SKIP etcd is not installed");
        return 0;
    }
    server_init(&etcd);
    const int failed = server_start_etcd(&etcd) ? cmocka_run_group_tests(tests, NULL, NULL)
                                                : (puts("Bail out! etcd does not start"), 1);
    server_fini(&etcd);
    return failed;
}
