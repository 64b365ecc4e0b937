/* A job that survives its leader: a run leaves a checkpoint in the note of the mutex, and the next leader goes on from
 * there. Here an administrator takes the mutex away from the first leader in the middle of its run, as if its machine had died.
 * The second leader is told that the run was cut short, and does the rest of it. */
#include <inttypes.h>
#include <simba.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ITEMS = 6 };

static atomic_int done; /* how many items both have done */
static atomic_bool finished;

/* Items 1 to `ITEMS`, one after the other, each of them once. */
static void bill_customers(simba_run *run, void *user)
{
    const char *name = user;
    simba_note note = SIMBA_NOTE_INIT;
    simba_error error;
    char text[16];

    if (simba_run_note(run, &error, &note) < 0) {
        fprintf(stderr, "%s: %s\n", name, error.text);
        simba_run_finish(run, 1);
        return;
    }
    int item = atoi(note.bytes); /* the last one that was done; 0 without a note */
    printf("%s: due at %" PRId64 "%s, from item %d on\n", name, simba_run_due_at_ms(run),
           simba_run_cut_short(run) ? ", cut short before" : "", item + 1);
    while (item < ITEMS && !simba_run_sleep(run, 20)) {
        item++;
        const int length = snprintf(text, sizeof text, "%d", item);
        /* The store refuses this if another process leads by now, so its progress is not overwritten. */
        if (simba_run_note_set(run, text, (size_t)length, &error) < 0)
            return; /* not finished: cut short */
        printf("%s: item %d\n", name, item);
        atomic_fetch_add(&done, 1);
    }
    if (item == ITEMS) {
        (void)simba_run_note_set(run, "", 0, &error); /* the next run begins with the first item */
        simba_run_finish(run, 0);
        atomic_store(&finished, true);
    }
}

static simba_scheduler *schedule(simba_client *client, char *name)
{
    simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_scheduler *scheduler = NULL;
    simba_error error;

    options.id = name;
    options.schedule = SIMBA_SCHEDULE_INTERVAL;
    options.period_ms = 24 * 60 * 60 * 1000;
    options.guarantee = SIMBA_AT_LEAST_ONCE; /* a run that was cut short is run again */
    options.work = bill_customers;
    options.user = name;
    if (simba_scheduler_new(client, "billing", &options, &error, &scheduler) < 0) {
        fprintf(stderr, "cannot schedule: %s\n", error.text);
        exit(1);
    }
    simba_scheduler_start(scheduler);
    return scheduler;
}

int main(int argc, char **argv)
{
    static char first[] = "first";
    static char second[] = "second";
    simba_client *client = NULL;
    simba_error error;

    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", NULL, &error, &client) < 0) {
        fprintf(stderr, "cannot open: %s\n", error.text);
        return 1;
    }
    simba_scheduler *one = schedule(client, first);
    while (atomic_load(&done) < 3)
        usleep(1000);
    simba_client_force_release(client, "billing", NULL);
    simba_scheduler_free(one);
    simba_scheduler *two = schedule(client, second);
    while (!atomic_load(&finished))
        usleep(1000);
    simba_scheduler_free(two);
    simba_client_close(client);
    return 0;
}
