/* Redis, Valkey and servers that speak like them, as a store. Its modules, the lowest first; each has a header of its own and
 * uses only those above it here:
 *
 *   options     what the URL says                       slots     which slot of a cluster a mutex is in
 *   writer      commands, as bytes on their way out     reader    replies out of bytes, within bounds
 *   reply       what an answer or a refusal means       scripts   the Lua scripts
 *   conn        one connection (net/link.h): greeting, and whole replies
 *   errands     requests and commands of our own, as plain data, and their pool
 *   session     the protocol of a command connection, pure: events in, commands and outcomes out
 *   commands    the command connection: carries out what the session decides
 *   node        a server: a command connection and a subscription connection
 *   waiters     who waits here, and what to listen for  subs      the subscription connections
 *   list        LIST, which takes many commands         examine   how a server is set up
 *   store       what requests say, and what becomes of their answers
 *   inquiry     a question to several servers, one after the other
 *   single, sentinel, cluster   topologies: which server a mutex is on, and how to find that out
 *   backend     the table of functions
 *
 * Everything runs under the lock of the client, on any thread that has something to ask or to read. Only the parser of hiredis is used. */
#ifndef SIMBA_BACKENDS_REDIS_H
#define SIMBA_BACKENDS_REDIS_H

#include <simba/backend.h>

extern const simba_backend simba__backend_redis;

#endif
