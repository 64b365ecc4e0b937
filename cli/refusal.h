/* What the store refuses and waiting does not mend: a wrong password, a missing table, TLS that the server does not
 * speak. A command whose requests have never been answered ends then. Later on somebody may put it right, so the
 * command goes on trying, and is unhealthy meanwhile.
 *
 * The library logs which request was refused, and why. Its counters show that a later one was answered. */
#ifndef SIMBA_CLI_REFUSAL_H
#define SIMBA_CLI_REFUSAL_H

#include <simba.h>

/* May an error go away if the same is asked again? */
bool refusal_may_pass(int code);

/* Every record "store-failed" of the library's log comes here, on any thread. */
void refusal_note(const simba_log_record *record);

/* Does the store refuse this client's requests to contend, as far as is known? `ret_refusal` says why. */
bool refusal_is_there(simba_client *client, simba_error *ret_refusal);
/* The same, and none has ever been answered. */
bool refusal_is_final(simba_client *client, simba_error *ret_refusal);
/* The same for a client that only reads, and whose command knows whether a read was answered. */
bool refusal_of_reading(simba_error *ret_refusal);

/* Has a request to contend been answered, or failed in a way that may pass? Until then nobody knows whether the store
 * will have anything to do with this command. */
bool refusal_is_settled(simba_client *client);

#endif
