/* See service.h. */
#include "service.h"

#include <poll.h>

#include "clock.h"
#include "health.h"
#include "refusal.h"

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    service *s = user;
    (void)contender;
    s->leads = true;
    s->waiting.reported = (simba_owner){.token = 0};
    s->outage.reported = false;
    s->type->acquired(s, state->after.token);
}

static void on_released(simba_contender *contender, const simba_state *state, simba_reason reason, void *user)
{
    service *s = user;
    (void)contender;
    s->leads = false;
    s->type->released(s, state->before.token, reason);
}

/* --- whichever contends -------------------------------------------------------------------------- */

void service_lease(service *s, simba_lease *ret_lease)
{
    if (s->scheduler != NULL)
        simba_scheduler_lease(s->scheduler, ret_lease);
    else
        simba_contender_lease(s->contender, ret_lease);
    if (!check_look(&s->check))
        ret_lease->held_for_ms = 0;
}

/* While the check fails it neither leads nor waits. Whoever contends again goes to the end of the queue. */
static void contend_or_not(service *s)
{
    const simba_status status =
        s->scheduler != NULL ? simba_scheduler_status(s->scheduler) : simba_contender_status(s->contender);
    const bool may = check_look(&s->check) && clock_boot_ns() >= s->resume_ns;
    int code = 0;
    if (may)
        s->resume_ns = 0;
    if (may && status == SIMBA_STATUS_INITIAL)
        code = s->scheduler != NULL ? simba_scheduler_start(s->scheduler) : simba_contender_start(s->contender);
    else if (!may && status != SIMBA_STATUS_INITIAL && s->scheduler != NULL)
        simba_scheduler_stop(s->scheduler);
    else if (!may && status != SIMBA_STATUS_INITIAL)
        simba_contender_stop(s->contender);
    if (code < 0)
        s->exit_code = cli_exit_code(code);
}

/* --- the loop ------------------------------------------------------------------------------------- */

/* A scheduler has no callback for that. */
static void look_whether_it_leads(service *s)
{
    if (s->scheduler == NULL || s->leads == simba_scheduler_is_leader(s->scheduler))
        return;
    s->leads = !s->leads;
    if (s->leads) {
        s->waiting.reported = (simba_owner){.token = 0};
        s->outage.reported = false;
    }
}

static void look(void *user, health_view *ret_view)
{
    service *s = user;
    ret_view->mutex = s->mutex;
    ret_view->client = s->client;
    if (s->contender == NULL && s->scheduler == NULL)
        return;
    ret_view->id = s->scheduler != NULL ? simba_scheduler_id(s->scheduler) : simba_contender_id(s->contender);
    /* Nobody is asked before the initial delay of the URL is over. */
    const simba_status status =
        s->scheduler != NULL ? simba_scheduler_status(s->scheduler) : simba_contender_status(s->contender);
    ret_view->contends = s->settled || status == SIMBA_STATUS_STARTING;
    ret_view->leads = s->leads;
    ret_view->reserve_ms = s->times.lead_ms;
    service_lease(s, &ret_view->lease);
    if (s->scheduler != NULL)
        simba_scheduler_owner(s->scheduler, &ret_view->owner);
    else
        simba_contender_owner(s->contender, &ret_view->owner);
}

