/* Connections of stores and of client libraries, which make their own sockets: connect() is the one of this file. It connects whatever the address is
 * to the target, over a pair of sockets. The target reads there what the library has sent, and answers. */
#ifndef SIMBA_TESTS_FUZZ_WIRES_H
#define SIMBA_TESTS_FUZZ_WIRES_H

#include <stdbool.h>
#include <stddef.h>

enum { FUZZ_WIRES = 64 };

/* How many there are, in the order of their making; those that were closed are still counted. */
extern size_t fuzz_wire_count;
/* Is called for a connection that was just made, and whenever something was sent over one: for libraries that block until they are
 * answered. NULL: nobody is. */
extern void (*fuzz_wire_stirred)(size_t wire, bool is_new);

/* Does connect() say that it is under way, and is done a moment later, as over TCP? Otherwise it is done at once. */
extern bool fuzz_wire_takes_its_time;

/* Connections are refused, from now on. */
extern bool fuzz_wire_refuses;

/* What was sent over it since this was asked last, cut off at `size`. */
size_t fuzz_wire_take(size_t wire, unsigned char *ret_bytes, size_t size);
void fuzz_wire_send(size_t wire, const void *bytes, size_t length);
void fuzz_wire_close(size_t wire); /* like the other two, it leaves alone one that is not there */
/* All are closed and forgotten. */
void fuzz_wires_end(void);

#endif
