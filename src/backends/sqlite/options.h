/* The settings in the URL of a SQLite store. */
#ifndef SIMBA_BACKENDS_SQLITE_OPTIONS_H
#define SIMBA_BACKENDS_SQLITE_OPTIONS_H

#include <simba/backend.h>

/* The path lives as long as the URL. SIMBA_EURL. */
int simba__sqlite_read_url(const simba_url *url, const char **ret_path, bool *ret_sync_full, simba_error *err);

#endif