static void listen_once(service *s)
{
    simba_owner owner;
    simba_error refusal;
    contend_or_not(s);
    int pause_ms = check_pause_ms(&s->check, s->type->pause_ms != NULL ? s->type->pause_ms(s) : -1);
    const bool says_for_whom = !s->leads && s->waiting.at_terminal;
    if (says_for_whom && (pause_ms < 0 || pause_ms > WAITING_FIRST_MS))
        pause_ms = WAITING_FIRST_MS;
    struct pollfd fds[] = {{.fd = simba_client_fd(s->client), .events = POLLIN},
                           {.fd = s->signals.fd, .events = POLLIN},
                           {.fd = health_fd(), .events = POLLIN}};
    const int ready = poll(fds, 3, health_pause_ms(pause_ms));
    if (ready < 0)
        return;
    look_whether_it_leads(s);
    if (ready == 0 && !s->leads && s->scheduler == NULL && simba_contender_owner(s->contender, &owner) == 0)
        waiting_report(&s->waiting, &owner, simba_contender_owner_left_ms(s->contender));
    else if (ready == 0 && !s->leads && s->scheduler != NULL && simba_scheduler_owner(s->scheduler, &owner) == 0)
        waiting_report(&s->waiting, &owner, simba_scheduler_owner_left_ms(s->scheduler));
    if (fds[0].revents != 0)
        simba_client_dispatch(s->client);
    look_whether_it_leads(s);
    /* A store that refuses from the first goes on to: end. Warnings are kept back until that is known, because a refusal is
     * printed as the reason for the end. */
    if (s->exit_code == CLI_GO && refusal_is_final(s->client, &refusal)) {
        s->exit_code = cli_failure(s->type->command, &refusal);
    } else if (!s->settled && refusal_is_settled(s->client)) {
        s->settled = true;
        cli_take_warnings();
        cli_show_warnings(true);
    }
    const int number = fds[1].revents != 0 ? signals_read(&s->signals) : 0;
    if (signals_is_ending(number))
        s->exit_code = CLI_OK;
    else if (number == SIGTSTP)
        raise(SIGSTOP);
    health_run();
    if (s->exit_code == CLI_GO && s->type->act != NULL)
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
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_error error = {0, ""};
    s->waiting = waiting_words_for(s->type->command, s->mutex, s->globals);
    s->outage = (outage_words){.command = s->type->command,
                               .mutex = s->mutex,
                               .consequence = s->type->consequence,
                               .verbose = s->globals->verbose > 0};
    options.id = s->globals->id;
    options.timing.stop_margin_ms = s->times.margin_ms;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = s;
    const int made = s->type->make != NULL ? s->type->make(s, &options.timing, &error)
                                           : simba_contender_new(s->client, s->mutex, &options, &error, &s->contender);
    if (made < 0)
        return cli_failure(s->type->command, &error);

    while (s->exit_code == CLI_GO)
        listen_once(s);
    check_end(&s->check);
    int code = s->exit_code;
    const bool holds = s->scheduler != NULL ? simba_scheduler_is_leader(s->scheduler)
                                            : s->leads || simba_contender_held_for_ms(s->contender) > 0;
    if (!holds)
        code = leave(s, code);
    if (s->scheduler != NULL)
        simba_scheduler_stop(s->scheduler);
    else
        simba_contender_stop(s->contender);
    health_close();
    code = leave(s, code);
    simba_contender_free(s->contender);
    simba_scheduler_free(s->scheduler);
    s->contender = NULL;
    s->scheduler = NULL;
    return code;
}

int service_run(service *s)
{
    const char *command = s->type->command;
    simba_observer *asking = NULL;
    int code = check_options(command, &s->check);
    if (code == CLI_GO && s->runs_commands)
        code = child_check(command);
    if (code != CLI_GO)
        return code;
    s->exit_code = CLI_GO;
    s->check.command = command;
    s->check.mutex = s->mutex;
    s->check.globals = s->globals;
    s->check.signals = &s->signals;
    s->globals->quiet = true;
    s->globals->warns_of_restarts = true;
    s->globals->dispatch = SIMBA_DISPATCH_FD;
    code = health_open(command, s->globals, look, s);
    if (code == CLI_GO)
        code = cli_open_shared(command, s->globals, &s->client);
    if (code != CLI_GO) {
        health_close();
        return code;
    }
    code = signals_open(command, &s->signals);
    if (code == CLI_GO)
        code = child_times_await(command, s->client, s->grace_ms, s->mutex, &s->signals, -1, &s->times, &asking);
    if (code == CLI_GO)
        code = contend(s);
    health_close();
    code = cli_close(s->client, code);
    simba_observer_free(asking);
    return code;
}
