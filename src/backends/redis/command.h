/* Commands, as the protocol has them. */
#ifndef SIMBA_BACKENDS_REDIS_COMMAND_H
#define SIMBA_BACKENDS_REDIS_COMMAND_H

#include "net/buffer.h"

/* One command. */
void simba__redis_put(simba__buffer *buffer, size_t argc, const char *const *argv);

#endif
