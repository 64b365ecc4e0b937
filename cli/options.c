/* How arguments are read. Not getopt: here every option is one row of a table, from which both the parsing and the
 * text of --help come, and a mistake is answered by a whole sentence that names it. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "log.h"
#include "util/escape.h"
#include "util/guess.h"

#define GLOBAL_OPTIONS 10
#define HELP_COLUMN 26

/* A global option, and who takes it; 0: every command. */
typedef struct global_option {
    unsigned bit;
    cli_option row;
} global_option;

static void list_global_options(cli_globals *to, global_option ret_options[GLOBAL_OPTIONS])
{
    const global_option all[GLOBAL_OPTIONS] = {
        {CLI_TAKES_URL, {"url", 0, CLI_TEXT, "URL", "The store, as in simba-url(5)", &to->url}},
        {CLI_TAKES_URL, {"config", 0, CLI_TEXT, "FILE", "Settings, as in simba.conf(5)", &to->config}},
        {CLI_TAKES_TIMING, {"ttl", 0, CLI_DURATION, "D", "Time to live of a lease: 500ms, 10s, 2m", &to->ttl_ms}},
        {CLI_TAKES_TIMING,
         {"transition", 0, CLI_DURATION, "D", "Time after the ttl in which nobody takes over", &to->transition_ms}},
        {CLI_TAKES_ID, {"id", 0, CLI_TEXT, "ID", "Name of this contender", &to->id}},
        {CLI_TAKES_EVENTS, {"event-log", 0, CLI_TEXT, "FILE", "Add events to it, for simba timeline", &to->event_log}},
        {CLI_TAKES_HEALTH,
         {"status-listen", 0, CLI_TEXT, "ADDR", "Answer HTTP there: 200 while it leads", &to->status_listen}},
        {CLI_TAKES_HEALTH,
         {"notify", 0, CLI_TEXT, "WHEN", "systemd: ready when contending or leading; or child", &to->notify}},
        {0, {"verbose", 'v', CLI_COUNT, NULL, "Report every event; twice for more", &to->verbose}},
        {0, {"log-format", 0, CLI_TEXT, "FORM", "Form of messages: text, journal or json", &to->log_format}},
    };
    memcpy(ret_options, all, sizeof all);
}

static bool is_taken(const global_option *option, unsigned takes)
{
    return option->bit == 0 || (option->bit & takes) != 0;
}

void cli_print_options(const cli_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const cli_option *option = &options[i];
        char left[64];
        const char letter[] = {'-', option->letter, ',', ' ', '\0'};
        snprintf(left, sizeof left, "  %s--%s%s%s", option->letter != 0 ? letter : "    ", option->name,
                 option->argument != NULL ? " " : "", option->argument != NULL ? option->argument : "");
        printf("%-*s  %s\n", HELP_COLUMN, left, option->help);
    }
}

void cli_print_global_options(unsigned takes)
{
    static cli_globals unused;
    global_option all[GLOBAL_OPTIONS];
    list_global_options(&unused, all);
    for (size_t i = 0; i < GLOBAL_OPTIONS; i++)
        if (is_taken(&all[i], takes))
            cli_print_options(&all[i].row, 1);
}

