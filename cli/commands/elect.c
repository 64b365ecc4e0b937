/* `simba elect`: a long-lived contender for scripts and sidecars. Tells on standard output, in a status file and by commands
 * of the user whether it leads. Everything runs on the one thread there is, the callbacks and the renewals: the thread waits
 * for a command that runs in a callback, and dispatches meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "json.h"
#include "service.h"
#include "util/escape.h"

#define COMMAND "elect"
#define TICK_MS 100

typedef struct elect {
    service service; /* first */
    const char *on_acquired;
    const char *on_released;
    const char *status_file;
    bool json;
    bool keep_leading;  /* also if --on-acquired fails */
    int64_t end_ns;     /* of the lease, as last seen */
    int64_t written_ns; /* until when the status file says that the lease lasts */
} elect;

static elect *of(service *s)
{
    return (elect *)(void *)s;
}

/* --- the status file ------------------------------------------------------------------------------ */

/* Replace the file as a whole: a reader finds the old text or the new one. A link or a file at that path is replaced, not
 * written to. Returns 0 or a negative errno. */
static int write_status(const char *path, const char *text)
{
    char made[4096];
    if (snprintf(made, sizeof made, "%s.%d", path, (int)getpid()) >= (int)sizeof made)
        return -ENAMETOOLONG;
    /* A file of its own. In a folder that others may write to, somebody may have put a link in its place, to make this
     * process write elsewhere. Follow no link, and remove whatever is in the way once. */
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(made, flags, 0666);
    if (fd < 0 && errno == EEXIST && unlink(made) == 0)
        fd = open(made, flags, 0666);
    if (fd < 0)
        return -errno;
    const size_t length = strlen(text);
    int error = 0;
    if (write(fd, text, length) != (ssize_t)length)
        error = errno != 0 ? errno : EIO;
    if (close(fd) < 0 && error == 0)
        error = errno;
    if (error == 0 && rename(made, path) < 0)
        error = errno;
    if (error != 0)
        unlink(made);
    return -error;
}

static void update_status(elect *e)
{
    char line[128] = "follower\n";
    if (e->status_file == NULL)
        return;
    if (e->service.leads)
        snprintf(line, sizeof line, "leader %" PRIu64 " %" PRId64 ".%02" PRId64 "\n",
                 simba_contender_token(e->service.contender), e->end_ns / 1000000000,
                 e->end_ns % 1000000000 / 10000000);
    const int code = write_status(e->status_file, line);
    if (code < 0)
        cli_error(COMMAND, "the status file %s cannot be written: %s.", e->status_file, strerror(-code));
    e->written_ns = e->end_ns;
}

/* Look at the lease; the file says until when it lasts, so that a probe is not deceived by what a dead process left. The
 * clock is read first: what is written is never later than the truth. */
static void look(void *user, simba_lease *ret_lease)
{
    elect *e = user;
    const int64_t now_ns = clock_boot_ns();
    service_lease(&e->service, ret_lease);
    if (ret_lease->held_for_ms <= 0)
        return;
    e->end_ns = now_ns + ret_lease->left_ms * MS;
    if (e->service.leads)
        outage_look(&e->service.outage, ret_lease);
    if (e->service.leads && e->end_ns > e->written_ns + TICK_MS * MS)
        update_status(e);
}

/* --- commands --------------------------------------------------------------------------------------- */

/* While it tidies up after having been asked to end, the library does not take the margin off. */
static void look_while_releasing(void *user, simba_lease *ret_lease)
{
    const elect *e = user;
    simba_contender_lease(e->service.contender, ret_lease);
    ret_lease->held_for_ms = ret_lease->left_ms - e->service.times.margin_ms;
}

/* The rest of a lease that was lost. */
static void rest_of_lease(void *user, simba_lease *ret_lease)
{
    const elect *e = user;
    ret_lease->left_ms = (e->end_ns - clock_boot_ns()) / MS;
    ret_lease->held_for_ms = ret_lease->left_ms - e->service.times.lead_ms;
}

static int read_note(void *user, simba_error *err, simba_note *ret_note)
{
    const elect *e = user;
    return simba_contender_note(e->service.contender, err, ret_note);
}

static int write_note(void *user, const void *bytes, size_t length, simba_error *err)
{
    const elect *e = user;
    return simba_contender_note_set(e->service.contender, bytes, length, err);
}

/* Returns whether it ended by itself, and well. */
static bool run_hook(elect *e, const char *script, uint64_t token, const char *reason)
{
    service *s = &e->service;
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    simba_lease now = SIMBA_LEASE_INIT;
    child_end end;
    child_plan plan = {
        .command = COMMAND,
        .mutex = s->mutex,
        .argv = argv,
        .globals = s->globals,
        .times = s->times,
        .signals = &s->signals,
        .client = s->client,
        .holder = {.handle = e, .lease = s->leads ? look : look_while_releasing},
        .facts = {.mutex = s->mutex, .token = token, .id = simba_contender_id(s->contender), .reason = reason},
        .keeps_terminal = true,
    };
    if (simba_contender_held_for_ms(s->contender) <= 0) {
        plan.times.grace_ms = 0;
        plan.holder.lease = rest_of_lease;
    } else if (simba_contender_lease(s->contender, &now) == 0 && !now.overdue) {
        /* The command must end before the lease does, so it does not wait for a store that does not answer. */
        plan.holder.read_note = read_note;
        plan.holder.write_note = write_note;
    }
    if (child_run(&plan, &end) < 0) {
        cli_error(COMMAND, "no process could be started for \"%s\".", script);
        return false;
    }
    child_explain(&plan, &end, check_look(&s->check) ? SIMBA_REASON_NONE : SIMBA_REASON_STOPPED);
    if (end.why == CHILD_ENDED && end.code != 0 && WIFEXITED(end.status))
        cli_error(COMMAND, "\"%s\" exited with %d.", script, end.code);
    if (end.ending != 0)
        s->exit_code = CLI_OK;
    return end.why == CHILD_ENDED && end.code == 0 && end.note_code == CLI_GO;
}

