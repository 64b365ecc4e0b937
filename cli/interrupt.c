/* See interrupt.h. */
#include "interrupt.h"

#include "cli.h"

volatile sig_atomic_t interrupt_signal;

static void take_note(int number)
{
    interrupt_signal = number;
}

void interrupt_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) < 0 || action.sa_handler == SIG_IGN)
            continue;
        action.sa_handler = take_note;
        action.sa_flags = (int)(SA_RESETHAND | SA_RESTART);
        sigaction(numbers[i], &action, NULL);
    }
}

int interrupt_code(int code)
{
    return interrupt_signal != 0 ? CLI_SIGNAL + (int)interrupt_signal : code;
}
