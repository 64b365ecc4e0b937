/* See waiting.h. */
#include "waiting.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

waiting_words waiting_words_for(const char *command, const char *mutex, const cli_globals *globals)
{
    const bool at_terminal = globals->verbose == 0 && isatty(STDERR_FILENO) == 1;
    return (waiting_words){.command = command, .mutex = mutex, .at_terminal = at_terminal};
}

void waiting_say(waiting_words *words, const simba_owner *owner, int64_t left_ms)
{
    const bool told = owner->token == words->told.token && strcmp(owner->id, words->told.id) == 0;
    if (!words->at_terminal || simba_owner_is_none(owner) || told)
        return;
    words->told = *owner;
    char rest[64] = "";
    if (left_ms > 0 && left_ms <= SIMBA_LEASE_MAX_MS)
        snprintf(rest, sizeof rest, " for another %.1f s unless renewed", (double)left_ms / 1e3);
    cli_inform(words->command, "waiting for %s, which is owned by %s%s.", words->mutex, owner->id, rest);
}

outage_words outage_words_for(const char *command, const char *mutex, const char *consequence,
                              const cli_globals *globals)
{
    return (outage_words){
        .command = command, .mutex = mutex, .consequence = consequence, .verbose = globals->verbose > 0};
}

void outage_look(outage_words *words, const simba_lease *lease)
{
    if (lease->held_for_ms <= 0 || lease->overdue == words->said)
        return;
    words->said = lease->overdue;
    if (lease->overdue) {
        cli_show_warnings(true); /* the reason, if the library knows one */
        cli_warn(words->command, "the lease of %s cannot be renewed; %s in %.1f s unless the store answers.",
                 words->mutex, words->consequence, (double)lease->held_for_ms / 1e3);
    } else if (!words->verbose) {
        cli_inform(words->command, "the lease of %s was renewed.", words->mutex);
    }
}
