/* One epoll for any number of threads: what is told to whom, and how often. */
#include "net/reactor.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/cm.h"
#include "util/clock.h"

enum { SOON_MS = 2000, MINUTE_MS = 60000, CROWD = 80 };

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

static simba__arrivals wait_ms(int ms)
{
    return simba__reactor_wait(&reactor, &reactor.threads, ms);
}

static void take(int ms)
{
    const simba__arrivals arrivals = wait_ms(ms);
    simba__reactor_take(&reactor, &arrivals);
}

static int setup(void **state)
{
    (void)state;
    return simba__reactor_init(&reactor, false, NULL);
}

static int setup_with_loop(void **state)
{
    (void)state;
    return simba__reactor_init(&reactor, true, NULL);
}

static int teardown(void **state)
{
    (void)state;
    simba__reactor_fini(&reactor);
    return 0;
}

static void a_change_is_told_once(void **state)
{
    (void)state;
    line l = line_of(SIMBA_READABLE);
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    take(0);
    assert_int_equal(l.told, 0);
    say(&l);
    take(SOON_MS);
    assert_int_equal(l.told, 1);
    assert_int_equal(l.events, SIMBA_READABLE);
    take(0); /* nothing was read, and nothing more has come */
    assert_int_equal(l.told, 1);
    say(&l);
    take(SOON_MS);
    assert_int_equal(l.told, 2);
    cut(&l);
}

static void what_is_there_already_is_told(void **state)
{
    (void)state;
    line l = line_of(SIMBA_READABLE);
    say(&l);
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    take(0);
    assert_int_equal(l.told, 1);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_READABLE), 0); /* once more, please */
    take(0);
    assert_int_equal(l.told, 2);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_READABLE | SIMBA_WRITABLE), 0);
    take(0);
    assert_int_equal(l.events, SIMBA_READABLE | SIMBA_WRITABLE);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_WRITABLE), 0);
    take(0);
    assert_int_equal(l.events, SIMBA_WRITABLE);
    cut(&l);
}

/* Whatever somebody waits for: when the other end is gone, that has come about. */
static void trouble_is_told_to_all(void **state)
{
    (void)state;
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

/* Who asks for it hears with the last bytes that no more will come, and another time if the end comes later. */
static void the_end_is_told_with_the_last_bytes(void **state)
{
    (void)state;
    line both = line_of(SIMBA_READABLE | SIMBA_ENDED);
    line later = line_of(SIMBA_READABLE | SIMBA_ENDED);
    assert_int_equal(simba__reactor_add(&reactor, &both.io), 0);
    assert_int_equal(simba__reactor_add(&reactor, &later.io), 0);
    say(&both);
    say(&later);
    assert_int_equal(shutdown(both.other, SHUT_WR), 0);
    take(SOON_MS);
    assert_int_equal(both.events, SIMBA_READABLE | SIMBA_ENDED);
    assert_int_equal(later.events, SIMBA_READABLE);
    assert_int_equal(shutdown(later.other, SHUT_WR), 0);
    take(SOON_MS);
    assert_int_equal(later.events, SIMBA_READABLE | SIMBA_ENDED);
    both.events = later.events = 0;
    simba__reactor_look(&reactor);
    assert_int_equal(both.events, SIMBA_READABLE | SIMBA_ENDED);
    assert_int_equal(later.events, SIMBA_READABLE | SIMBA_ENDED);
    cut(&both);
    cut(&later);
}

/* Between the report and the taking of it the io may have gone, memory and all. */
static void who_is_gone_is_not_told(void **state)
{
    (void)state;
    line *l = malloc(sizeof *l);
    *l = line_of(SIMBA_READABLE);
    assert_int_equal(simba__reactor_add(&reactor, &l->io), 0);
    say(l);
    const simba__arrivals arrivals = wait_ms(SOON_MS);
    assert_int_equal(arrivals.count, 1);
    cut(l);
    free(l);
    simba__reactor_take(&reactor, &arrivals);

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

/* Who does not want to hear of it any more is not told what another thread was about to tell. */
static void a_change_of_mind_comes_first(void **state)
{
    (void)state;
    line l = line_of(SIMBA_WRITABLE);
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    const simba__arrivals arrivals = wait_ms(SOON_MS);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_READABLE), 0);
    simba__reactor_take(&reactor, &arrivals);
    assert_int_equal(l.told, 0);
    cut(&l);
}

