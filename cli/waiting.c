/* See waiting.h. */
#include "waiting.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

waiting_words waiting_words_for(const char *command, const char *mutex)
{
    return (waiting_words){.command = command, .mutex = mutex, .at_terminal = isatty(STDERR_FILENO) == 1};
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
    cli_say(words->command, "waiting for %s, which is owned by %s%s.", words->mutex, owner->id, rest);
}

void waiting_say_owner(waiting_words *words, simba_contender *contender)
{
    simba_owner owner;
    if (simba_contender_owner(contender, &owner) == 0)
        waiting_say(words, &owner, simba_contender_owner_left_ms(contender));
}

void outage_look(outage_words *words, int64_t left_ms, int64_t held_ms)
{
    const bool worried = held_ms > 0 && left_ms <= words->worry_ms;
    if (worried == words->said || held_ms <= 0)
        return;
    words->said = worried;
    if (!worried) {
        cli_say(words->command, "the lease of %s was renewed.", words->mutex);
        return;
    }
    cli_show_warnings(true); /* the reason, if the library knows one */
    cli_say(words->command, "warning: the lease of %s cannot be renewed; %s in %.1f s unless the store answers.",
            words->mutex, words->consequence, (double)held_ms / 1e3);
}
