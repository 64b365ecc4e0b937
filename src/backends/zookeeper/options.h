/* The settings in the URL of a ZooKeeper store. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_OPTIONS_H
#define SIMBA_BACKENDS_ZOOKEEPER_OPTIONS_H

#include <simba/backend.h>
#include <zookeeper/zookeeper.h>

#include "net/endpoint.h"

typedef enum zk_acl {
    ZK_ACL_OPEN,    /* everybody may do everything */
    ZK_ACL_CREATOR, /* only clients with the creator's credentials may do anything */
    ZK_ACL_READ,    /* the same, and everybody may read */
} zk_acl;

typedef struct zk_options {
    simba__endpoint *hosts;
    size_t host_count;
    char *root;   /* "/chroot/simba" */
    char *notes;  /* "/chroot/simba-notes": see stored_note.h */
    char *digest; /* "user:password"; NULL: none */
    zk_acl acl;
    int session_ms;
    char where[128]; /* for messages */
} zk_options;

int simba__zk_options_parse(const simba_url *url, zk_options *ret_options, simba_error *err);
void simba__zk_options_free(zk_options *options);
/* The rights of the nodes that the store makes. */
const struct ACL_vector *simba__zk_acl(const zk_options *options);

#endif
