/* See fault.h. The script and the counters of a case. Their lock is a leaf: code that holds it calls nothing. */
#include "fault.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tck_fault {
    tck_fault *next;
    unsigned handle;
    char *url;
    void (*notify)(void *user);
    void *notify_user;

    pthread_mutex_t lock;
    simba_host *host; /* the client's, to wake it; NULL: not open */
    tck_cut cut;
    tck_pushes pushes;
    bool hold[TCK_OPS];
    bool expire[TCK_OPS];
    unsigned fail_in[TCK_OPS + 1]; /* countdowns; 0: none */
    unsigned lose_in[TCK_OPS + 1];
    uint64_t counts[TCK_OPS][TCK_COUNTS];
};

/* All remote controls. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static tck_fault *registry;
static unsigned last_handle;

void tck_fault_add(tck_fault *fault, int op, tck_count what, int by)
{
    pthread_mutex_lock(&fault->lock);
    fault->counts[op][what] += (uint64_t)(int64_t)by;
    pthread_mutex_unlock(&fault->lock);
    if (fault->notify)
        fault->notify(fault->notify_user);
}

uint64_t tck_fault_count(tck_fault *fault, int op, tck_count what)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&fault->lock);
    for (int i = 0; i < TCK_OPS; i++)
        if (op == i || op == TCK_ANY_OP)
            sum += fault->counts[i][what];
    pthread_mutex_unlock(&fault->lock);
    return sum;
}

void tck_fault_cut(tck_fault *fault, tck_cut cut)
{
    pthread_mutex_lock(&fault->lock);
    fault->cut = cut;
    pthread_mutex_unlock(&fault->lock);
}

void tck_fault_fail_nth(tck_fault *fault, int op, unsigned nth)
{
    pthread_mutex_lock(&fault->lock);
    fault->fail_in[op] = nth;
    pthread_mutex_unlock(&fault->lock);
}

void tck_fault_lose_reply_nth(tck_fault *fault, int op, unsigned nth)
{
    pthread_mutex_lock(&fault->lock);
    fault->lose_in[op] = nth;
    pthread_mutex_unlock(&fault->lock);
}

void tck_fault_pushes(tck_fault *fault, tck_pushes pushes)
{
    pthread_mutex_lock(&fault->lock);
    fault->pushes = pushes;
    pthread_mutex_unlock(&fault->lock);
}

static void set_hold(tck_fault *fault, int op, bool hold)
{
    pthread_mutex_lock(&fault->lock);
    for (int i = 0; i < TCK_OPS; i++)
        if (op == i || op == TCK_ANY_OP)
            fault->hold[i] = hold;
    simba_host *host = fault->host;
    pthread_mutex_unlock(&fault->lock);

    /* Replies are delivered in a critical section of the client. */
    if (!hold && host)
        host->wake(host);
}

void tck_fault_hold(tck_fault *fault, int op)
{
    set_hold(fault, op, true);
}

void tck_fault_let_go(tck_fault *fault, int op)
{
    set_hold(fault, op, false);
}

void tck_fault_expire(tck_fault *fault, int op)
{
    pthread_mutex_lock(&fault->lock);
    for (int i = 0; i < TCK_OPS; i++)
        fault->expire[i] |= op == i || op == TCK_ANY_OP;
    pthread_mutex_unlock(&fault->lock);
}

void tck_fault_heal(tck_fault *fault)
{
    pthread_mutex_lock(&fault->lock);
    fault->cut = TCK_CUT_NONE;
    fault->pushes = TCK_PUSHES_PASS;
    memset(fault->fail_in, 0, sizeof fault->fail_in);
    memset(fault->lose_in, 0, sizeof fault->lose_in);
    memset(fault->expire, 0, sizeof fault->expire);
    pthread_mutex_unlock(&fault->lock);
    tck_fault_let_go(fault, TCK_ANY_OP);
}

/* Count a script down. True: this request is the one. Under the lock. */
static bool strikes(unsigned script[TCK_OPS + 1], int op)
{
    bool strike = false;
    if (script[op] > 0)
        strike = --script[op] == 0;
    if (script[TCK_ANY_OP] > 0 && --script[TCK_ANY_OP] == 0)
        strike = true;
    return strike;
}

tck_verdict tck_fault_judge_request(tck_fault *fault, int op, bool *ret_lose_reply)
{
    tck_verdict verdict = TCK_PASS;
    pthread_mutex_lock(&fault->lock);
    const bool fail = strikes(fault->fail_in, op);
    *ret_lose_reply = strikes(fault->lose_in, op);
    if (fail || fault->cut == TCK_CUT_REFUSE)
        verdict = TCK_REFUSE;
    else if (fault->cut == TCK_CUT_SILENT)
        verdict = TCK_SWALLOW;
    pthread_mutex_unlock(&fault->lock);
    return verdict;
}

