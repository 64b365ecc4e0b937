/* The command `simba`: finds the command in the one table there is and runs it. `simba help` and `simba version`. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "util/guess.h"

/* simba-tools is this program with the commands of tools/ in it. */
#ifdef SIMBA_CLI_WITH_TOOLS
#define TOOL(command) command
#else
#define TOOL(command) cmd_tools
#endif

const cli_command cli_commands[] = {
    {"run", "Run a command while holding a mutex", cmd_run, "Hold a mutex"},
    {"schedule", "Run a command periodically, on the leader only", cmd_schedule, NULL},
    {"hold", "Hold mutexes for a program in any language, by pipes", cmd_hold, NULL},
    {"elect", "Contend, and tell scripts when leadership comes and goes", cmd_elect, NULL},
    {"list", "List the mutexes of a store and their owners", cmd_list, "Look"},
    {"watch", "Print changes of ownership as they happen", cmd_watch, NULL},
    {"serve", "Show a store in a browser, to programs and to probes, by HTTP", cmd_serve, NULL},
    {"timeline", "Draw who led when, from event logs", TOOL(cmd_timeline), NULL},
    {"init", "Prepare a store", cmd_init, "Administer"},
    {"doctor", "Look for problems in the store and the settings", cmd_doctor, NULL},
    {"note", "Read or write the note of a mutex, which outlives its holders", cmd_note, NULL},
    {"release", "Take a mutex away from its owner", cmd_release, NULL},
    {"forget", "Remove mutexes without an owner, with their notes", cmd_forget, NULL},
    {"bench", "Measure how fast a store locks and unlocks", TOOL(cmd_bench), "Test a store"},
    {"tck", "Run the conformance kit against a store, as TAP", TOOL(cmd_tck), NULL},
    {"torture", "Kill, pause and cut off contenders of a store, and check the promises", TOOL(cmd_torture), NULL},
    {"demo", "Watch three processes compete for one mutex, and one of them die", TOOL(cmd_demo), "Learn"},
    {"help", "Explain simba, or one command", cmd_help, NULL},
    {"version", "Print the version", cmd_version, NULL},
    {"torture-contender", NULL, TOOL(cmd_torture_contender), NULL},
    {"give-back", NULL, cmd_give_back, NULL},
    {NULL, NULL, NULL, NULL},
};

const cli_command *cli_find_command(const char *name)
{
    for (const cli_command *command = cli_commands; command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0)
            return command;
    }
    return NULL;
}

int cli_no_command(const char *name)
{
    simba__guess meant = {0};
    for (const cli_command *command = cli_commands; command->name != NULL; command++)
        if (command->help != NULL)
            simba__guess_offer(&meant, name, strlen(name), command->name);
    if (meant.name != NULL)
        return cli_usage_error(NULL, "there is no command \"%s\", did you mean \"%s\"?", name, meant.name);
    return cli_usage_error(NULL, "there is no command \"%s\"", name);
}

static void print_overview(void)
{
    printf("Usage: simba [OPTION...] COMMAND [ARGUMENT...]\n\n"
           "Distributed mutexes and leader election over the store you already run.\n\n");
    for (const cli_command *command = cli_commands; command->name != NULL; command++) {
        if (command->purpose != NULL)
            printf("%s:\n", command->purpose);
        if (command->help != NULL)
            printf("  %-10s %s\n", command->name, command->help);
    }
    printf("\nOptions, before or after the name of a command:\n");
    cli_print_global_options(CLI_TAKES_ALL);
    printf("  -h, --help                Explain simba, or the command\n"
           "  -V, --version             Print the version\n\n"
           "Without --url: $SIMBA_URL, then the configuration file, then a SQLite file of yours.\n"
           "Exit codes: 0 done, 1 failed, 64 usage, 65 note too long, 69 store unreachable, 71 system,\n"
           "75 not obtained in time, 77 no permission, 78 configuration, 79 leadership lost;\n"
           "`run` exits with its command's. See simba(1), simba-url(5).\n");
}

int cmd_help(cli_globals *globals, int argc, char **argv)
{
    const cli_syntax syntax = {
        .command = "help",
        .operands = "[COMMAND]",
        .about = "Explains simba, or one of its commands.",
        .takes = CLI_TAKES_ALL,
        .max_operands = 1,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (argc == 0) {
        print_overview();
        return CLI_OK;
    }
    const cli_command *command = cli_find_command(argv[0]);
    if (command == NULL)
        return cli_no_command(argv[0]);
    return command->run(globals, 2, (char *[]){argv[0], "--help", NULL});
}

int cmd_version(cli_globals *globals, int argc, char **argv)
{
    bool json = false;
    const cli_option own[] = {{"json", 0, CLI_FLAG, NULL, "Print an object", &json}};
    const cli_syntax syntax = {
        .command = "version",
        .about = "Prints the version of simba and of the library that it has loaded.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_NONE,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;

    char built[32];
    snprintf(built, sizeof built, "%d.%d.%d", SIMBA_VERSION_MAJOR, SIMBA_VERSION_MINOR, SIMBA_VERSION_PATCH);
    printf(json ? "{\"command\":\"%s\",\"library\":\"%s\"}\n" : "simba %s (library %s)\n", built, simba_version());
    return CLI_OK;
}

int main(int argc, char **argv)
{
    cli_globals globals = {.ttl_ms = SIMBA_INHERIT, .transition_ms = SIMBA_INHERIT, .dispatch = SIMBA_DISPATCH_POOL};
    bool want_help = false;
    bool want_version = false;
    char *arguments[argc + 1]; /* reading them moves them */
    memcpy(arguments, argv, sizeof arguments);
    globals.arguments = arguments;
    const cli_option options[] = {
        {"help", 'h', CLI_FLAG, NULL, "Explain simba", &want_help},
        {"version", 'V', CLI_FLAG, NULL, "Print the version", &want_version},
    };
    const cli_syntax syntax = {
        .command = NULL,
        CLI_OPTIONS(options),
        .takes = CLI_TAKES_ALL,
        .max_operands = -1,
    };

    const int parsed = cli_parse(&syntax, &globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (want_version)
        return cli_flush(cmd_version(&globals, 1, (char *[]){"version", NULL}));
    if (want_help)
        return cli_flush(cmd_help(&globals, 1, (char *[]){"help", NULL}));
    if (argc == 0)
        return cli_usage_error(NULL, "a command is missing");

    const cli_command *command = cli_find_command(argv[0]);
    if (command == NULL)
        return cli_no_command(argv[0]);
    return cli_flush(command->run(&globals, argc, argv));
}
