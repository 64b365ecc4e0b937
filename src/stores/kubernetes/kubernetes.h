/* What the files of the Kubernetes store share. kubernetes.c begins with the whole story. */
#ifndef SIMBA_STORES_KUBERNETES_KUBERNETES_H
#define SIMBA_STORES_KUBERNETES_KUBERNETES_H

#include "net/http.h"
#include "net/json.h"
#include "stores/versioned/versioned.h"
#include "util/list.h"
#include "util/table.h"

typedef struct kube_store kube_store;
typedef struct kube_mutex kube_mutex;
typedef struct kube_call kube_call;

enum {
    KUBE_NAME_SIZE = 254,       /* of the longest name of an object, with a zero byte */
    KUBE_NAMESPACE_SIZE = 64,   /* likewise */
    KUBE_TARGET_SIZE = 1024,    /* of a request */
    KUBE_CONNECTIONS = 8,       /* for requests; each answers one after the other */
    KUBE_OBJECT_MOST = 1 << 20, /* bytes of a Lease with what others write there, or of a Status */
    KUBE_LIST_MOST = 16 << 20,  /* of a page of Leases */
    KUBE_PAGE = 200,            /* Leases */
};

/* --- Leases (lease.c) ---------------------------------------------------------------------------------- */

typedef struct kube_lease {
    char name[KUBE_NAME_SIZE];
    char mutex[SIMBA_MUTEX_BYTES + 1];
    versioned_record record;
    const char *flaw; /* why it cannot be used; NULL: it can */
    bool note_damaged;
    size_t note_size;
    unsigned char note[SIMBA_NOTE_MAX + 1];
} kube_lease;

/* The name of a mutex's Lease: the mutex, if an object can have that name. */
void simba__kube_name(const char *mutex, char ret_name[KUBE_NAME_SIZE]);
/* False: this is no Lease with a name and a version. */
bool simba__kube_parse_lease(simba__json object, kube_lease *ret_lease);
/* The bodies of requests. `note`: with the note of this request. */
void simba__kube_put_new(simba__buffer *out, const char *name, const char *mutex);
void simba__kube_put_patch(simba__buffer *out, const versioned_record *wanted, uint64_t replaced,
                           const simba_request *note);
void simba__kube_put_removal(simba__buffer *out, const versioned_record *known);

/* --- the URL and the credentials (options.c) ----------------------------------------------------------- */

typedef struct kube_options {
    simba__endpoint at;
    char space[KUBE_NAMESPACE_SIZE];
    bool tls;
    simba__tls_files files;
    char *token_file;              /* NULL: none */
    char *label_key, *label_value; /* of this pod, while the client leads; NULL: none */
    char pod[KUBE_NAME_SIZE];
    int64_t connect_timeout_ns, timeout_ns;
} kube_options;

/* On SIMBA_EURL, SIMBA_ENOMEM too, free them. Reads files. */
int simba__kube_options_parse(const simba_url *url, kube_options *ret_options, simba_error *err);
void simba__kube_options_free(kube_options *options);
/* "Bearer TOKEN", of the first line of a file. SIMBA_EURL names the file; SIMBA_ENOMEM. */
int simba__kube_read_token(const char *path, char **ret_bearer, simba_error *err);

/* --- requests (calls.c) -------------------------------------------------------------------------------- */

/* A member of whoever asks. `over` is told the answer's status and body, or 0 and an error. */
struct kube_call {
    simba__http_call http;
    kube_store *store;
    void (*over)(kube_call *call, int status, simba__json body, const simba_error *error);
};

/* 0; or SIMBA_ENOMEM. `body` NULL: none. */
int simba__kube_send(kube_store *store, simba__http *http, kube_call *call, const char *method, const char *path,
                     const simba__buffer *body);
/* The path of a Lease, or of all (NULL), with what follows it. */
const char *simba__kube_path(const kube_store *store, const char *name, const char *more,
                             char ret_path[KUBE_TARGET_SIZE]);
/* A connection for a request. */
simba__http *simba__kube_connection(kube_store *store, bool hurries);
/* What a status that refuses means, in words; or the error, if there was no answer. */
simba_error simba__kube_refusal(const kube_store *store, const char *what, int status, simba__json body,
                                const simba_error *error);