/* Whoever was told of it and has not come to read it yet: a look finds it. */
static void a_look_finds_what_others_were_told(void **state)
{
    (void)state;
    static line crowd[CROWD];
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = line_of(SIMBA_READABLE);
        assert_int_equal(simba__reactor_add(&reactor, &crowd[i].io), 0);
        say(&crowd[i]);
    }
    for (simba__arrivals lost = wait_ms(0); lost.any; lost = wait_ms(0))
        ;
    crowd[CROWD / 2].removes = &crowd[0]; /* the list is another one from then on */
    simba__reactor_look(&reactor);
    for (size_t i = 1; i < CROWD; i++)
        assert_int_equal(crowd[i].told, 1);
    simba__reactor_look(&reactor);
    assert_int_equal(crowd[1].told, 2);
    for (size_t i = 0; i < CROWD; i++)
        cut(&crowd[i]);
}

static simba_local in_ms(int64_t ms)
{
    return (simba_local){simba__clock_boot().ns + ms * SIMBA__NS_PER_MS};
}

/* The timer goes off at the earliest time that was asked for, and every thread that waits is told until one has taken it. */
static void the_timer_goes_off_for_all(void **state)
{
    (void)state;
    assert_true(simba__reactor_arm(&reactor, in_ms(60000)));
    assert_true(simba__reactor_arm(&reactor, in_ms(500)));
    assert_true(simba__reactor_arm(&reactor, in_ms(30000))); /* the earlier one stays */
    assert_false(wait_ms(0).timer);
    simba__arrivals arrivals = wait_ms(SOON_MS);
    assert_true(arrivals.timer);
    assert_true(wait_ms(0).timer); /* also for another thread */
    simba__reactor_take(&reactor, &arrivals);
    assert_false(wait_ms(0).any);
    simba__reactor_take(&reactor, &arrivals); /* the other thread comes too late */
    assert_true(simba__reactor_arm(&reactor, in_ms(1)));
    assert_true(wait_ms(SOON_MS).timer);
    /* What is overdue since long goes off at once. */
    simba__reactor_take(&reactor, &arrivals);
    assert_true(simba__reactor_arm(&reactor, (simba_local){0}));
    assert_true(wait_ms(SOON_MS).timer);
}

/* A thread that comes too late for a timer leaves alone what was set after it. */
static void who_comes_late_disarms_nothing(void **state)
{
    (void)state;
    const simba__arrivals stale = {.timer = true, .any = true};
    const simba_local at = in_ms(60000);
    assert_true(simba__reactor_arm(&reactor, at));
    simba__reactor_take(&reactor, &stale);
    assert_int_equal(reactor.armed.ns, at.ns);
}

static void the_bell_rings_until_it_is_hushed(void **state)
{
    (void)state;
    assert_false(wait_ms(0).bell);
    simba__waitset_ring(&reactor.threads);
    simba__waitset_ring(&reactor.threads);
    assert_true(wait_ms(0).bell);
    assert_true(wait_ms(0).bell);
    reactor.threads.rung = true;
    simba__waitset_hush(&reactor.threads);
    assert_false(reactor.threads.rung);
    assert_false(wait_ms(0).any);
}

/* Whoever calls the loop does not wake the threads, and the other way round: each would be busy until the other one came. */
static void each_has_a_bell_of_its_own(void **state)
{
    (void)state;
    simba__waitset_ring(&reactor.threads);
    assert_false(simba__reactor_wait(&reactor, &reactor.loop, 0).any);
    assert_true(wait_ms(0).bell);
    simba__waitset_hush(&reactor.threads);
    simba__waitset_ring(&reactor.loop);
    assert_false(wait_ms(0).any);
    assert_true(simba__reactor_wait(&reactor, &reactor.loop, 0).bell);
    assert_true(is_readable(reactor.loop.set));
    simba__waitset_hush(&reactor.loop);
    assert_false(is_readable(reactor.loop.set));
}