int cli_usage_error(const char *command, const char *format, ...)
{
    char text[SIMBA__FORMAT_MAX - 64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t length = strlen(text);
    const char *see = length > 0 && text[length - 1] == '?' ? " See" : "; see";
    return cli_fail(command, CLI_USAGE, "%s%s `simba %s%s--help`.", text, see, command != NULL ? command : "",
                    command != NULL ? " " : "");
}

/* A file needs no connection and no login. */
static const char *advice_about_file(const simba_error *error)
{
    if (error->code == SIMBA_EPERM)
        return "Check who may write to the file and its folder.";
    if (error->code == SIMBA_ETIMEDOUT || strstr(error->text, "locked by another process") != NULL)
        return "`fuser` names the processes that have the file open.";
    if (error->code == SIMBA_EUNAVAILABLE)
        return "Are the file and its folder where the URL says, and is their disk well?";
    return NULL;
}

const char *cli_advice(const simba_error *error)
{
    const bool is_full = strstr(error->text, "disk is full") != NULL || strstr(error->text, "No space left") != NULL;
    if (error->code == SIMBA_EUNAVAILABLE && is_full)
        return "Make room on the disk of the store.";
    if (error->code != SIMBA_EURL && strstr(error->text, "sqlite: ") != NULL)
        return advice_about_file(error);
    if (error->code == SIMBA_EPERM &&
        (strstr(error->text, "certificate") != NULL || strstr(error->text, "by TLS: ") != NULL))
        return "Does the URL name the certificates to trust, and the host as its certificate does? See simba-url(5).";
    if (strstr(error->text, "may have forgotten leases") != NULL)
        return "Ask again then: until the old leases are over, it grants nothing new. See restart-wait in "
               "simba-url(5).";
    switch (error->code) {
    case SIMBA_EUNAVAILABLE:
    case SIMBA_ETIMEDOUT:
        return "Is it there and running, is the address right, does a firewall block the way?";
    case SIMBA_EPERM:
        return "Check the user, the password and what that user may do.";
    case SIMBA_EURL:
        return "simba-url(5) has the form of every URL and its options.";
    default:
        return NULL;
    }
}

int cli_failure(const char *command, const simba_error *error)
{
    const bool is_refused = error->code == SIMBA_EPERM;
    return cli_fail(command, cli_exit_code(error->code), "%s.%s%s",
                    error->text[0] != '\0' ? error->text : simba_error_text(error->code), is_refused ? " " : "",
                    is_refused ? cli_advice(error) : "");
}

int cli_exit_code(int code)
{
    switch (code) {
    case SIMBA_EUNAVAILABLE:
    case SIMBA_ETIMEDOUT:
        return CLI_UNAVAILABLE;
    case SIMBA_EPERM:
        return CLI_NO_PERMISSION;
    case SIMBA_EINVAL:
    case SIMBA_EURL:
    case SIMBA_ENOTBUILT:
    case SIMBA_ESTORE:
    case SIMBA_ECORRUPT:
    case SIMBA_ENOTSUP:
        return CLI_CONFIG;
    case SIMBA_ENOMEM:
    case SIMBA_ESYSTEM:
        return CLI_SYSTEM;
    default:
        return CLI_FAILED;
    }
}

static bool parse_number(const char *text, uint64_t most, uint64_t *ret_number)
{
    char *end = NULL;
    assert(text != NULL); /* the option takes an argument */
    errno = 0;
    const unsigned long long number = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    *ret_number = number;
    return end != NULL && *end == '\0' && errno == 0 && number <= most;
}

static int store_value(const cli_syntax *syntax, const cli_option *option, const char *text)
{
    const char *given = text;
    char in_seconds[32];
    uint64_t code;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->value = true;
        break;
    case CLI_COUNT:
        ++*(int *)option->value;
        break;
    case CLI_TEXT:
        *(const char **)option->value = text;
        break;
    case CLI_CODE:
        if (!parse_number(text, 255, &code))
            return cli_usage_error(syntax->command, "--%s wants an exit code from 0 to 255, not \"%s\"", option->name,
                                   text);
        *(int *)option->value = (int)code;
        break;
    case CLI_NUMBER:
        if (!parse_number(text, UINT64_MAX, option->value))
            return cli_usage_error(syntax->command, "--%s wants a whole number, not \"%s\"", option->name, text);
        break;
    case CLI_DURATION:
        /* On the command line a number without a unit counts seconds, as it does for flock, sleep and timeout. */
        assert(text != NULL); /* the option takes an argument */
        snprintf(in_seconds, sizeof in_seconds, "%ss", text);
        if (text[strspn(text, "0123456789.")] == '\0')
            text = strlen(text) + 1 < sizeof in_seconds ? in_seconds : "";
        if (simba_duration_parse(text, option->value) != 0)
            return cli_usage_error(syntax->command, "--%s wants a duration such as 5, 500ms, 1.5s or 2m, not \"%s\"",
                                   option->name, given);
        /* So that it can be counted in nanoseconds, from now on. */
        if (*(int64_t *)option->value > SIMBA_LEASE_MAX_MS)
            return cli_usage_error(syntax->command, "--%s wants at most ten years (%" PRId64 "h), not \"%s\"",
                                   option->name, SIMBA_LEASE_MAX_MS / 3600000, given);
        break;
    }
    return CLI_GO;
}

#define ROWS_MAX 32

/* Everything one pass over the arguments needs. */
typedef struct reader {
    const cli_syntax *syntax;
    cli_option rows[ROWS_MAX]; /* of the command, and the global ones that it takes */
    size_t count;
    int argc;
    char **argv;
    int at; /* the argument that is read now */
} reader;

/* "--name", "--name=value" or "--name value". */
static int read_long(reader *r)
{
    const char *name = r->argv[r->at] + 2;
    const size_t length = strcspn(name, "=");
    const cli_option *option = NULL;
    simba__guess meant = {0};
    for (size_t i = 0; i < r->count; i++) {
        if (strlen(r->rows[i].name) == length && strncmp(r->rows[i].name, name, length) == 0)
            option = &r->rows[i];
        simba__guess_offer(&meant, name, length, r->rows[i].name);
    }
    if (option == NULL && meant.name != NULL)
        return cli_usage_error(r->syntax->command, "there is no option --%.*s, did you mean --%s?", (int)length, name,
                               meant.name);
    if (option == NULL)
        return cli_usage_error(r->syntax->command, "there is no option --%.*s", (int)length, name);
    if (option->argument == NULL) {
        if (name[length] == '=')
            return cli_usage_error(r->syntax->command, "--%s takes no value", option->name);
        return store_value(r->syntax, option, NULL);
    }
    if (name[length] == '=')
        return store_value(r->syntax, option, name + length + 1);
    if (r->at + 1 >= r->argc)
        return cli_usage_error(r->syntax->command, "--%s wants a value", option->name);
    return store_value(r->syntax, option, r->argv[++r->at]);
}

