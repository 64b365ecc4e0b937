/* The inside of the model of Kubernetes, for the files that make it up:
 *
 *   kube_server.c  two API servers behind one address: connections, requests, watches
 *   kube_truth.c   what etcd has, and who leads by that
 *   kube_go.c      contenders in Go, by client-go
 *   kube_faults.c  what goes wrong with them
 *
 * The rules of objects, and HTTP, are those of the tests' own API server, see lib/fake_kubernetes.h. */
#ifndef TESTS_SIM_KUBE_MODEL_H
#define TESTS_SIM_KUBE_MODEL_H

#include <jansson.h>

#include "lib/fake_kubernetes.h"
#include "sim/world.h"

enum {
    KUBE_APIS = 2,
    KUBE_GOS = 2,
    KUBE_PENDING = 256,
    KUBE_IN = 16384, /* bytes of one request */
    /* EV_SERVER: who */
    KUBE_EV_APPLY = 0, /* arg: of `pending`, and its id */
    KUBE_EV_CACHE = 1, /* and the API server; arg: the version that its watch cache gets */
    KUBE_EV_WATCH = 8, /* arg: the wire */
    KUBE_EV_GO = 16,   /* and which; arg: the step */
};

typedef struct kube_api {
    int64_t down_until, frozen_until, lags_until, overloaded_until;
    uint64_t shown;  /* what its watch cache has */
    uint64_t oldest; /* and where that begins */
} kube_api;

/* A request that has come and was not carried out yet. That happens even if nobody waits for the answer any more. */
typedef struct kube_pending {
    bool used;
    uint32_t id;
    unsigned api, wire;
    uint32_t peer;
    fake_kube_request request;
    char body[KUBE_IN];
} kube_pending;

/* A contender in Go. */
typedef struct kube_go {
    char id[16];
    unsigned mutex;
    uint32_t version; /* of the step that is planned */
    bool alive, leaves, leads;
    json_t *lease;       /* as it read or wrote it last, with its version; NULL: it has seen none */
    json_t *observed;    /* the record as it was when it changed last */
    int64_t observed_at; /* and when it saw that */
    json_t *wanted;      /* what it is about to write */
    int64_t renewed_at;  /* its latest success */
    int64_t leads_until; /* then it has done its work */
    int64_t lease_ns, renew_ns, retry_ns;
} kube_go;

/* Who has a mutex, as the object says. */
typedef struct kube_owner {
    char holder[96]; /* "": nobody */
    char id[SIMBA_ID_MAX + 1];
    uint64_t nonce, token; /* 0: it is none of simba's */
    int64_t lease_ms;
    int64_t changed_at;
} kube_owner;

typedef struct kube_state {
    fake_kube_objects objects; /* in etcd */
    int64_t *written_at;       /* each event of their history */
    size_t written, capacity;
    int64_t etcd_away_until;
    kube_api api[KUBE_APIS];
    kube_owner owner[SIM_MUTEXES];
    kube_go go[KUBE_GOS];
    kube_pending *pending;
    uint32_t peers, requests; /* so far */
} kube_state;

kube_state *kube_state_of(const sim *s);
void kube_key(unsigned mutex, char *out, size_t size);

/* --- kube_truth.c ------------------------------------------------------------------------------------ */

/* Carry out a write or a read by this API server, and compare what it has changed. */
fake_kube_answer kube_carry_out(sim *s, unsigned api, const fake_kube_request *request, fake_kube_watch *watch);
/* Likewise, of something that is no client of the network. */
fake_kube_answer kube_write(sim *s, const char *method, unsigned mutex, const json_t *body);
/* etcd has lost what was written after this moment, and goes on with the next version, as after a restoration. */
void kube_rewind(sim *s, int64_t to);
bool kube_owner_of(const sim *s, unsigned mutex, simba_owner *ret_owner);

/* --- kube_server.c ----------------------------------------------------------------------------------- */

bool kube_is_up(const sim *s, unsigned api);
void kube_spread(sim *s); /* there is a new version */
void kube_drop(sim *s, unsigned api);
void kube_opened(sim *s, unsigned wire);
void kube_bytes(sim *s, unsigned wire, const char *data, size_t length);
void kube_closed(sim *s, unsigned wire);
void kube_event(sim *s, const sim_event *event);

/* --- kube_go.c --------------------------------------------------------------------------------------- */

void kube_gos_begin(sim *s);
void kube_gos_leave(sim *s);
void kube_gos_end(sim *s);
void kube_gos_event(sim *s, const sim_event *event);

#endif
