/* Leader election: of all processes that run this, one leads, and each is told when it gains or loses leadership. */
#include <inttypes.h>
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

static void on_acquired(simba_contender *self, const simba_state *state, void *user)
{
    (void)user;
    printf("%s leads, fencing token %" PRIu64 "\n", simba_contender_id(self), state->after.token);
}

/* Nobody else leads before this has returned (if the store cannot be reached: before the lease has ended). */
static void on_released(simba_contender *self, const simba_state *state, simba_reason reason, void *user)
{
    (void)state;
    (void)user;
    printf("%s leads no longer: %s\n", simba_contender_id(self), simba_reason_name(reason));
}

int main(int argc, char **argv)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_contender *contender = NULL;
    simba_error error;

    options.on_acquired = on_acquired;
    options.on_released = on_released;
    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", NULL, &error, &client) < 0 ||
        simba_contender_new(client, "orders", &options, &error, &contender) < 0) {
        fprintf(stderr, "cannot contend: %s\n", error.text);
        simba_client_close(client);
        return 1;
    }
    simba_contender_start(contender);
    sleep(1); /* a service would go about its business here */
    const int stopped = simba_contender_stop(contender);
    if (stopped < 0)
        fprintf(stderr, "the store could not be told: %s\n", simba_error_text(stopped));
    simba_contender_free(contender);
    simba_client_close(client);
    return stopped < 0;
}
