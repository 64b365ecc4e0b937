/* The command `simba`: finds the command in the one table there is and runs it. */
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
    {"elect", "Contend, and tell scripts when leadership comes and goes", cmd_elect, NULL},
    {"list", "List the mutexes of a store and who owns them", cmd_list, "Look"},
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
    {"torture", "Kill, pause and cut off contenders of a store, and judge what they did", TOOL(cmd_torture), NULL},
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
