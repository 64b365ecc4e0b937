/* See recent.h. */
#include "backends/sqlite/recent.h"

#include <string.h>

const simba__row *simba__sqlite_recent_find(const simba__sqlite_recent *recent, uint64_t hash, const char *mutex)
{
    const struct simba__sqlite_recent_row *kept = &recent->rows[hash % SIMBA__SQLITE_RECENT_ROWS];
    return kept->mutex[0] != '\0' && strcmp(kept->mutex, mutex) == 0 ? &kept->row : NULL;
}

void simba__sqlite_recent_keep(simba__sqlite_recent *recent, uint64_t hash, const char *mutex, const simba__row *row)
{
    struct simba__sqlite_recent_row *kept = &recent->rows[hash % SIMBA__SQLITE_RECENT_ROWS];
    const size_t length = strlen(mutex);
    kept->mutex[0] = '\0';
    if (length > SIMBA__SQLITE_RECENT_NAME)
        return;
    memcpy(kept->mutex, mutex, length + 1);
    kept->row = *row;
    kept->row.note_token = kept->row.note_number = 0;
    kept->row.note_written_at_ms = 0;
}

void simba__sqlite_recent_forget(simba__sqlite_recent *recent)
{
    for (size_t i = 0; i < SIMBA__SQLITE_RECENT_ROWS; i++)
        recent->rows[i].mutex[0] = '\0';
}
