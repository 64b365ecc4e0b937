/* Settings in the URLs of SQL stores. `store` begins the sentences of errors ("mysql"). If a key is not given, the
 * value stays as it is. SIMBA_EURL. */
#ifndef SIMBA_BACKENDS_SQL_SETTINGS_H
#define SIMBA_BACKENDS_SQL_SETTINGS_H

#include <simba/backend.h>

int simba__sql_setting_number(const simba_url *url, const char *store, const char *key, long least, long most,
                              unsigned *number, simba_error *err);
/* yes or no */
int simba__sql_setting_flag(const simba_url *url, const char *store, const char *key, bool *flag, simba_error *err);
/* 1ms to 1h */
int simba__sql_setting_ms(const simba_url *url, const char *store, const char *key, unsigned *ms, simba_error *err);
/* A name that goes into statements: only letters, digits and _, at most `most`. `name` has room for one more. */
int simba__sql_setting_name(const simba_url *url, const char *store, const char *key, size_t most, char *name,
                            simba_error *err);

#endif
