/* Points in time, as people and programs read them. */
#ifndef SIMBA_CLI_WHEN_H
#define SIMBA_CLI_WHEN_H

#include <stdint.h>

#define WHEN_SIZE 32

/* "2026-11-16T03:15:00Z", with milliseconds if there are any, which date(1) reads; "-" for 0. Returns `ret_text`. */
const char *when_utc(int64_t ms, char ret_text[WHEN_SIZE]);

#endif
