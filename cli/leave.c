/* How a command takes leave of the store. Closing a client takes back the request that is on its way and leaves queues, so
 * it waits for answers, for seconds if the store does not answer. That is right while something is held. Afterwards, or if
 * nothing ever was, nobody who has pressed Ctrl-C should wait for that: the process ends with the client open, which the
 * library allows, and the store forgets waiters that are gone. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli.h"

enum { LEAVE_MS = 300 }; /* enough for a store that answers */

static volatile sig_atomic_t exit_code;

static void end_now(int number)
{
    (void)number;
    _exit(exit_code);
}

int cli_flush(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    clearerr(stdout); /* it is said once */
    return cli_fail(NULL, code == CLI_OK ? CLI_FAILED : code, "standard output could not be written.");
}

int cli_leave(int code)
{
    const struct sigaction action = {.sa_handler = end_now};
    const struct itimerval limit = {.it_value = {.tv_usec = LEAVE_MS * 1000}};
    sigset_t alarm_only;
    code = cli_flush(code);
    exit_code = code;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    setitimer(ITIMER_REAL, &limit, NULL);
    return code;
}

int cli_close(simba_client *client, int code)
{
    code = cli_leave(code);
    simba_client_close(client);
    return code;
}