/* The loop finds what the threads find, as long as nobody has dealt with it, and a change is told once. */
static void a_loop_finds_the_same(void **state)
{
    (void)state;
    line l = line_of(SIMBA_READABLE);
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    assert_false(is_readable(reactor.loop.set));
    say(&l);
    assert_int_equal(wait_ms(0).count, 1); /* by a thread that is held up then */
    assert_true(is_readable(reactor.loop.set));
    const simba__arrivals found = simba__reactor_wait(&reactor, &reactor.loop, 0);
    simba__reactor_take(&reactor, &found);
    assert_int_equal(l.told, 1);
    assert_false(is_readable(reactor.loop.set));
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_WRITABLE), 0);
    assert_true(is_readable(reactor.loop.set));
    assert_int_equal(simba__reactor_wait(&reactor, &reactor.loop, 0).ios[0].events, SIMBA_WRITABLE);
    assert_int_equal(simba__reactor_change(&reactor, &l.io, SIMBA_READABLE), 0);
    assert_true(is_readable(reactor.loop.set));
    char byte;
    assert_int_equal(read(l.io.fd, &byte, 1), 1); /* somebody else did */
    assert_false(is_readable(reactor.loop.set));
    assert_true(simba__reactor_arm(&reactor, in_ms(0)));
    assert_true(is_readable(reactor.loop.set));
    const simba__arrivals timer = simba__reactor_wait(&reactor, &reactor.loop, 0);
    assert_true(timer.timer);
    simba__reactor_take(&reactor, &timer);
    assert_false(is_readable(reactor.loop.set));
    simba__reactor_remove(&reactor, &l.io);
    say(&l);
    assert_false(is_readable(reactor.loop.set));
    cut(&l);
}

/* How many bring answers is known: whoever waits for one waits here only then. */
static void answers_are_counted(void **state)
{
    (void)state;
    line l = line_of(SIMBA_READABLE);
    l.io.answers = true;
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    assert_int_equal(reactor.answering, 1);
    simba__reactor_remove(&reactor, &l.io);
    simba__reactor_remove(&reactor, &l.io); /* does nothing */
    assert_int_equal(reactor.answering, 0);
    cut(&l);
}

/* Does this thread wait at an epoll? The number of the system call that a thread is in stands first, or a word if it runs. */
static bool sleeps(pid_t thread)
{
    char path[64];
    char text[128] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    const long number = length > 0 && text[0] != 'r' ? strtol(text, NULL, 10) : -1;
    return number == SYS_epoll_pwait || number == SYS_epoll_pwait2
#ifdef SYS_epoll_wait
           || number == SYS_epoll_wait
#endif
        ;
}

typedef struct sleeper {
    pthread_t thread;
    _Atomic pid_t id;
    bool told;
} sleeper;

static void *sleep_and_say(void *arg)
{
    sleeper *s = arg;
    s->id = gettid();
    s->told = wait_ms(MINUTE_MS).count > 0;
    return NULL;
}

/* The thread that came last is the one that is told, and the other sleeps on: that is why one who waits for an answer reads
 * it without help. */
static void who_came_last_is_told(void **state)
{
    (void)state;
    line l = line_of(SIMBA_READABLE);
    sleeper sleepers[2] = {0};
    assert_int_equal(simba__reactor_add(&reactor, &l.io), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&sleepers[i].thread, NULL, sleep_and_say, &sleepers[i]), 0);
        for (int tries = 0; tries < MINUTE_MS && !(sleepers[i].id && sleeps(sleepers[i].id)); tries++)
            usleep(1000);
    }
    say(&l);
    pthread_join(sleepers[1].thread, NULL);
    assert_true(sleepers[1].told);
    say(&l); /* now it is the other's turn */
    pthread_join(sleepers[0].thread, NULL);
    assert_true(sleepers[0].told);
    cut(&l);
}

/* The clock that goes on while the machine sleeps. */
static void the_timer_counts_sleep(void **state)
{
    (void)state;
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
    (void)state;
    const int fds[] = {reactor.threads.set, reactor.threads.bell, reactor.loop.set, reactor.loop.bell, reactor.timer};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_there_already_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(trouble_is_told_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_is_told_with_the_last_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_gone_is_not_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_of_mind_comes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_look_finds_what_others_were_told, setup, teardown),
        cmocka_unit_test_setup_teardown(the_timer_goes_off_for_all, setup, teardown),
        cmocka_unit_test_setup_teardown(who_comes_late_disarms_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_bell_rings_until_it_is_hushed, setup, teardown),
        cmocka_unit_test_setup_teardown(each_has_a_bell_of_its_own, setup_with_loop, teardown),
        cmocka_unit_test_setup_teardown(a_loop_finds_the_same, setup_with_loop, teardown),
        cmocka_unit_test_setup_teardown(answers_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(who_came_last_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(the_timer_counts_sleep, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors_are_closed_on_exec, setup_with_loop, teardown),
    };
    return cmocka_run_group_tests_name("reactor", tests, NULL, NULL);
}
