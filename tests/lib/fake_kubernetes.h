/* A server of the tests' own that answers as Kubernetes' API server was seen to answer, as far as simba asks: leases (get, list, watch,
 * create, replace, merge-patch, delete), pods and their labels, reviews of one's own access. It speaks HTTP/1.1, and TLS where a connection
 * begins with it. tests/backends/test_kubernetes_server.c holds it and the real server against the same cases. */
#ifndef TESTS_LIB_FAKE_KUBERNETES_H
#define TESTS_LIB_FAKE_KUBERNETES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first may do everything, the second is known and may do nothing, any other is unknown. */
#define FAKE_KUBERNETES_TOKEN "secret"
#define FAKE_KUBERNETES_WEAK_TOKEN "weak"

typedef enum fake_kube_fault {
    FAKE_KUBE_WELL,
    FAKE_KUBE_TOO_MANY,     /* 429 with Retry-After: 1; nothing is done */
    FAKE_KUBE_BROKEN,       /* 500; nothing is done */
    FAKE_KUBE_UNAUTHORIZED, /* 401; nothing is done */
    FAKE_KUBE_UNSURE,       /* it is done, and the answer is 504 */
    FAKE_KUBE_LOST,         /* it is done, and the connection ends without an answer */
    FAKE_KUBE_SILENT,       /* nothing is done, and no answer comes */
    FAKE_KUBE_STALE,        /* a GET of one object reads the version before the latest */
    FAKE_KUBE_GONE,         /* 410: as an event of a watch, otherwise as the answer */
} fake_kube_fault;

struct json_t;
struct ssl_ctx_st;
struct fake_kube_connection;

typedef struct fake_kube_objects {
    struct json_t *objects; /* by "leases/NAMESPACE/NAME" */
    struct json_t *history; /* events {"type", "object", "key", "version"}, oldest first */
    uint64_t version;       /* the latest */
    uint64_t oldest;        /* a watch from an earlier version than this is told 410 */
    uint64_t
        shown; /* what watches and reads with resourceVersion=0 see: less than `version` while the watch cache lags */
    bool lags;
    unsigned made;
    char forbidden[64]; /* verbs that nobody may use */
} fake_kube_objects;

typedef struct fake_kubernetes {
    int port;
    int listener;
    pthread_t thread;
    struct ssl_ctx_st *tls;
    pthread_mutex_t lock; /* guards what follows */
    fake_kube_objects objects;
    struct fake_kube_connection *connections;
    bool stops;
    fake_kube_fault fault;
    char faulty_method[8];
    unsigned faults_left;
    char asked[65536]; /* a line "METHOD TARGET" for each request, as far as there is room */
    size_t asked_size;
    bool freezes;
} fake_kubernetes;

/* On this port, or with 0 on a free one. `folder` has cert.pem and key.pem; NULL: without TLS. Aborts if the system refuses. */
void fake_kubernetes_start(fake_kubernetes *fake, int port, const char *folder);
void fake_kubernetes_stop(fake_kubernetes *fake);

/* The next `times` requests by this method go wrong. "WATCH" is the method of watches. */
void fake_kubernetes_fail(fake_kubernetes *fake, fake_kube_fault fault, const char *method, unsigned times);
/* Have all of them? */
bool fake_kubernetes_has_failed(fake_kubernetes *fake);
/* From now on the watch cache lags: watches are told nothing new. Until it does not lag any more. */
void fake_kubernetes_lag(fake_kubernetes *fake, bool lags);
/* Forget all history: who watches from an earlier version is told 410. */
void fake_kubernetes_compact(fake_kubernetes *fake);
/* From now on it answers nothing: requests that come meanwhile are lost. Until it does not freeze any more. */
void fake_kubernetes_freeze(fake_kubernetes *fake, bool freezes);
/* Nobody may use these verbs: a list with commas, such as "watch,delete". */
void fake_kubernetes_forbid(fake_kubernetes *fake, const char *verbs);
/* End all connections. */
void fake_kubernetes_cut(fake_kubernetes *fake);
/* How many requests began with this text, such as "PATCH /apis/coordination", since the start? */
unsigned fake_kubernetes_asked(fake_kubernetes *fake, const char *text);

/* --- fake_kubernetes_objects.c: pure, for fake_kubernetes.c and for the simulator ----------------------------- */

enum { FAKE_KUBE_PATH = 1024 };

typedef struct fake_kube_request {
    char method[8];
    char path[FAKE_KUBE_PATH];
    char query[2 * FAKE_KUBE_PATH];
    char token[64];
    char type[64]; /* Content-Type */
    const char *body;
    size_t size;
} fake_kube_request;

/* `code` 0: a watch begins. */
typedef struct fake_kube_answer {
    int code;
    struct json_t *body; /* of the caller; NULL: the text "ok" */
} fake_kube_answer;

/* A watch in progress. */
typedef struct fake_kube_watch {
    char prefix[FAKE_KUBE_PATH]; /* of the keys that it is about; with `exact` the one key */
    bool exact, bookmarks;
    uint64_t version; /* told up to here */
    size_t next;      /* of the history */
    long timeout_ms;
} fake_kube_watch;

void fake_kube_objects_init(fake_kube_objects *o);
void fake_kube_objects_fini(fake_kube_objects *o);
fake_kube_answer fake_kube_handle(fake_kube_objects *o, const fake_kube_request *request, bool stale,
                                  fake_kube_watch *ret_watch);
/* What a watch is to be told now, as text that the caller frees; NULL: nothing. */
char *fake_kube_events(fake_kube_objects *o, fake_kube_watch *watch);
char *fake_kube_bookmark(const fake_kube_watch *watch);
/* A failure, as the server words it. */
fake_kube_answer fake_kube_failure(int code, const char *reason, const char *message);
/* The value of a parameter of a query, decoded; false: there is none. */
bool fake_kube_parameter(const char *query, const char *name, size_t size, char *ret_value);

/* --- fake_kubernetes_http.c: likewise ---------------------------------------------------------------------------- */

/* A request without its body, of which it says the size, from all that comes before its empty line. False: it is none. */
bool fake_kube_parse(const char *head, fake_kube_request *ret_request);
/* An answer with its header; a chunk, without text the last one. The caller frees them. A long answer comes in chunks, as from Go's
 * library, which sends it before it knows the length. The answer's body is given back. */
char *fake_kube_answer_text(fake_kube_answer answer);
char *fake_kube_chunk(const char *text);
extern const char fake_kube_watch_head[];

#endif
