/* What all commands of `simba` share: the exit codes, the command table, the options that every command may take,
 * and the one parser of arguments, so that all commands answer mistakes in the same words. */
#ifndef SIMBA_CLI_H
#define SIMBA_CLI_H

#include <simba.h>
#include <stdio.h>

/* After sysexits.h, so that scripts can tell what went wrong. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1, /* never from `simba run` itself: there it is the command's */
    CLI_USAGE = 64,
    CLI_DATA = 65, /* the command has left a note that is not valid */
    CLI_UNAVAILABLE = 69,
    CLI_SYSTEM = 71,        /* the operating system refused: no memory, no process, no /proc */
    CLI_BUSY = 75,          /* the mutex was not obtained in time */
    CLI_NO_PERMISSION = 77, /* the password is wrong, or the store or the system does not allow it */
    CLI_CONFIG = 78,        /* the URL, the options or the store are not set up for it */
    CLI_LOST = 79,          /* leadership ended, and the command was stopped */
    CLI_CANNOT_EXEC = 126,  /* from here on as in a shell */
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL = 128, /* and the number of the signal */
};

/* Options before or after the name of a command. Not given: NULL, SIMBA_INHERIT, 0. */
typedef struct cli_globals {
    const char *url;
    const char *config;
    const char *id;
    const char *event_log;
    int64_t ttl_ms;
    int64_t transition_ms;
    int verbose;
    const char *log_format;
    const char *status_listen;     /* where others may ask, see health/health.h */
    const char *label;             /* of this process's pod while it leads; NULL: none */
    const char *notify;            /* when to notify systemd that this process is ready */
    bool quiet;                    /* the command prints its own messages in place of the library's warnings */
    bool warns_of_restarts;        /* even then: print that the store forgets its owners when it restarts */
    simba_dispatch dispatch;       /* where the command wants its callbacks */
    bool only_looks;               /* the command must not create a store: an empty one hides a mistyped path */
    bool configured;               /* the configuration file was looked at */
    const char *config_used;       /* the one that names the store; NULL: none does */
    const char *password;          /* from there, for a URL without one */
    bool keep_password;            /* commands that are run inherit the password */
    const char *password_variable; /* the variable of the environment that it came from; NULL: from elsewhere */
    char **arguments;              /* of this process, as they were given */
} cli_globals;

/* argv[0] is the name of the command. Returns the exit code. */
typedef int cli_command_fn(cli_globals *globals, int argc, char **argv);

typedef struct cli_command {
    const char *name;
    const char *help; /* one line; NULL: not for people, and not listed */
    cli_command_fn *run;
    const char *purpose; /* of this command and those that follow it, as a heading; NULL: that of the one before it */
} cli_command;

/* The one table, in main.c; ends with a row without a name. */
extern const cli_command cli_commands[];

const cli_command *cli_find_command(const char *name);
/* Print that there is no command of this name, and which one may have been meant. Returns CLI_USAGE. */
int cli_no_command(const char *name);

cli_command_fn cmd_bench, cmd_demo, cmd_doctor, cmd_elect, cmd_forget, cmd_give_back, cmd_help, cmd_hold, cmd_init,
    cmd_list, cmd_note, cmd_release, cmd_run, cmd_schedule, cmd_serve, cmd_timeline, cmd_tools, cmd_torture,
    cmd_torture_contender, cmd_tck, cmd_version, cmd_watch;

/* --- arguments ---------------------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,     /* bool */
    CLI_COUNT,    /* int, one more each time */
    CLI_TEXT,     /* const char * */
    CLI_DURATION, /* int64_t, milliseconds */
    CLI_CODE,     /* int, an exit code */
    CLI_NUMBER,   /* uint64_t */
} cli_kind;

typedef struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none; its argument stands behind it, or is the next one */
    cli_kind kind;
    const char *argument; /* what --help calls its argument; NULL for flags */
    const char *help;
    void *value; /* where it goes */
} cli_option;

/* Which global options a command uses. All commands use -v and --log-format. */
enum {
    CLI_TAKES_NONE = 0,
    CLI_TAKES_URL = 1,
    CLI_TAKES_ID = 2,
    CLI_TAKES_TIMING = 4,
    CLI_TAKES_EVENTS = 8,
    CLI_TAKES_ALL = 15,
    CLI_TAKES_HEALTH = 16, /* it contends until a signal ends it, and its state can be asked for */
};

