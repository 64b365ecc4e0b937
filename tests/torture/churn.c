/* churn URL: contenders come and go, clients open and close, mutexes are made and forgotten, until SIGTERM. Beside them a client stays
 * open, with contenders that wait and lead all the time. tests/torture/churn looks at what this process and the store come to have.
 *
 * It prints how many rounds it has made, at the end. A round opens a client and closes it. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "simba.h"

#define ROUND_MS 100
#define STANDING 20   /* contenders of the client that stays, one for each of the first mutexes */
#define MUTEXES 100   /* in use; a store keeps something for each of them */
#define TRANSIENT 6   /* contenders of a round */
#define LOCKED 4      /* mutexes that a round locks */
#define OBSERVED 2    /* and watches */
#define FORGOTTEN 2   /* and has the store forget */
#define ACQUIRE_MS 50 /* most of them are somebody's */

static volatile sig_atomic_t is_over;
static unsigned long failures[64]; /* by code */

static void on_term(int number)
{
    (void)number;
    is_over = 1;
}

static void must(int code, const simba_error *err, const char *what)
{
    if (code >= 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, simba_error_name(code), err->text);
    exit(1);
}

/* A call that the work of others may make fail. */
static void may(int code)
{
    if (code < 0 && -code < (int)(sizeof failures / sizeof *failures))
        failures[-code]++;
}

static const char *draw_mutex(void)
{
    static char name[32];
    snprintf(name, sizeof name, "churn-%d", rand() % MUTEXES); // NOLINT(cert-msc30-c,cert-msc50-cpp): any will do
    return name;
}

static simba_contender *start_contender(simba_client *client, const char *mutex)
{
    simba_error err = {0};
    simba_contender *contender = NULL;
    must(simba_contender_new(client, mutex, NULL, &err, &contender), &err, "contender");
    must(simba_contender_start(contender), &err, "start");
    return contender;
}

static void on_changed(simba_observer *observer, const simba_state *state, void *user)
{
    (void)observer;
    (void)state;
    (void)user;
}

static simba_observer *start_observer(simba_client *client)
{
    simba_error err = {0};
    simba_observer *observer = NULL;
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    options.on_changed = on_changed;
    must(simba_observer_new(client, draw_mutex(), &options, &err, &observer), &err, "observer");
    must(simba_observer_start(observer), &err, "start");
    return observer;
}

static void lock_something(simba_client *client)
{
    simba_error err = {0};
    simba_locker *lock = NULL;
    must(simba_locker_new(client, draw_mutex(), NULL, &err, &lock), &err, "locker");
    const int code = simba_locker_acquire(lock, ACQUIRE_MS, NULL);
    may(code);
    if (code == 0) {
        may(simba_locker_note_set(lock, "churn", 5, NULL));
        may(simba_locker_release(lock, NULL));
    }
    simba_locker_free(lock);
}

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = ROUND_MS * 1000000L};
    nanosleep(&pause, NULL);
}

static void make_round(const char *url)
{
    simba_error err = {0};
    simba_client *client = NULL;
    simba_contender *contenders[TRANSIENT];
    simba_observer *observers[OBSERVED];
    must(simba_client_open(url, NULL, &err, &client), &err, "open");
    for (int i = 0; i < TRANSIENT; i++)
        contenders[i] = start_contender(client, draw_mutex());
    for (int i = 0; i < OBSERVED; i++)
        observers[i] = start_observer(client);
    for (int i = 0; i < LOCKED; i++)
        lock_something(client);
    for (int i = 0; i < FORGOTTEN; i++)
        may(simba_client_forget(client, draw_mutex(), NULL)); /* not those that somebody has */
    rest();
    for (int i = 0; i < TRANSIENT / 2; i++) /* the others are stopped by close */
        may(simba_contender_stop(contenders[i]));
    may(simba_client_close(client));
    for (int i = 0; i < TRANSIENT; i++)
        simba_contender_free(contenders[i]);
    for (int i = 0; i < OBSERVED; i++)
        simba_observer_free(observers[i]);
}

int main(int argc, char **argv)
{
    simba_error err = {0};
    simba_client *client = NULL;
    simba_contender *standing[STANDING];
    unsigned long rounds = 0;
    if (argc != 2) {
        fputs("usage: churn URL\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    must(simba_client_open(argv[1], NULL, &err, &client), &err, "open");
    must(simba_client_prepare(client, &err), &err, "prepare");
    for (int i = 0; i < STANDING; i++) {
        char name[32];
        snprintf(name, sizeof name, "churn-%d", i);
        standing[i] = start_contender(client, name);
    }
    for (; !is_over; rounds++)
        make_round(argv[1]);
    for (int i = 0; i < STANDING; i++)
        simba_contender_free(standing[i]);
    must(simba_client_close(client), &err, "close");
    printf("rounds %lu\n", rounds);
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i] > 0)
            printf("%s %lu\n", simba_error_name(-(int)i), failures[i]);
    return 0;
}
