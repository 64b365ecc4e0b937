/* Which slot of a cluster a mutex is in. */
#ifndef SIMBA_BACKENDS_REDIS_SLOTS_H
#define SIMBA_BACKENDS_REDIS_SLOTS_H

#include <stdbool.h>

enum { REDIS_SLOTS = 16384 };

/* The slot of a cluster that the keys of a mutex are in. */
unsigned simba__redis_slot(const char *mutex);
/* Are they all in one? */
bool simba__redis_in_one_slot(const char *mutex);

#endif
