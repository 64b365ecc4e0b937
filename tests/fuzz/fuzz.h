/* What the fuzz targets share. A target is a function that is given some bytes and does with them what the product does with
 * bytes from outside. All targets are in one program, simba-fuzz, which libFuzzer drives; its first argument names the target.
 *
 * A target finds a fault by crashing: a sanitizer, an assert of the product, or FUZZ_CHECK below. It must do the same each time
 * that it is given the same bytes. */
#ifndef SIMBA_TESTS_FUZZ_H
#define SIMBA_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct fuzz_target {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
} fuzz_target;

/* All targets, ended by one without a name. */
extern const fuzz_target fuzz_targets[];

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_failed(const char *file, int line, const char *condition);

/* The bytes as a sequence of choices, for targets that need structure. When there are none left, all further ones are 0. */
typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

uint8_t fuzz_byte(fuzz_input *in);
/* Below `end`, which is at most 256. */
unsigned fuzz_below(fuzz_input *in, unsigned end);
/* Small, large, negative, or one of those at which arithmetic goes wrong. */
int64_t fuzz_number(fuzz_input *in);
/* A string of up to `most` bytes in `out`, which has room for one more. Its length comes from the input. */
size_t fuzz_text(fuzz_input *in, char *out, size_t most);
/* Some bytes of these become others, and some at the end may be lost: how many are left. */
size_t fuzz_mangle(fuzz_input *in, unsigned char *bytes, size_t length);
/* The input as a string, without its first byte that is zero and what comes after it. Free it. */
char *fuzz_string(const uint8_t *data, size_t size);
/* Is this text, which somebody is going to see, UTF-8 without control characters? */
bool fuzz_is_shown_safely(const char *text);

#endif