typedef struct cli_syntax {
    const char *command;  /* NULL: `simba` itself, whose operands begin with the command */
    const char *operands; /* "[URL]", for --help; NULL or "": none */
    const char *about;    /* what --help says, in sentences */
    const cli_option *options;
    size_t option_count;
    unsigned takes;
    int min_operands;
    int max_operands;  /* -1: any number */
    int verbatim_from; /* from this operand on everything is a command to run, with its options; 0: never */
} cli_syntax;

/* The options of a syntax that are an array. */
#define CLI_OPTIONS(array) .options = (array), .option_count = sizeof(array) / sizeof(array)[0]

/* Go on. Anything else that cli_parse returns is the exit code, and the message has been printed. */
#define CLI_GO (-1)

/* Read the options in argv[1…] and leave the operands at argv[0…argc-1]. */
int cli_parse(const cli_syntax *syntax, cli_globals *globals, int *argc, char **argv);

/* Print "  --name ARG   help" for each. */
void cli_print_options(const cli_option *options, size_t count);
void cli_print_global_options(unsigned takes);

/* Print one line on standard error, "simba tck: …", see log.h: a failure, a warning, or information. `command` may
 * be NULL. */
void cli_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_warn(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_info(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print a failure like cli_error, and return this exit code. */
int cli_fail(const char *command, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Print one sentence on standard error, "simba tck: …", and return CLI_USAGE. `command` may be NULL. */
int cli_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with the text of a failed call of the library; returns the matching exit code. */
int cli_failure(const char *command, const simba_error *error);
/* Ask a person "… [y/N] " on standard output. True for yes, or any word that begins like it. */
bool cli_agrees(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* fopen and fclose that print what is wrong; NULL and false then. */
FILE *cli_open_file(const char *command, const char *path, const char *mode);
bool cli_close_file(const char *command, FILE *file, const char *path);
/* What to do about an error of the opened store, as a sentence; NULL: its text says it. */
const char *cli_advice(const simba_error *error);
/* The exit code that matches an error of the library. */
int cli_exit_code(int code);

/* --- the store ---------------------------------------------------------------------------------- */

/* Open the store that the options or the configuration name; with -v the library's log goes to standard error.
 * Returns CLI_GO, or an exit code after a message. */
int cli_open(const char *command, cli_globals *globals, simba_client **ret_client);
/* The same for a command that asks the store once, and reports a failure itself. `only_looks`: it must not create a store. */
int cli_open_once(const char *command, cli_globals *globals, bool only_looks, simba_client **ret_client);
/* The same after the command line was parsed, for a command that has nothing to do in between. */
int cli_begin(const cli_syntax *syntax, cli_globals *globals, int *argc, char **argv, simba_client **ret_client);
/* The same for a command that must exclude others: it refuses a store that nobody else can see, and tells a person
 * at a terminal who named no store whom the default one covers. */
int cli_open_shared(const char *command, cli_globals *globals, simba_client **ret_client);
/* Whom a store within one host keeps apart, in words, by the rights of its file. True: several users. */
enum { CLI_USERS_MAX = 128 };
bool cli_users(const char *url, char *text, size_t size);
/* As cli_open, but if the library cannot open the store, the caller prints its message: then *ret_client is NULL. */
int cli_try_open(const char *command, cli_globals *globals, simba_error *ret_error, simba_client **ret_client);
/* Whether to show the library's warnings from now on, beginning with the last one that was not shown; with -v they
 * are always shown. */
void cli_show_warnings(bool show);

/* Show the warnings that were not shown, on standard error. */
void cli_take_warnings(void);

/* Does an option or the environment name the store? */
bool cli_names_store(const cli_globals *globals);
/* The URL of that store, with its password wherever that comes from; NULL: the library's own default. Hides a
 * password on the command line. Returns CLI_GO, or an exit code after a message. free() it. */
int cli_url(const char *command, cli_globals *globals, char **ret_url);

/* The URL with which the store was opened, password included; NULL: the library's default, or not opened. */
const char *cli_opened_url(void);

/* The command holds nothing any more and has printed everything: only closing the store is left. Let the process end
 * with this code, soon, even if the store does not answer; see leave.c. Returns the final code, see cli_flush. */
int cli_leave(int code);
/* The same, and close the client. */
int cli_close(simba_client *client, int code);
/* Flush standard output. CLI_FAILED if it could not be written, whatever the command returned. */
int cli_flush(int code);

/* For commands with a default of their own for "ttl" or "transition": the option, otherwise the URL's value, which
 * the library does not let anybody contradict, otherwise the default. */
int64_t cli_duration(int64_t option_ms, const char *url, const char *key, int64_t fallback_ms);

#endif
