/* What the command reads: its configuration file, its options, and event logs. What it would print goes nowhere, but has to be
 * fit to be shown. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"
#include "config.h"
#include "fuzz/targets.h"
#include "log.h"
#include "timeline/log.h"
#include "util/escape.h"

/* --- in place of log.c -------------------------------------------------------------------------------------- */

static void check_words(const char *format, va_list args)
{
    char text[SIMBA__FORMAT_MAX];
    simba__escape_format(text, sizeof text, format, args);
    FUZZ_CHECK(text[0] != '\0' && fuzz_is_shown_safely(text));
}

#define SAY(name)                                                                                                      \
    void name(const char *command, const char *format, ...)                                                            \
    {                                                                                                                  \
        (void)command;                                                                                                 \
        va_list args;                                                                                                  \
        va_start(args, format);                                                                                        \
        check_words(format, args);                                                                                     \
        va_end(args);                                                                                                  \
    }
SAY(cli_error)
SAY(cli_warn)
SAY(cli_info)

int cli_fail(const char *command, int code, const char *format, ...)
{
    (void)command;
    va_list args;
    va_start(args, format);
    check_words(format, args);
    va_end(args);
    return code;
}

bool log_set_format(const char *name)
{
    return !name || strcmp(name, "text") == 0;
}

char *log_line(const char *command, log_source source, const simba_log_record *record)
{
    (void)command;
    (void)source;
    (void)record;
    return NULL;
}

void log_write(const char *line)
{
    (void)line;
}

/* In place of open.c: no file of the fuzzer names another store than an option does. */
bool cli_names_store(const cli_globals *globals)
{
    return globals->url != NULL;
}

/* --- config ---------------------------------------------------------------------------------------------------- */

/* A file in memory, whose path stays the same. */
static const char *file_of(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        fd = memfd_create("simba-fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

void fuzz_config(const uint8_t *data, size_t size)
{
    cli_globals globals = {.ttl_ms = SIMBA_INHERIT, .transition_ms = SIMBA_INHERIT};
    unsetenv("SIMBA_URL");
    /* No file of the machine's is to be read as a password. */
    char *text = fuzz_string(data, size);
    const bool names_file = strstr(text, "password") != NULL;
    globals.config = names_file ? NULL : file_of(data, size);
    free(text);
    if (names_file)
        return;
    const int code = config_apply("fuzz", &globals);
    FUZZ_CHECK(code == CLI_GO || code == CLI_CONFIG);
    FUZZ_CHECK(globals.configured && (code == CLI_GO || !globals.url));
    FUZZ_CHECK(globals.ttl_ms == SIMBA_INHERIT || globals.ttl_ms >= 0);
}

/* --- command_line ------------------------------------------------------------------------------------------------ */

enum { ARGUMENTS = 16 };

/* Arguments are the lines of the input. */
void fuzz_command_line(const uint8_t *data, size_t size)
{
    cli_globals globals = {.ttl_ms = SIMBA_INHERIT, .transition_ms = SIMBA_INHERIT};
    bool flag = false;
    int count = 0;
    const char *words = NULL;
    int64_t ms = 0;
    const cli_option own[] = {
        {"force", 'f', CLI_FLAG, NULL, "", &flag},
        {"more", 'm', CLI_COUNT, NULL, "", &count},
        {"name", 0, CLI_TEXT, "TEXT", "", &words},
        {"wait", 0, CLI_DURATION, "D", "", &ms},
    };
    fuzz_input in = {data, size};
    cli_syntax syntax = {.command = "fuzz", .operands = "A B", .about = "", .options = own, .option_count = 4};
    syntax.takes = fuzz_below(&in, CLI_TAKES_ALL + 1);
    syntax.min_operands = (int)fuzz_below(&in, 3);
    syntax.max_operands = (int)fuzz_below(&in, 5) - 1;
    syntax.verbatim_from = (int)fuzz_below(&in, 3);
    char *text = fuzz_string(in.at, in.left);
    char *argv[ARGUMENTS + 2] = {(char[]){"fuzz"}};
    int argc = 1;
    for (char *word = strtok(text, "\n"); word && argc <= ARGUMENTS; word = strtok(NULL, "\n"))
        if (strcmp(word, "--help") != 0 && !(word[0] == '-' && word[1] != '-' && strchr(word, 'h'))) /* which prints */
            argv[argc++] = word;
    const int code = cli_parse(&syntax, &globals, &argc, argv);
    FUZZ_CHECK(code == CLI_GO || code == CLI_USAGE);
    if (code == CLI_GO) {
        FUZZ_CHECK(argc >= syntax.min_operands && (syntax.max_operands < 0 || argc <= syntax.max_operands));
        FUZZ_CHECK(argv[argc] == NULL && ms >= 0 && ms <= SIMBA_LEASE_MAX_MS);
    }
    free(text);
}

/* --- event_log ---------------------------------------------------------------------------------------------------- */

/* The first bytes choose what is drawn, the others are the log. */
void fuzz_event_log(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const int64_t from_ms = (int64_t)fuzz_byte(&in) * fuzz_byte(&in);
    const int64_t to_ms = (int64_t)fuzz_byte(&in) * fuzz_byte(&in);
    const term t = {.stream = fopen("/dev/null", "w"), .colour = true, .utf8 = size % 2 == 0, .width = 20 + size % 100};
    FILE *log_file = in.left > 0 ? fmemopen((void *)(uintptr_t)in.at, in.left, "r") : NULL;
    timeline_log *log = timeline_log_new();
    timeline line;
    FUZZ_CHECK(t.stream && log);
    if (log_file && timeline_log_read(log, log_file) == 0 && timeline_log_draw(log, from_ms, to_ms, &line)) {
        FUZZ_CHECK(line.to_ms >= 1);
        for (size_t i = 0; i < line.row_count; i++)
            FUZZ_CHECK(fuzz_is_shown_safely(line.rows[i].name));
        timeline_print(&line, &t);
        timeline_svg(&line, "fuzz", t.stream);
    }
    timeline_log_free(log);
    if (log_file)
        fclose(log_file);
    fclose(t.stream);
}
