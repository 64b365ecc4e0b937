/* The program around the targets: chooses one, and hands it what libFuzzer makes up. */
#include <simba.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "util/escape.h"

#define TARGET "SIMBA_FUZZ_TARGET"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const fuzz_target *chosen;

_Noreturn void fuzz_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

static const fuzz_target *find(const char *name)
{
    const fuzz_target *target = fuzz_targets;
    while (target->name && strcmp(target->name, name) != 0)
        target++;
    return target;
}

static _Noreturn void list_targets(void)
{
    for (const fuzz_target *target = fuzz_targets; target->name; target++)
        puts(target->name);
    exit(0);
}

/* The first argument is ours; libFuzzer gets the others. Processes that it starts find the name in their environment. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    if (*argc > 1 && strcmp((*argv)[1], "--list") == 0)
        list_targets();
    if (*argc > 1 && (*argv)[1][0] != '-' && find((*argv)[1])->name) {
        setenv(TARGET, (*argv)[1], 1);
        (*argv)[1] = (*argv)[0];
        ++*argv;
        --*argc;
    }
    const char *name = getenv(TARGET);
    chosen = find(name ? name : "");
    if (!chosen->name) {
        fprintf(stderr, "usage: simba-fuzz --list | TARGET [OPTION OF LIBFUZZER | FILE | FOLDER]...\n");
        exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    chosen->run(data, size);
    return 0;
}

/* --- choices ------------------------------------------------------------------------------------------ */

uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

unsigned fuzz_below(fuzz_input *in, unsigned end)
{
    return fuzz_byte(in) % end;
}

int64_t fuzz_number(fuzz_input *in)
{
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MAX - 1,
                                    INT64_MIN + 1,
                                    INT32_MAX,
                                    INT32_MIN,
                                    UINT32_MAX,
                                    INT64_C(1000000),
                                    INT64_C(1) << 53,
                                    INT64_C(1) << 62,
                                    INT64_MAX / 1000,
                                    INT64_MAX / 1000000,
                                    16384};
    const unsigned kind = fuzz_byte(in);
    if (kind < 64)
        return edges[kind % (sizeof edges / sizeof *edges)];
    uint64_t number = 0;
    for (unsigned bytes = kind % 8 + 1; bytes > 0; bytes--)
        number = number << 8 | fuzz_byte(in);
    return (int64_t)number;
}

size_t fuzz_text(fuzz_input *in, char *out, size_t most)
{
    size_t length = fuzz_byte(in);
    length = length > in->left ? in->left : length;
    length = length > most ? most : length;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)fuzz_byte(in);
    out[length] = '\0';
    return length;
}

size_t fuzz_mangle(fuzz_input *in, unsigned char *bytes, size_t length)
{
    for (unsigned n = 1 + fuzz_below(in, 4); n > 0 && length > 0; n--)
        bytes[(fuzz_byte(in) | (size_t)fuzz_byte(in) << 8) % length] = fuzz_byte(in);
    return fuzz_below(in, 4) == 3 ? length - fuzz_byte(in) % (length + 1) : length;
}

char *fuzz_string(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

bool fuzz_is_shown_safely(const char *text)
{
    uint32_t code;
    for (size_t length; *text; text += length)
        if ((length = simba__utf8_next(text, &code)) == 0 || !simba__is_printable(code))
            return false;
    return true;
}

/* The file that has it opens clients, and is not needed. */
const char *simba_version(void)
{
    return "fuzz";
}