/* --- printing --------------------------------------------------------------------------------------- */

static void print_event(const elect *e, const char *event, uint64_t token, const char *reason)
{
    if (e->json) {
        json_writer j = {.to = stdout};
        json_open(&j, NULL, '{');
        json_text(&j, "mutex", e->service.mutex);
        json_text(&j, "event", event);
        json_token(&j, "token", &token);
        if (reason != NULL)
            json_text(&j, "reason", reason);
        json_close(&j, '}');
        putchar('\n');
    } else {
        char name[SIMBA__ESCAPED_SIZE(SIMBA_MUTEX_BYTES)];
        printf("%s %s token %" PRIu64 "%s%s\n", event, simba__escape(e->service.mutex, name, sizeof name), token,
               reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
    fflush(stdout);
}

static void on_acquired(service *s, uint64_t token)
{
    elect *e = of(s);
    simba_lease lease = SIMBA_LEASE_INIT;
    e->written_ns = 0;
    look(e, &lease);
    print_event(e, "acquired", token, NULL);
    if (e->on_acquired == NULL || run_hook(e, e->on_acquired, token, NULL) || s->exit_code != CLI_GO)
        return;
    /* A leader whose command has failed keeps others from doing the work, so it steps down for as long as a lease lasts. */
    if (!e->keep_leading && check_look(&s->check) && simba_contender_is_owner(s->contender)) {
        cli_error(COMMAND, "\"%s\" failed; leadership of %s is given back.", e->on_acquired, s->mutex);
        s->resume_ns = clock_boot_ns() + s->times.lease_ms * MS;
        simba_contender_stop(s->contender); /* on_released follows when this callback has returned */
    }
}

static void on_released(service *s, uint64_t token, simba_reason reason)
{
    elect *e = of(s);
    update_status(e); /* before anything that takes time */
    print_event(e, "released", token, simba_reason_name(reason));
    if (e->on_released != NULL)
        run_hook(e, e->on_released, token, simba_reason_name(reason));
}

/* --- the loop --------------------------------------------------------------------------------------- */

static int pause_ms(const service *s)
{
    return s->leads || s->resume_ns != 0 ? TICK_MS : -1;
}

static void act(service *s)
{
    simba_lease lease = SIMBA_LEASE_INIT;
    look(of(s), &lease);
    if (ferror(stdout))
        s->exit_code = CLI_FAILED;
}

static void leaving(service *s)
{
    if (of(s)->status_file != NULL)
        unlink(of(s)->status_file);
}

static const service_type type = {
    .command = COMMAND,
    .consequence = "leadership will be given up",
    .acquired = on_acquired,
    .released = on_released,
    .pause_ms = pause_ms,
    .act = act,
    .leaving = leaving,
};

int cmd_elect(cli_globals *globals, int argc, char **argv)
{
    elect e = {.service = {.type = &type, .globals = globals, .grace_ms = -1}};
    const cli_option own[] = {
        {"on-acquired", 0, CLI_TEXT, "CMD", "Shell command to run when it leads", &e.on_acquired},
        {"on-released", 0, CLI_TEXT, "CMD", "Shell command to run when it no longer leads", &e.on_released},
        {"status-file", 0, CLI_TEXT, "F", "Keep \"leader TOKEN UNTIL\" or \"follower\" there", &e.status_file},
        {"grace", 0, CLI_DURATION, "D", "How much of the lease is for --on-released", &e.service.grace_ms},
        {"keep-password", 0, CLI_FLAG, NULL, "Leave the store's password in its environment", &globals->keep_password},
        {"keep-leading", 0, CLI_FLAG, NULL, "Go on leading even if --on-acquired fails", &e.keep_leading},
        {"label", 0, CLI_TEXT, "KEY=VALUE", "Label the pod of this process while it leads (Kubernetes)",
         &globals->label},
        {"json", 0, CLI_FLAG, NULL, "Print one object per line", &e.json},
        CHECK_OPTIONS(e.service.check),
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .operands = "MUTEX",
        .about = "Contends for the mutex until SIGTERM or SIGINT, and prints when leadership comes\n"
                 "and goes. Both commands find SIMBA_MUTEX, SIMBA_TOKEN, SIMBA_ID and, as in\n"
                 "`simba run`, the note in their environment; --on-released also SIMBA_REASON.\n"
                 "--on-released runs before another can lead, and must end by then. If\n"
                 "--on-acquired fails, simba gives leadership back. Compare UNTIL with /proc/uptime.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_ALL | CLI_TAKES_HEALTH,
        .min_operands = 1,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    e.service.mutex = argv[0];
    e.service.runs_commands = e.on_acquired != NULL || e.on_released != NULL;
    /* A mistake in its name is reported before anything is contended for. */
    int code = e.status_file != NULL ? write_status(e.status_file, "follower\n") : 0;
    if (code < 0)
        return cli_fail(COMMAND, code == -EACCES || code == -EPERM || code == -EROFS ? CLI_NO_PERMISSION : CLI_CONFIG,
                        "the status file %s cannot be written: %s.", e.status_file, strerror(-code));
    code = service_run(&e.service);
    leaving(&e.service);
    return code;
}
