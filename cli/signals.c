/* See signals.h. */
#include "signals.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

static int refused(const char *command)
{
    return cli_fail(command, CLI_SYSTEM, "signals cannot be listened to: %s.", strerror(errno));
}

int signals_open(const char *command, cli_signals *ret_signals)
{
    cli_signals signals;
    sigset_t ours;
    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        struct sigaction action;
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&ours, passed_on[i]);
    }
    /* The terminal is handed to and fro from the background, which is no reason to be stopped. */
    sigaddset(&ours, SIGTTOU);
    if (sigprocmask(SIG_BLOCK, &ours, &signals.original) < 0)
        return refused(command);
    sigdelset(&ours, SIGTTOU);
    signals.fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals.fd < 0)
        return refused(command);
    *ret_signals = signals;
    return CLI_GO;
}

int signals_read(const cli_signals *signals)
{
    struct signalfd_siginfo info;
    return read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

bool signals_is_ending(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}
