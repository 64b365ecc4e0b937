/* The environment that tells a command about its lease, and the messages about how it ended. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child/child.h"
#include "cli.h"
#include "health/notify.h"
#include "secret.h"

/* --- before ------------------------------------------------------------------------------------- */

#define OWN_VARIABLES 9

static const char *const own_names[OWN_VARIABLES] = {
    "SIMBA_MUTEX=",     "SIMBA_TOKEN=", "SIMBA_ID=",     "SIMBA_REASON=",   "SIMBA_NOTE=",
    "SIMBA_NOTE_FILE=", "SIMBA_DUE=",   "SIMBA_MISSED=", "SIMBA_CUT_SHORT="};

static bool is_own(const char *variable)
{
    for (size_t i = 0; i < OWN_VARIABLES; i++) {
        if (strncmp(variable, own_names[i], strlen(own_names[i])) == 0)
            return true;
    }
    return false;
}

/* Does the variable hold the password of the store? A URL does not count: the command gets it without its password. */
static bool is_password(const cli_globals *globals, const char *variable)
{
    const char *const names[] = {"SIMBA_PASSWORD", globals->password_variable};
    for (size_t i = 0; i < 2 && !globals->keep_password; i++) {
        const size_t length = names[i] != NULL ? strlen(names[i]) : 0;
        if (length > 0 && strncmp(variable, names[i], length) == 0 && variable[length] == '=')
            return true;
    }
    return false;
}

static bool is_url(const char *variable)
{
    return strncmp(variable, "SIMBA_URL=", strlen("SIMBA_URL=")) == 0;
}

/* How much text of our own follows the array. */
static size_t measure(const char *const values[OWN_VARIABLES])
{
    size_t room = 0;
    for (size_t i = 0; i < OWN_VARIABLES; i++)
        room += values[i] != NULL ? strlen(own_names[i]) + strlen(values[i]) + 1 : 0;
    for (char **variable = environ; *variable != NULL; variable++)
        room += is_url(*variable) ? strlen(*variable) + 1 : 0;
    return room;
}

/* One block: the array, followed by our strings. */
char **child_environment(const cli_globals *globals, const child_lease *lease)
{
    char number[32];
    const char *text_of_note = lease->note != NULL ? lease->note->text : NULL;
    const char *file_of_note = lease->note != NULL && lease->note->path[0] != '\0' ? lease->note->path : NULL;
    const char *const values[OWN_VARIABLES] = {lease->mutex, number,     lease->id,     lease->reason,   text_of_note,
                                               file_of_note, lease->due, lease->missed, lease->cut_short};
    size_t count = 0;
    snprintf(number, sizeof number, "%" PRIu64, lease->token);
    for (char **variable = environ; *variable != NULL; variable++)
        count++;

    char **made = malloc((count + OWN_VARIABLES + 1) * sizeof *made + measure(values));
    if (made == NULL)
        return NULL;
    char *text = (char *)(made + count + OWN_VARIABLES + 1);
    size_t at = 0;
    for (char **variable = environ; *variable != NULL; variable++) {
        if (is_own(*variable) || is_password(globals, *variable) || notify_is_variable(globals, *variable))
            continue;
        made[at++] = *variable;
        if (is_url(*variable) && !globals->keep_password) {
            made[at - 1] = strcpy(text, *variable);
            text += strlen(text) + 1;
            secret_strip(made[at - 1]);
        }
    }
    for (size_t i = 0; i < OWN_VARIABLES; i++) {
        if (values[i] == NULL)
            continue;
        made[at++] = text;
        text += sprintf(text, "%s%s", own_names[i], values[i]) + 1;
    }
    made[at] = NULL;
    return made;
}

/* --- after -------------------------------------------------------------------------------------- */

static const char *how(const child_end *end)
{
    return end->immortal ? "but something of it could not be killed"
           : end->killed ? "with SIGKILL, for SIGTERM was not enough"
                         : "with SIGTERM";
}

static void explain_end(const child_plan *plan, const child_end *end, simba_reason reason)
{
    if (end->immortal)
        cli_say(plan->command, "the command has ended, but something that it left behind could not be killed.");
    else if (end->left)
        cli_say(plan->command, "the command left processes behind; they were ended %s.", how(end));
    else if (reason != SIMBA_REASON_NONE)
        cli_say(plan->command, "leadership of %s ended before the command did (%s).", plan->mutex,
                simba_reason_name(reason));
    else if (WIFSIGNALED(end->status) && WTERMSIG(end->status) != end->passed_on)
        cli_say(plan->command, "the command was ended by signal %d (%s).", WTERMSIG(end->status),
                strsignal(WTERMSIG(end->status)));
}

int child_explain(const child_plan *plan, const child_end *end, simba_reason reason)
{
    switch (end->why) {
    case CHILD_NO_EXEC:
        cli_say(plan->command, "%s cannot be run: %s.", plan->argv[0], strerror(end->error));
        break;
    case CHILD_ENDED:
        explain_end(plan, end, reason);
        break;
    case CHILD_LOST:
        cli_say(plan->command, "leadership of %s ended (%s); the command was stopped, %s.", plan->mutex,
                reason != SIMBA_REASON_NONE ? simba_reason_name(reason) : "the lease was over", how(end));
        break;
    case CHILD_HOLD_LIMIT:
        cli_say(plan->command, "%s was held for %" PRId64 " ms, which is the limit; the command was stopped, %s.",
                plan->mutex, plan->times.max_hold_ms, how(end));
        break;
    case CHILD_TOO_LATE:
        cli_say(plan->command, "leadership of %s ended while this process was not running; the command was killed.",
                plan->mutex);
        break;
    case CHILD_UNGUARDED:
        cli_say(plan->command, "the watchdog of the command was killed, and so the command was too.");
        break;
    }
    return child_result(end);
}

int child_result(const child_end *end)
{
    if (end->why == CHILD_ENDED)
        return child_exit_code(end->status);
    if (end->why == CHILD_NO_EXEC)
        return end->error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXEC;
    return CLI_LOST;
}

bool child_ended_well(const child_end *end)
{
    return end->why == CHILD_ENDED && WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0;
}
