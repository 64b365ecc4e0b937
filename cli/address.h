/* Where to listen: "[ADDRESS:]PORT", or a socket file. */
#ifndef SIMBA_CLI_ADDRESS_H
#define SIMBA_CLI_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct address {
    struct sockaddr_storage socket;
    socklen_t length;
} address;

/* "8080" and "localhost:8080" are on the loopback interface; others are said by their number, as "0.0.0.0:8080", so that nobody
 * listens to the world by mistake, and no name server is asked. A path has a slash in it; "@name" is an abstract socket. False:
 * it is none of these. */
bool address_parse(const char *text, address *ret_address);

/* The same for paths and abstract sockets alone. */
bool address_parse_socket(const char *text, address *ret_address);

/* Returns a descriptor that does not block, or a negative errno. A socket file that nobody listens at any more is replaced. */
int address_listen(const address *at);

/* The path of a socket file; NULL: it is none. */
const char *address_path(const address *at);
/* The port, which is 0 if the system is to choose one; -1: a socket file, or an abstract socket. */
int address_port(const address *at);
/* Is it this machine alone that can reach it? */
bool address_is_local(const address *at);

#endif
