/* One epoll, one timer and a wakeup descriptor: what is told to whom, and how often. */
#include "net/reactor.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/cm.h"
#include "util/clock.h"

enum { SOON_MS = 2000 };

/* One end of a connection, and what it was told. */
typedef struct line {
    simba_io io;
    int other;
    unsigned told;
    unsigned events;
    struct line *removes; /* when it is told */
} line;

static simba__reactor reactor;

static void on_ready(simba_io *io, unsigned events)
{
    line *l = (line *)(void *)io;
    l->told++;
    l->events = events;
    if (l->removes)
        simba__reactor_remove(&reactor, &l->removes->io);
}

static line line_of(unsigned interest)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    return (line){.io = {.ready = on_ready, .fd = ends[0], .interest = interest}, .other = ends[1]};
}

static void cut(line *l)
{
    simba__reactor_remove(&reactor, &l->io);
    close(l->io.fd);
    if (l->other >= 0)
        close(l->other);
}

static void say(const line *l)
{
    assert_int_equal(write(l->other, "x", 1), 1);
}

static bool is_readable(int fd)
{
    struct pollfd at = {.fd = fd, .events = POLLIN};
    return poll(&at, 1, 0) == 1;
}

/* Wait for so long at most, and tell. True: the timer has fired. */
static bool take(int ms)
{
    simba__reactor_wait(&reactor, ms);
    return simba__reactor_take(&reactor);
}

static int setup(void **state)
{
    return simba__reactor_init(&reactor, false, NULL);
}

static int setup_with_loop(void **state)
{
    return simba__reactor_init(&reactor, true, NULL);
}

static int teardown(void **state)
{
    simba__reactor_fini(&reactor);
    return 0;
}

/* Nothing is lost if a reader leaves bytes for later. */
static void what_lasts_is_told_again(void **state)
{
    line l = line_of(SIMBA_READABLE);
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    take(0);
    assert_int_equal(l.told, 0);
    say(&l);
    take(SOON_MS);
    assert_int_equal(l.told, 1);
    assert_int_equal(l.events, SIMBA_READABLE);
    take(0);
    assert_int_equal(l.told, 2);
    char byte;
    assert_int_equal(read(l.io.fd, &byte, 1), 1);
    take(0);
    assert_int_equal(l.told, 2);
    cut(&l);
}

static void only_what_is_of_interest_is_told(void **state)
{
    line l = line_of(SIMBA_READABLE);
    say(&l);
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    take(0);
    assert_int_equal(l.told, 1);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_READABLE | SIMBA_WRITABLE), 0);
    take(0);
    assert_int_equal(l.events, SIMBA_READABLE | SIMBA_WRITABLE);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_WRITABLE), 0);
    take(0);
    assert_int_equal(l.events, SIMBA_WRITABLE);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, 0), 0);
    l.told = 0;
    take(0);
    assert_int_equal(l.told, 0);
    cut(&l);
}

/* Whatever somebody waits for: when the other end is gone, that has come about. */
static void trouble_is_told_to_all(void **state)
{
    line reads = line_of(SIMBA_READABLE);
    line writes = line_of(SIMBA_WRITABLE);
    assert_int_equal(simba__reactor_add(&reactor, &reads.io), 0);
    assert_int_equal(simba__reactor_add(&reactor, &writes.io), 0);
    take(0);
    assert_int_equal(writes.told, 1);
    line *const lines[] = {&reads, &writes};
    for (size_t i = 0; i < 2; i++) {
        close(lines[i]->other);
        lines[i]->other = -1;
    }
    take(SOON_MS);
    assert_int_equal(reads.events, SIMBA_READABLE);
    assert_int_equal(writes.told, 2);
    cut(&reads);
    cut(&writes);
}

/* One that is told may remove another that would be told next, memory and all. */
static void who_is_gone_is_not_told(void **state)
{
    line first = line_of(SIMBA_READABLE);
    line second = line_of(SIMBA_READABLE);
    first.removes = &second;
    second.removes = &first;
    assert_int_equal(simba__reactor_add(&reactor, &first.io), 0);
    assert_int_equal(simba__reactor_add(&reactor, &second.io), 0);
    say(&first);
    say(&second);
    take(SOON_MS);
    assert_int_equal(first.told + second.told, 1);
    cut(&first);
    cut(&second);
}

