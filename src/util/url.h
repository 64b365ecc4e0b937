/* Store URLs: scheme://[user[:password]@]authority/path?key=value&… The accessors are public (simba/backend.h); this
 * adds what only the runtime needs. */
#ifndef SIMBA_UTIL_URL_H
#define SIMBA_UTIL_URL_H

#include <simba/backend.h>

/* Is every query key in one of the two NULL-ended lists? SIMBA_EURL names the first that is not, and the known ones. */
int simba__url_check_keys(const simba_url *url, const char *const *common, const char *const *own, simba_error *err);

/* Write "scheme://" and the path, escaping characters that have a meaning in URLs. False: it does not fit. */
bool simba__url_of_path(const char *scheme, const char *path, char *out, size_t size);

/* A query value as a duration; *ret_ms is untouched when the key was not given. SIMBA_EURL names the key. */
int simba__url_duration(const simba_url *url, const char *key, int64_t *ret_ms, simba_error *err);
/* The same, from 1ms to 1h. */
int simba__url_timeout(const simba_url *url, const char *key, unsigned *ret_ms, simba_error *err);
/* The same for yes and no. */
int simba__url_flag(const simba_url *url, const char *key, bool *ret_flag, simba_error *err);

#endif
