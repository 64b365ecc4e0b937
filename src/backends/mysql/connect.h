/* Connecting to the server, within one time limit and without giving a password away.
 *
 * The client library's blocking call does neither: it waits for each byte anew, its descriptor is not known until it is
 * done, it authenticates in whatever way the server asks for, and with verify=no it goes on without TLS if the server says
 * that it has none. So we use its non-blocking calls:
 *   - we wait for the descriptor ourselves, with one deadline over all steps, and show it to the thread that may interrupt us.
 *     Only the TLS handshake waits inside the library; the store cuts the descriptor when the deadline has passed;
 *   - if TLS is wanted, we read the server's greeting before the library does, and end the connection if it offers none;
 *   - if an attempt to reach the server has had no answer for 250 ms, or for half as long as we have tried, we give it up and
 *     make another. The kernel would repeat a lost packet only after a second.
 *
 * How the server may ask for the password:
 *   mysql_native_password, client_ed25519   always: the password itself is not sent
 *   caching_sha2_password                   over TLS, through a socket file, if the server's public key is known, or if there
 *                                           is no password. Otherwise the server may have it sent encrypted with a key that
 *                                           the server itself brings along, so that any server could read it
 *   mysql_clear_password                    over TLS with a server whose certificate or fingerprint was checked
 *   all others                              never; dialog would print the server's text and read our standard input */
#ifndef SIMBA_BACKENDS_MYSQL_CONNECT_H
#define SIMBA_BACKENDS_MYSQL_CONNECT_H

#include "backends/mysql/conn.h"

/* Fills in conn->mysql, also if it fails. */
int simba__my_connect(simba__my_conn *conn, simba__sql_failure *why);

#endif
