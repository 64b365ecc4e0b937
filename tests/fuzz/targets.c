/* The list of targets. */
#include "fuzz/targets.h"

#define TARGET(name) {#name, fuzz_##name},

const fuzz_target fuzz_targets[] = {FUZZ_TARGETS{NULL, NULL}};