tck_verdict tck_fault_judge_reply(tck_fault *fault, int op, bool lose_reply)
{
    tck_verdict verdict = TCK_PASS;
    pthread_mutex_lock(&fault->lock);
    if (fault->cut == TCK_CUT_SILENT)
        verdict = TCK_SWALLOW;
    else if (fault->cut == TCK_CUT_REFUSE)
        verdict = TCK_REFUSE;
    else if (lose_reply)
        verdict = TCK_LOSE;
    else if (fault->hold[op])
        verdict = TCK_HOLD;
    pthread_mutex_unlock(&fault->lock);
    return verdict;
}

bool tck_fault_is_held(tck_fault *fault, int op)
{
    pthread_mutex_lock(&fault->lock);
    const bool held = fault->hold[op];
    pthread_mutex_unlock(&fault->lock);
    return held;
}

bool tck_fault_expires(tck_fault *fault, int op)
{
    pthread_mutex_lock(&fault->lock);
    const bool expires = fault->expire[op];
    pthread_mutex_unlock(&fault->lock);
    return expires;
}

bool tck_fault_is_cut(tck_fault *fault)
{
    pthread_mutex_lock(&fault->lock);
    const bool cut = fault->cut != TCK_CUT_NONE;
    pthread_mutex_unlock(&fault->lock);
    return cut;
}

int tck_fault_push_times(tck_fault *fault)
{
    pthread_mutex_lock(&fault->lock);
    const bool drop = fault->cut != TCK_CUT_NONE || fault->pushes == TCK_PUSHES_DROP;
    const int times = drop ? 0 : fault->pushes == TCK_PUSHES_TWICE ? 2 : 1;
    pthread_mutex_unlock(&fault->lock);
    return times;
}

/* --- handles and tables ---------------------------------------------------------------------------- */

tck_fault *tck_fault_find(const char *handle)
{
    pthread_mutex_lock(&registry_lock);
    tck_fault *found = registry;
    while (found && found->handle != strtoul(handle, NULL, 10))
        found = found->next;
    pthread_mutex_unlock(&registry_lock);
    return found;
}

int tck_fault_attach(tck_fault *fault, simba_host *host)
{
    pthread_mutex_lock(&fault->lock);
    const bool taken = fault->host != NULL;
    if (!taken)
        fault->host = host;
    pthread_mutex_unlock(&fault->lock);
    return taken ? SIMBA_ESTATE : 0;
}

void tck_fault_detach(tck_fault *fault, const simba_host *host)
{
    pthread_mutex_lock(&fault->lock);
    if (fault->host == host)
        fault->host = NULL;
    pthread_mutex_unlock(&fault->lock);
}

/* "fault-SCHEME://HANDLE/?inner=…", the inner URL percent-encoded. NULL: out of memory. */
static char *make_url(unsigned handle, const char *inner_scheme, const char *inner_url)
{
    const size_t size = strlen(inner_scheme) + 3 * strlen(inner_url) + 64;
    char *url = malloc(size);
    if (!url)
        return NULL;
    size_t length = (size_t)snprintf(url, size, "fault-%s://%u/?inner=", inner_scheme, handle);
    for (const char *s = inner_url; *s; s++)
        length += (size_t)snprintf(url + length, size - length, "%%%02X", (unsigned char)*s);
    return url;
}

tck_fault *tck_fault_make(const char *inner_scheme, const char *inner_url, void (*notify)(void *user), void *user)
{
    tck_fault *fault = calloc(1, sizeof *fault);
    if (!fault)
        return NULL;
    pthread_mutex_init(&fault->lock, NULL);
    fault->notify = notify;
    fault->notify_user = user;

    pthread_mutex_lock(&registry_lock);
    fault->handle = ++last_handle;
    fault->next = registry;
    registry = fault;
    pthread_mutex_unlock(&registry_lock);

    fault->url = make_url(fault->handle, inner_scheme, inner_url);
    if (fault->url)
        return fault;
    tck_fault_free(fault);
    return NULL;
}

void tck_fault_free(tck_fault *fault)
{
    if (!fault)
        return;
    pthread_mutex_lock(&registry_lock);
    for (tck_fault **at = &registry; *at; at = &(*at)->next) {
        if (*at == fault) {
            *at = fault->next;
            break;
        }
    }
    pthread_mutex_unlock(&registry_lock);
    pthread_mutex_destroy(&fault->lock);
    free(fault->url);
    free(fault);
}

const char *tck_fault_url(const tck_fault *fault)
{
    return fault->url;
}
