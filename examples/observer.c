/* See who owns a mutex without wanting it: for dashboards, and for clients that look for the leader. */
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

static void on_changed(simba_observer *observer, const simba_state *state, void *user)
{
    (void)user;
    printf("%s: %s -> %s\n", simba_observer_mutex(observer),
           simba_owner_is_none(&state->before) ? "nobody" : state->before.id,
           simba_owner_is_none(&state->after) ? "nobody" : state->after.id);
}

/* Something to see: an owner for a second. */
static int own_it_briefly(simba_client *client, simba_error *error)
{
    SIMBA_LOCKER_SCOPED simba_locker *lock = NULL; /* released and freed when this function returns */
    if (simba_locker_new(client, "orders", NULL, error, &lock) < 0 || simba_locker_acquire(lock, 5000, error) < 0)
        return -1;
    sleep(1);
    return 0;
}

int main(int argc, char **argv)
{
    simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_observer *observer = NULL;
    simba_error error;

    options.on_changed = on_changed;
    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", NULL, &error, &client) < 0 ||
        simba_observer_new(client, "orders", &options, &error, &observer) < 0) {
        fprintf(stderr, "cannot observe: %s\n", error.text);
        simba_client_close(client);
        return 1;
    }
    simba_observer_start(observer);
    const int failed = own_it_briefly(client, &error) < 0;
    if (failed)
        fprintf(stderr, "cannot lock: %s\n", error.text);
    sleep(1); /* the observer learns that it is free again */
    simba_observer_free(observer);
    simba_client_close(client);
    return failed;
}