static simba_local in_ms(int64_t ms)
{
    return (simba_local){simba__clock_boot().ns + ms * SIMBA__NS_PER_MS};
}

/* The timer goes off at the earliest time that was asked for, once. */
static void the_timer_goes_off(void **state)
{
    assert_true(simba__reactor_arm(&reactor, in_ms(60000)));
    assert_true(simba__reactor_arm(&reactor, in_ms(500)));
    assert_true(simba__reactor_arm(&reactor, in_ms(30000))); /* the earlier one stays */
    assert_false(take(0));
    assert_true(take(SOON_MS));
    assert_false(take(0));
    assert_true(simba__reactor_arm(&reactor, in_ms(1))); /* it can be set again */
    assert_true(take(SOON_MS));
    assert_true(simba__reactor_arm(&reactor, (simba_local){0})); /* what is overdue since long goes off at once */
    assert_true(take(SOON_MS));
}

/* It ends one wait, also one that has not begun. */
static void a_wakeup_ends_a_wait(void **state)
{
    simba__wakeup_raise(reactor.wakeup);
    simba__wakeup_raise(reactor.wakeup);
    assert_false(take(1 << 30));
    const simba_local from = simba__clock_boot();
    assert_false(take(20));
    assert_true(simba__clock_boot().ns - from.ns >= 19 * SIMBA__NS_PER_MS);
}

/* Waking the loop does not wake the client's thread, and the other way round: each would be busy until the other came. */
static void each_has_its_own_wakeup(void **state)
{
    simba__wakeup_raise(reactor.wakeup);
    assert_false(is_readable(reactor.loop_set));
    simba__wakeup_clear(reactor.wakeup);
    simba__wakeup_raise(reactor.loop_wakeup);
    assert_false(is_readable(reactor.wakeup));
    assert_true(is_readable(reactor.loop_set));
    simba__wakeup_clear(reactor.loop_wakeup);
    assert_false(is_readable(reactor.loop_set));
}

/* The application's descriptor is readable as long as a descriptor of the store or the timer is. */
static void a_loop_finds_the_same(void **state)
{
    line l = line_of(SIMBA_READABLE);
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    assert_false(is_readable(reactor.loop_set));
    say(&l);
    assert_true(is_readable(reactor.loop_set));
    take(0);
    assert_int_equal(l.told, 1);
    assert_true(is_readable(reactor.loop_set)); /* nobody has read it */
    char byte;
    assert_int_equal(read(l.io.fd, &byte, 1), 1);
    assert_false(is_readable(reactor.loop_set));
    assert_true(simba__reactor_arm(&reactor, in_ms(0)));
    assert_true(is_readable(reactor.loop_set));
    assert_true(take(0));
    assert_false(is_readable(reactor.loop_set));
    simba__reactor_remove(&reactor, &l.io);
    say(&l);
    assert_false(is_readable(reactor.loop_set));
    cut(&l);
}

/* The clock that goes on while the machine sleeps. */
static void the_timer_counts_sleep(void **state)
{
    char path[64];
    char line_[64];
    int clock = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", reactor.timer);
    FILE *info = fopen(path, "re");
    assert_non_null(info);
    while (fgets(line_, sizeof line_, info))
        sscanf(line_, "clockid: %d", &clock); // NOLINT(cert-err34-c)
    fclose(info);
    assert_int_equal(clock, CLOCK_BOOTTIME);
}

static void descriptors_are_closed_on_exec(void **state)
{
    const int fds[] = {reactor.set, reactor.wakeup, reactor.loop_set, reactor.loop_wakeup, reactor.timer};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_lasts_is_told_again, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_is_of_interest_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(trouble_is_told_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_gone_is_not_told, setup, teardown),
        cmocka_unit_test_setup_teardown(the_timer_goes_off, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wakeup_ends_a_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(each_has_its_own_wakeup, setup_with_loop, teardown),
        cmocka_unit_test_setup_teardown(a_loop_finds_the_same, setup_with_loop, teardown),
        cmocka_unit_test_setup_teardown(the_timer_counts_sleep, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors_are_closed_on_exec, setup_with_loop, teardown),
    };
    return cmocka_run_group_tests_name("reactor", tests, NULL, NULL);
}
