/* `simba help`: the overview, or what one command says about itself. */
#include <stdio.h>

#include "cli.h"

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