/* When to try again after so many failures in a row: pauses grow up to `most_ms`, and no sooner than the server has asked for. */
simba_local simba__kube_again_at(kube_store *store, unsigned failures, int64_t first_ms, int64_t most_ms);
int simba__kube_calls_init(kube_store *store);
void simba__kube_calls_fini(kube_store *store);

/* --- mutexes (kubernetes.c) ---------------------------------------------------------------------------- */

struct kube_mutex {
    simba__node node;
    kube_store *store;
    versioned_mutex state;
    simba_request *first, *last; /* in order; the first has its turn */
    kube_call call;              /* of the first one */
    versioned_ask asked;         /* what `call` asks */
    bool busy;                   /* `call` is under way */
    bool denied;                 /* it waits for another token */
    unsigned denials;
    bool broke;            /* a connection, under a write of the first one */
    simba_error trouble;   /* why such a write is not repeated; code 0: it may be */
    uint64_t leads;        /* the nonce of a grant of this client; 0: none */
    unsigned news;         /* to be told to `watch` */
    simba_watch *watch;    /* NULL: nobody's */
    bool listed;           /* by the list that the stream makes */
    simba__list_item idle; /* kept only for what it knows */
    char name[KUBE_NAME_SIZE];
    char mutex[];
};

/* NULL: out of memory; or nobody asks for it, without `make`. */
kube_mutex *simba__kube_mutex(kube_store *store, const char *name, bool make);
/* A stream shows a Lease. */
void simba__kube_saw(kube_mutex *mutex, const kube_lease *lease);
/* The store closes, and something that it waited for has ended. */
void simba__kube_closes(kube_store *store);

/* --- watches (watch.c) --------------------------------------------------------------------------------- */

typedef struct kube_stream {
    simba__http http;
    kube_call list, watch;
    simba_timer pause;
    size_t mutexes;            /* that it is for; 0: it is not there */
    bool live;                 /* it shows everything */
    bool doubted;              /* an answer has told more */
    char name[KUBE_NAME_SIZE]; /* of the one Lease; "": all of the namespace */
    uint64_t version;          /* everything up to it has been seen; 0: list first */
    char more[512];            /* where a list goes on */
    simba_local began_at;      /* the watch */
    bool outdated;             /* the server does not know what came after `version` */
    unsigned failures;         /* in a row */
} kube_stream;

int simba__kube_stream_init(kube_store *store);
int simba__kube_watch(kube_store *store, simba_watch *watch);
void simba__kube_unwatch(kube_store *store, simba_watch *watch);
/* The answer to a request for a watched mutex shows this version: so must the stream, soon. */
void simba__kube_answered(kube_store *store, uint64_t version);
void simba__kube_stream_close(kube_store *store);

/* --- LIST and EXAMINE (admin.c) ------------------------------------------------------------------------ */

typedef struct kube_walk {
    simba__list_item item;
    kube_store *store;
    simba_request *request;
    kube_call call;
    size_t step;    /* EXAMINE: of what is asked */
    char more[512]; /* LIST: where it goes on */
} kube_walk;

void simba__kube_walk(kube_store *store, simba_request *request);
void simba__kube_walk_end(kube_walk *walk, int code, const char *why);

/* --- the label of this pod (label.c) ------------------------------------------------------------------ */

typedef struct kube_label {
    kube_call call;
    simba_timer pause;
    size_t grants; /* that this client has */
    bool busy;
    bool known, is_set; /* `is_set` was asked for, and is so if `known` */
    unsigned failures;  /* in a row */
} kube_label;

/* There is one grant more, or less. */
void simba__kube_label(kube_store *store, bool leads);
int simba__kube_label_init(kube_store *store);
void simba__kube_label_close(kube_store *store);

/* --- the store ----------------------------------------------------------------------------------------- */

struct kube_store {
    simba_host *host;
    kube_options options;
    simba__links links;
    simba__http connections[KUBE_CONNECTIONS];
    kube_stream stream;
    simba__table mutexes;
    simba__list idle; /* of mutexes, the longest first */
    simba__list walks;
    kube_label label;
    simba_local wait_until; /* the server has asked to be left alone (429) */

    char *bearer;        /* "Bearer TOKEN"; NULL: none */
    simba_job token;     /* reads the file again */
    bool reads_token;    /* the job is under way */
    bool token_is_fresh; /* it was read since the server took one */
    char *token_read;    /* by the job */
    simba_error token_error;
    simba_timer token_due;
    bool closing, closed;
};

#endif
