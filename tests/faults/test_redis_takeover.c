/* How long a mutex on Redis lies idle after its holder was killed: the waiters know when the lease ends and in which order
 * they come, so the first is there as soon as the key is gone, and those before it that are dead cost little. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/process.h"
#include "lib/puppet.h"
#include "lib/referee.h"
#include "lib/server.h"

enum { WAITERS = 16, CLIENTS = 4, MOST_MS = 250 };
#define LONG_MS ref_scaled_ms(20000)

static server redis;
static redisContext *raw;
static char url[64];
static char folder[REF_FOLDER_MAX];
static simba_client *clients[CLIENTS];
static process holders[2];

/* A mutex, its holder, and when it was taken over. */
typedef struct heir {
    const char *mutex;
    simba_contender *waiters[WAITERS];
    unsigned count;
    _Atomic int64_t taken_at_ns;
    /* The lock ends between these: its rest counts from a time between the question and the answer. */
    int64_t free_from_ns, free_by_ns;
} heir;

/* A number is the answer. */
static long long ask(const char *format, const char *mutex)
{
    redisReply *reply = redisCommand(raw, format, mutex);
    assert_non_null(reply);
    const long long answer = reply->integer;
    freeReplyObject(reply);
    return answer;
}

static int setup(void **state)
{
    (void)state;
    server_init(&redis);
    assert_true(server_start_redis(&redis, NULL));
    ref_make_folder(folder);
    ref_watchdog(100);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?restart-wait=no", redis.port);
    raw = redisConnect("127.0.0.1", redis.port);
    assert_true(raw && !raw->err);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(simba_client_open(url, NULL, NULL, &clients[i]), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < CLIENTS; i++)
        simba_client_close(clients[i]);
    redisFree(raw);
    server_fini(&redis);
    ref_delete_folder(folder);
    ref_watchdog(0);
    assert_true(process_clean_up());
    return 0;
}

static void hold(process *p, const char *mutex, const char *ttl_ms, const char *transition_ms)
{
    char path[REF_FOLDER_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, mutex);
    const char *const args[] = {"--puppet", "contender", url, mutex, "-", ttl_ms, transition_ms, path, "0", NULL};
    process_start(p, args);
    process_say(p, "start");
    process_await(p, "acquired", LONG_MS);
}

static void on_acquired(simba_contender *self, const simba_state *state, void *user)
{
    (void)self;
    (void)state;
    heir *h = user;
    atomic_store(&h->taken_at_ns, score_now_ns());
}

/* In the queue, one after the other. */
static void queue_up(heir *h, unsigned count)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.on_acquired = on_acquired;
    options.user = h;
    for (h->count = 0; h->count < count; h->count++) {
        const long long queued = ask("ZCARD simba:{%s}:contender", h->mutex);
        simba_contender **waiter = &h->waiters[h->count];
        assert_int_equal(simba_contender_new(clients[h->count % CLIENTS], h->mutex, &options, NULL, waiter), 0);
        assert_int_equal(simba_contender_start(*waiter), 0);
        while (ask("ZCARD simba:{%s}:contender", h->mutex) == queued)
            usleep(1000);
    }
}

static void kill_holder(process *p, heir *h)
{
    process_signal(p, SIGKILL);
    const int64_t asked_ns = score_now_ns();
    const long long left_ms = ask("PTTL simba:{%s}", h->mutex);
    assert_true(left_ms > 0);
    h->free_from_ns = asked_ns + left_ms * INT64_C(1000000);
    h->free_by_ns = score_now_ns() + left_ms * INT64_C(1000000);
}

static void assert_taken_in_time(heir *h)
{
    assert_true(REF_WITHIN(LONG_MS, atomic_load(&h->taken_at_ns) != 0));
    const int64_t taken_ns = atomic_load(&h->taken_at_ns);
    const int64_t idle_ms = (taken_ns - h->free_by_ns) / 1000000;
    print_message("# %s was idle for %lld ms\n", h->mutex, (long long)idle_ms);
    assert_true(taken_ns > h->free_from_ns - 5000000 && idle_ms < ref_scaled_ms(MOST_MS));
    for (unsigned i = 0; i < h->count; i++)
        simba_contender_free(h->waiters[i]);
}

/* With sixteen waiters; and with one, behind fifteen that died and were not missed. */
static void killed_holder_is_replaced_at_once(void **state)
{
    (void)state;
    static heir crowd = {.mutex = "crowd"};
    static heir last = {.mutex = "last"};
    hold(&holders[0], crowd.mutex, "1000", "2000");
    hold(&holders[1], last.mutex, "1000", "2000");
    for (int i = 1; i < WAITERS; i++) {
        char command[96];
        snprintf(command, sizeof command, "ZADD simba:{%%s}:contender %lld dead-%d", (long long)time(NULL), i);
        ask(command, last.mutex);
    }
    queue_up(&crowd, WAITERS);
    queue_up(&last, 1);
    kill_holder(&holders[0], &crowd);
    kill_holder(&holders[1], &last);
    assert_taken_in_time(&crowd);
    assert_taken_in_time(&last);
}

int main(int argc, char **argv)
{
    int status;
    if (puppet_main(argc, argv, &status))
        return status;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_holder_is_replaced_at_once, setup, teardown),
    };
    if (!server_has("redis-server")) {
        puts("1..0 # SKIP redis-server is not installed");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
