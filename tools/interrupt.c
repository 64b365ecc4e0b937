/* See interrupt.h. */
#include "interrupt.h"

#include "cli.h"

volatile sig_atomic_t interrupt_signal;

static void take_note(int number)
{
    __atomic_store_n(&interrupt_signal, number, __ATOMIC_RELAXED);
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

int interrupt_number(void)
{
    return __atomic_load_n(&interrupt_signal, __ATOMIC_RELAXED);
}

int interrupt_code(int code)
{
    const int number = interrupt_number();
    return number != 0 ? CLI_SIGNAL + number : code;
}
