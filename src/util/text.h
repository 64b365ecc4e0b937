/* The rules for names. */
#ifndef SIMBA_UTIL_TEXT_H
#define SIMBA_UTIL_TEXT_H

#include <simba.h>

/* 0, or SIMBA_EINVAL and a sentence. `mutex` and `id` may be NULL or any other argument of a caller. */
int simba__check_mutex(const char *mutex, simba_error *err);
int simba__check_id(const char *id, simba_error *err);

/* How many bytes of `text` to show in `most` bytes of room, without cutting a character in half. For "%.*s". */
int simba__text_cut(const char *text, size_t most);

#endif
