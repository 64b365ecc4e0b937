/* See service.h. */
#include "service.h"

#include <poll.h>

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    service *s = user;
    (void)contender;
    s->leads = true;
    s->waiting.told = (simba_owner){.token = 0};
    s->outage.said = false;
    s->type->acquired(s, state->after.token);
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    service *s = user;
    (void)contender;
    s->leads = false;
    s->type->released(s, state->before.token, reason);
}

void service_lease(void *user, simba_lease *ret_lease)
{
    const service *s = user;
    simba_contender_lease(s->contender, ret_lease);
}

static int pause_ms(const service *s)
{
    const int pause_ms = s->type->pause_ms(s);
    const bool says_for_whom = !s->leads && s->waiting.at_terminal;
    return says_for_whom && (pause_ms < 0 || pause_ms > WAITING_FIRST_MS) ? WAITING_FIRST_MS : pause_ms;
}

static void listen_once(service *s)
{
    struct pollfd fds[] = {{.fd = simba_client_fd(s->client), .events = POLLIN},
                           {.fd = s->signals.fd, .events = POLLIN}};
    const int ready = poll(fds, 2, pause_ms(s));
    if (ready < 0)
        return;
    if (ready == 0 && !s->leads)
        waiting_say_owner(&s->waiting, s->contender);
    if (fds[0].revents != 0)
        simba_client_dispatch(s->client);
    const int number = fds[1].revents != 0 ? signals_read(&s->signals) : 0;
    if (signals_is_ending(number))
        s->exit_code = CLI_OK;
    else if (number == SIGTSTP)
        raise(SIGSTOP);
    if (s->exit_code == CLI_GO)
        s->type->act(s);
}

static int leave(service *s, int code)
{
    if (s->type->leaving != NULL)
        s->type->leaving(s);
    return cli_leave(code);
}

static int contend(service *s)
{
    int code = simba_contender_start(s->contender);
    while (code == 0 && s->exit_code == CLI_GO)
        listen_once(s);
    code = code < 0 ? cli_exit_code(code) : s->exit_code;
    if (!s->leads && simba_contender_held_for_ms(s->contender) == 0)
        code = leave(s, code);
    simba_contender_stop(s->contender);
    return leave(s, code);
}

static int make_and_contend(service *s)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error error = {0, ""};
    s->waiting = waiting_words_for(s->type->command, s->mutex, s->globals);
    s->outage = outage_words_for(s->type->command, s->mutex, s->type->consequence, s->globals);
    options.id = s->globals->id;
    options.timing.stop_margin_ms = child_margin_ms(&s->times);
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = s;
    if (simba_contender_new(s->client, s->mutex, &options, &error, &s->contender) < 0)
        return cli_failure(s->type->command, &error);
    const int code = contend(s);
    simba_contender_free(s->contender);
    return code;
}

int service_run(service *s)
{
    const char *command = s->type->command;
    simba_observer *asking = NULL;
    int code = s->runs_commands ? child_check(command) : CLI_GO;
    if (code != CLI_GO)
        return code;
    s->exit_code = CLI_GO;
    s->globals->dispatch = SIMBA_DISPATCH_FD;
    code = cli_open(command, s->globals, &s->client);
    if (code != CLI_GO)
        return code;
    code = signals_open(command, &s->signals);
    if (code == CLI_GO)
        code = child_times_choose(command, s->client, s->grace_ms, &s->times);
    if (code == CLI_GO) {
        child_times_await(s->client, s->mutex, &s->signals, -1, &asking);
        code = child_times_choose(command, s->client, s->grace_ms, &s->times);
    }
    if (code == CLI_GO)
        code = make_and_contend(s);
    code = cli_close(s->client, code);
    simba_observer_free(asking);
    return code;
}

static int read_note(void *holder, simba_error *err, simba_note *ret_note)
{
    return simba_contender_note(holder, err, ret_note);
}

static int write_note(void *holder, const void *bytes, size_t length, simba_error *err)
{
    return simba_contender_note_set(holder, bytes, length, err);
}

child_note_holder service_note_holder(service *s)
{
    return (child_note_holder){s->type->command, read_note, write_note, s->contender};
}
