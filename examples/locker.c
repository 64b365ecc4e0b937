/* A blocking lock: at most one of all the processes that run this, on any machine, is inside at a time. */
#include <inttypes.h>
#include <simba.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    simba_client *client = NULL;
    simba_locker *lock = NULL;
    simba_error error;
    int failed = 1;

    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", NULL, &error, &client) < 0 ||
        simba_locker_new(client, "nightly-report", NULL, &error, &lock) < 0) {
        fprintf(stderr, "cannot use the store: %s\n", error.text);
    } else if (simba_locker_acquire(lock, 5000, &error) < 0) { /* wait for at most five seconds */
        fprintf(stderr, "another process is at it: %s\n", error.text);
    } else {
        /* Give the token to the resource that you write to: it can then refuse a late writer. */
        printf("locked, fencing token %" PRIu64 "\n", simba_locker_token(lock));

        /* ... the work; the lease is renewed meanwhile. Before a step that must not happen twice: */
        if (simba_locker_held_for_ms(lock) > 0)
            printf("still locked, and will be for some time\n");

        if (simba_locker_release(lock, &error) < 0)
            fprintf(stderr, "lost before the end: %s\n", error.text);
        else
            failed = 0;
    }
    simba_locker_free(lock);
    simba_client_close(client);
    return failed;
}
