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

/* "8080" and "localhost:8080" are on the loopback interface; write other addresses as numbers, such as
 * "0.0.0.0:8080", so that nobody listens to the world by mistake and no name server is asked. A path has a slash in
 * it; "@name" is an abstract socket. False: it is none of these. */
bool address_parse(const char *text, address *ret_address);

/* The same, only for paths and abstract sockets. */
bool address_parse_socket(const char *text, address *ret_address);

/* Returns a descriptor that does not block, or a negative errno. Replaces a socket file at which nobody listens any
 * more. */
int address_listen(const address *at);

/* The path of a socket file; NULL: it is none. */
const char *address_path(const address *at);
/* The port; 0: let the system choose one; -1: a socket file, or an abstract socket. */
int address_port(const address *at);
/* Can only this machine reach it? */
bool address_is_local(const address *at);

#endif