/* "-v", "-vv", "-E 1", "-E1". */
static int read_letters(reader *r)
{
    for (const char *letter = r->argv[r->at] + 1; *letter != '\0'; letter++) {
        const cli_option *option = NULL;
        for (size_t i = 0; i < r->count && option == NULL; i++)
            if (r->rows[i].letter == *letter)
                option = &r->rows[i];
        if (option == NULL)
            return cli_usage_error(r->syntax->command, "there is no option -%c", *letter);
        if (option->argument != NULL && letter[1] == '\0' && r->at + 1 >= r->argc)
            return cli_usage_error(r->syntax->command, "-%c wants a value", *letter);
        if (option->argument != NULL)
            return store_value(r->syntax, option, letter[1] != '\0' ? letter + 1 : r->argv[++r->at]);
        const int code = store_value(r->syntax, option, NULL);
        if (code != CLI_GO)
            return code;
    }
    return CLI_GO;
}

static int read_all(reader *r, int *ret_operands)
{
    int operands = 0;
    int code = CLI_GO;
    for (r->at = 1; r->at < r->argc && code == CLI_GO; r->at++) {
        char *arg = r->argv[r->at];
        const bool is_operand = arg[0] != '-' || arg[1] == '\0';
        const bool ends_options = strcmp(arg, "--") == 0;
        const bool begins_command =
            is_operand &&
            (r->syntax->command == NULL || (r->syntax->verbatim_from > 0 && operands >= r->syntax->verbatim_from));
        if (ends_options || begins_command) {
            for (r->at += ends_options; r->at < r->argc; r->at++)
                r->argv[operands++] = r->argv[r->at];
        } else if (is_operand) {
            r->argv[operands++] = arg;
        } else {
            code = arg[1] == '-' ? read_long(r) : read_letters(r);
        }
    }
    *ret_operands = operands;
    return code;
}

int cli_parse(const cli_syntax *syntax, cli_globals *globals, int *argc, char **argv)
{
    bool want_help = false;
    global_option all[GLOBAL_OPTIONS];
    reader r = {.syntax = syntax, .argc = *argc, .argv = argv};
    list_global_options(globals, all);
    assert(syntax->option_count + 1 + GLOBAL_OPTIONS <= ROWS_MAX);
    for (; r.count < syntax->option_count; r.count++)
        r.rows[r.count] = syntax->options[r.count];
    if (syntax->command != NULL)
        r.rows[r.count++] = (cli_option){"help", 'h', CLI_FLAG, NULL, "Explain this command", &want_help};
    for (size_t i = 0; i < GLOBAL_OPTIONS; i++)
        if (is_taken(&all[i], syntax->takes))
            r.rows[r.count++] = all[i].row;
    int operands = 0;
    int code = read_all(&r, &operands);
    if (code != CLI_GO)
        return code;
    argv[operands] = NULL;
    *argc = operands;
    if (want_help) {
        const char *wanted = syntax->operands != NULL ? syntax->operands : "";
        printf("Usage: simba %s [OPTION...]%s%s\n\n%s\n\nOptions:\n", syntax->command, wanted[0] != '\0' ? " " : "",
               wanted, syntax->about);
        cli_print_options(syntax->options, syntax->option_count);
        cli_print_global_options(syntax->takes);
        return CLI_OK;
    }
    /* An option that came before the name of a command which has no use for it is a mistake, not a detail to ignore. */
    for (size_t i = 0; i < GLOBAL_OPTIONS; i++) {
        const cli_option *row = &all[i].row;
        const bool given = row->kind == CLI_TEXT       ? *(const char **)row->value != NULL
                           : row->kind == CLI_DURATION ? *(const int64_t *)row->value != SIMBA_INHERIT
                                                       : false;
        if (given && !is_taken(&all[i], syntax->takes))
            return cli_usage_error(syntax->command, "it has no use for --%s", row->name);
    }
    if (!log_set_format(globals->log_format))
        return cli_usage_error(syntax->command, "--log-format is text, journal or json, not \"%s\"",
                               globals->log_format);
    /* A variable of a script that was never set: the default would be another store than was meant. */
    if (globals->url != NULL && globals->url[0] == '\0')
        return cli_usage_error(syntax->command, "--url is empty");
    if (syntax->max_operands >= 0 && operands > syntax->max_operands)
        return cli_usage_error(syntax->command, "\"%s\" is one argument too many", argv[syntax->max_operands]);
    if (operands < syntax->min_operands)
        return cli_usage_error(syntax->command, "an argument is missing (%s)", syntax->operands);
    return CLI_GO;
}
