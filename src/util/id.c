/* Generators of contender ids, in the two forms that a mixed fleet already has in its stores. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <simba.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/random.h"

enum { ADDRESS_SIZE = INET6_ADDRSTRLEN };

/* Higher is better: a person wants to recognise the host by it. */
static int rank(const struct ifaddrs *entry)
{
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || (entry->ifa_flags & IFF_LOOPBACK))
        return 0;
    if (entry->ifa_addr->sa_family == AF_INET)
        return 3;
    if (entry->ifa_addr->sa_family != AF_INET6)
        return 0;
    const struct sockaddr_in6 *address = (const void *)entry->ifa_addr;
    return IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) ? 1 : 2;
}

/* From the interfaces and not from the host's name: that might ask a name server, and wait for it. False: there is none
 * but the loopback one. */
static bool find_address(char out[ADDRESS_SIZE])
{
    strcpy(out, "127.0.0.1");
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return false;
    const struct ifaddrs *best = NULL;
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next)
        if (rank(entry) > (best ? rank(best) : 0))
            best = entry;
    if (best && best->ifa_addr->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)best->ifa_addr)->sin_addr, out, ADDRESS_SIZE);
    else if (best)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)best->ifa_addr)->sin6_addr, out, ADDRESS_SIZE);
    freeifaddrs(all);
    return best != NULL;
}

/* Asking the kernel costs more than all else about a new contender, so a good answer is kept. Without a lock: a child of
 * fork() would find it held for ever. */
static void host_address(char out[ADDRESS_SIZE])
{
    enum { NONE, WRITING, KEPT };
    static _Atomic int state;
    static char kept[ADDRESS_SIZE];
    if (atomic_load_explicit(&state, memory_order_acquire) == KEPT) {
        memcpy(out, kept, sizeof kept);
        return;
    }
    int none = NONE;
    if (find_address(out) && atomic_compare_exchange_strong(&state, &none, WRITING)) {
        memcpy(kept, out, sizeof kept);
        atomic_store_explicit(&state, KEPT, memory_order_release);
    }
}

void simba_id_host(char ret_id[SIMBA_ID_MAX + 1])
{
    static _Atomic uint64_t counter;
    char address[ADDRESS_SIZE];
    host_address(address);
    snprintf(ret_id, SIMBA_ID_MAX + 1, "%" PRIu64 ":%ld@%s", atomic_fetch_add(&counter, 1), (long)getpid(), address);
}

int simba_id_uuid(char ret_id[SIMBA_ID_MAX + 1])
{
    unsigned char bytes[16];
    const int rc = simba__random_bytes(bytes, sizeof bytes);
    if (rc < 0)
        return rc;
    bytes[6] = (unsigned char)((bytes[6] & 0x0F) | 0x40); /* version 4 */
    bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret_id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}
