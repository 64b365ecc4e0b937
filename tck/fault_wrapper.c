/* The store in the middle: a back end towards the client, a host towards the store that it wraps.
 *
 * Every request gets a shadow, a copy that the inner store works on, because the fields of a request that a back end
 * may use belong to the inner store while it has the request. The wrapper keeps the shadows of requests that had expired until
 * the end, to see whether the inner store has really let go of them. The inner store sees a host of ours: the client's,
 * with the ways up (complete, fail, push, session) replaced. All of this runs under the client's lock and needs none. */
#include "fault_wrapper.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct shadow {
    simba_request request; /* the copy that the inner store works on */
    simba_request *original;
    struct shadow *previous, *next;
    enum { SENT, HELD, SWALLOWED, EXPIRED, GONE } stage;
    bool lose_reply;
    char text[256]; /* of a failure of the inner store */
};

struct wrapper {
    simba_host host; /* the host of the inner store */
    simba_host *outer;
    tck_fault *fault;
    const simba_backend *inner; /* NULL: its init was not called */
    simba_url *inner_url;
    struct shadow *shadows; /* those that the inner store has, or whose answers are kept back */
    struct shadow *gone;    /* those that were completed after they had expired, linked by `next`; each byte is GRAVE */
    atomic_bool inner_woken;
    bool closing;
    _Alignas(max_align_t) unsigned char inner_self[];
};

/* Set the text of a failure; returns `code`. */
static int complain(simba_error *err, int code, const char *text)
{
    if (err) {
        err->code = code;
        snprintf(err->text, sizeof err->text, "%s", text);
    }
    return code;
}

enum { GRAVE = 0xa5 };

static void unlink_shadow(struct wrapper *wrapper, struct shadow *shadow)
{
    if (shadow->stage == HELD)
        tck_fault_add(wrapper->fault, shadow->request.op, TCK_HELD, -1);
    if (shadow->previous)
        shadow->previous->next = shadow->next;
    else
        wrapper->shadows = shadow->next;
    if (shadow->next)
        shadow->next->previous = shadow->previous;
}

static void finish(struct wrapper *wrapper, struct shadow *shadow)
{
    unlink_shadow(wrapper, shadow);
    free(shadow);
}

static void fail_shadow(struct wrapper *wrapper, struct shadow *shadow, int code, const char *text)
{
    tck_fault_add(wrapper->fault, shadow->request.op, TCK_FAILED, 1);
    wrapper->outer->fail(wrapper->outer, shadow->original, code, "%s", text);
    finish(wrapper, shadow);
}

static void deliver(struct wrapper *wrapper, struct shadow *shadow)
{
    const simba_reply *reply = &shadow->request.reply;
    if (reply->status < 0) {
        fail_shadow(wrapper, shadow, reply->status, shadow->text);
        return;
    }
    tck_fault_add(wrapper->fault, shadow->request.op, TCK_ANSWERED, 1);
    if (reply->outcome == SIMBA_MINE)
        tck_fault_add(wrapper->fault, shadow->request.op, TCK_WON, 1);
    shadow->original->reply = *reply;
    wrapper->outer->complete(wrapper->outer, shadow->original);
    finish(wrapper, shadow);
}

/* Leave the client without an answer to this request, until its time is over. */
static void keep(struct wrapper *wrapper, struct shadow *shadow, int stage)
{
    shadow->stage = stage;
    tck_fault_add(wrapper->fault, shadow->request.op, stage == HELD ? TCK_HELD : TCK_SWALLOWED, 1);
}

static void breach(struct wrapper *wrapper)
{
    tck_fault_add(wrapper->fault, 0, TCK_BREACHES, 1);
}

/* The inner store has completed a request that had expired, and must not touch it any more. */
static void let_go(struct wrapper *wrapper, struct shadow *shadow)
{
    const simba_reply *reply = &shadow->request.reply;
    if (reply->status < 0 && !shadow->text[0])
        breach(wrapper);
    tck_fault_add(wrapper->fault, shadow->request.op, TCK_EXPIRED, 1);
    tck_fault_add(wrapper->fault, shadow->request.op, TCK_FAILED, 1);
    wrapper->outer->fail(wrapper->outer, shadow->original, reply->status < 0 ? reply->status : SIMBA_ETIMEDOUT, "%s",
                         shadow->text[0] ? shadow->text : "fault: answered too late");
    unlink_shadow(wrapper, shadow);
    shadow->stage = GONE;
    memset(&shadow->request, GRAVE, sizeof shadow->request);
    shadow->next = wrapper->gone;
    wrapper->gone = shadow;
}

static void expire_inner(struct wrapper *wrapper, struct shadow *shadow)
{
    shadow->stage = EXPIRED;
    wrapper->inner->expire(wrapper->inner_self, &shadow->request);
}

static bool is_grave(const struct shadow *shadow)
{
    const unsigned char *byte = (const void *)&shadow->request;
    size_t i = 0;
    while (i < sizeof shadow->request && byte[i] == GRAVE)
        i++;
    return i == sizeof shadow->request;
}

/* The inner store is closed. */
static void bury(struct wrapper *wrapper)
{
    for (struct shadow *shadow = wrapper->shadows, *next; shadow; shadow = next) { /* never completed */
        next = shadow->next;
        breach(wrapper);
        finish(wrapper, shadow);
    }
    while (wrapper->gone) {
        struct shadow *shadow = wrapper->gone;
        wrapper->gone = shadow->next;
        if (!is_grave(shadow))
            breach(wrapper);
        free(shadow);
    }
}

/* The inner store has answered. */
static void answered(struct wrapper *wrapper, struct shadow *shadow)
{
    if (shadow->stage == EXPIRED) {
        let_go(wrapper, shadow);
        return;
    }
    const tck_verdict verdict = tck_fault_judge_reply(wrapper->fault, shadow->request.op, shadow->lose_reply);
    switch (wrapper->closing ? TCK_PASS : verdict) {
    case TCK_PASS:
        deliver(wrapper, shadow);
        break;
    case TCK_REFUSE:
        fail_shadow(wrapper, shadow, SIMBA_EUNAVAILABLE, "fault: connection broke");
        break;
    case TCK_SWALLOW:
        keep(wrapper, shadow, SWALLOWED);
        break;
    case TCK_LOSE:
        fail_shadow(wrapper, shadow, SIMBA_ETIMEDOUT, "fault: reply lost");
        break;
    case TCK_HOLD:
        keep(wrapper, shadow, HELD);
        break;
    }
}

/* --- the host that the inner store sees ------------------------------------------------------------ */

static struct wrapper *of_host(simba_host *host)
{
    return CONTAINER_OF(host, struct wrapper, host);
}

/* A function of the host that the client carries out. */
#define FORWARD(type, name, parameters, ...)                                                                           \
    static type host_##name parameters                                                                                 \
    {                                                                                                                  \
        simba_host *outer = of_host(host)->outer;                                                                      \
        return outer->name(__VA_ARGS__);                                                                               \
    }
FORWARD(simba_local, now, (simba_host * host), outer)
FORWARD(int64_t, epoch_us, (simba_host * host), outer)
FORWARD(uint64_t, random, (simba_host * host), outer)
FORWARD(void, work, (simba_host * host, simba_job *job), outer, job)
FORWARD(int, timer_add, (simba_host * host, simba_timer *timer), outer, timer)
FORWARD(void, timer_set, (simba_host * host, simba_timer *timer, simba_local at), outer, timer, at)
FORWARD(void, timer_clear, (simba_host * host, simba_timer *timer), outer, timer)
FORWARD(int, io_add, (simba_host * host, simba_io *io), outer, io)
FORWARD(int, io_change, (simba_host * host, simba_io *io, unsigned interest), outer, io, interest)
FORWARD(void, io_remove, (simba_host * host, simba_io *io), outer, io)
FORWARD(void, closed, (simba_host * host), outer)

static simba_request *original_of(simba_request *request)
{
    return CONTAINER_OF(request, struct shadow, request)->original;
}

FORWARD(int, listed, (simba_host * host, simba_request *request, const simba_listing *row), outer, original_of(request),
        row)
FORWARD(int, found, (simba_host * host, simba_request *request, const simba_finding *finding), outer,
        original_of(request), finding)
FORWARD(int, noted, (simba_host * host, simba_request *request, const simba_stored_note *note), outer,
        original_of(request), note)

static void host_log(simba_host *host, simba_log_level level, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    simba_host *outer = of_host(host)->outer;
    outer->log(outer, level, "%s", text);
}

static void host_forgets(simba_host *host, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    simba_host *outer = of_host(host)->outer;
    outer->forgets(outer, "%s", text);
}

static void host_complete(simba_host *host, simba_request *request)
{
    struct shadow *shadow = CONTAINER_OF(request, struct shadow, request);
    if (shadow->stage == GONE)
        breach(of_host(host));
    else
        answered(of_host(host), shadow);
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    struct shadow *shadow = CONTAINER_OF(request, struct shadow, request);
    va_list args;
    va_start(args, format);
    vsnprintf(shadow->text, sizeof shadow->text, format, args);
    va_end(args);
    if (shadow->stage != GONE)
        request->reply.status = code;
    host_complete(host, request);
}

static void host_push(simba_host *host, simba_watch *watch, const simba_push *push)
{
    struct wrapper *wrapper = of_host(host);
    for (int times = tck_fault_push_times(wrapper->fault); times > 0; times--)
        wrapper->outer->push(wrapper->outer, watch, push);
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    struct wrapper *wrapper = of_host(host);
    for (int times = tck_fault_push_times(wrapper->fault); times > 0; times--)
        wrapper->outer->push_to(wrapper->outer, mutex, nonce, push);
}

static void host_session(simba_host *host, simba_local from, int64_t ms)
{
    struct wrapper *wrapper = of_host(host);
    if (!tck_fault_is_cut(wrapper->fault))
        wrapper->outer->session(wrapper->outer, from, ms);
}

static void host_wake(simba_host *host)
{
    struct wrapper *wrapper = of_host(host);
    atomic_store(&wrapper->inner_woken, true);
    wrapper->outer->wake(wrapper->outer);
}

static void make_host(struct wrapper *wrapper, simba_host *outer)
{
    wrapper->outer = outer;
    wrapper->host = (simba_host){
        .workers = outer->workers,
        .now = host_now,
        .epoch_us = host_epoch_us,
        .random = host_random,
        .log = host_log,
        .forgets = host_forgets,
        .complete = host_complete,
        .fail = host_fail,
        .listed = host_listed,
        .found = host_found,
        .noted = host_noted,
        .push = host_push,
        .push_to = host_push_to,
        .session = host_session,
        .wake = host_wake,
        .work = host_work,
        .timer_add = host_timer_add,
        .timer_set = host_timer_set,
        .timer_clear = host_timer_clear,
        .io_add = host_io_add,
        .io_change = host_io_change,
        .io_remove = host_io_remove,
        .closed = host_closed,
    };
}

/* --- the table that the client sees --------------------------------------------------------------- */

static int wrapper_init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    struct wrapper *wrapper = self;
    const char *inner_url = simba_url_query(url, "inner");
    tck_fault *fault = tck_fault_find(simba_url_authority(url));
    if (!fault || !inner_url)
        return complain(err, SIMBA_EURL, "fault: the URL must come from tck_fault_url()");
    int rc = simba_url_parse(inner_url, err, &wrapper->inner_url);
    if (rc < 0)
        return rc;
    const simba_backend *inner = simba_backend_find(simba_url_scheme(wrapper->inner_url));
    if (!inner)
        return complain(err, SIMBA_ENOTBUILT, "fault: the inner store is not built in");

    wrapper->fault = fault;
    make_host(wrapper, host);
    wrapper->inner = inner;
    rc = inner->init(wrapper->inner_self, &wrapper->host, wrapper->inner_url, err);
    if (rc < 0)
        return rc;
    host->workers = wrapper->host.workers;

    if (tck_fault_attach(fault, host) < 0)
        return complain(err, SIMBA_ESTATE, "fault: one client per remote control");
    return 0;
}

static void wrapper_submit(void *self, simba_request *request)
{
    struct wrapper *wrapper = self;
    bool lose_reply;
    const tck_verdict verdict = tck_fault_judge_request(wrapper->fault, request->op, &lose_reply);
    tck_fault_add(wrapper->fault, request->op, TCK_SUBMITTED, 1);

    struct shadow *shadow = verdict == TCK_REFUSE ? NULL : calloc(1, sizeof *shadow);
    if (!shadow) {
        tck_fault_add(wrapper->fault, request->op, TCK_FAILED, 1);
        wrapper->outer->fail(wrapper->outer, request, verdict == TCK_REFUSE ? SIMBA_EUNAVAILABLE : SIMBA_ENOMEM,
                             "fault: not sent");
        return;
    }
    shadow->request = *request;
    shadow->request.next = NULL;
    shadow->request.backend_data = NULL;
    shadow->original = request;
    request->backend_data = shadow;
    shadow->lose_reply = lose_reply;
    shadow->next = wrapper->shadows;
    if (shadow->next)
        shadow->next->previous = shadow;
    wrapper->shadows = shadow;

    if (verdict == TCK_SWALLOW)
        keep(wrapper, shadow, SWALLOWED);
    else
        wrapper->inner->submit(wrapper->inner_self, &shadow->request);
}

static void wrapper_expire(void *self, simba_request *request)
{
    struct wrapper *wrapper = self;
    struct shadow *shadow = request->backend_data;
    if (shadow->stage == SENT)
        expire_inner(wrapper, shadow);
    else if (shadow->stage != EXPIRED)
        fail_shadow(wrapper, shadow, SIMBA_ETIMEDOUT, "fault: no answer");
}

/* The next one that was sent, is still under way, and is to expire at once. Expiring one may complete others. */
static struct shadow *next_to_expire(struct wrapper *wrapper)
{
    struct shadow *s = wrapper->shadows;
    while (s && (s->stage != SENT || !tck_fault_expires(wrapper->fault, s->request.op)))
        s = s->next;
    return s;
}

static void wrapper_flush(void *self)
{
    struct wrapper *wrapper = self;
    wrapper->inner->flush(wrapper->inner_self);
    for (struct shadow *s = next_to_expire(wrapper); s; s = next_to_expire(wrapper))
        expire_inner(wrapper, s);
}

static int wrapper_watch(void *self, simba_watch *watch)
{
    struct wrapper *wrapper = self;
    return wrapper->inner->watch(wrapper->inner_self, watch);
}

static void wrapper_unwatch(void *self, simba_watch *watch)
{
    struct wrapper *wrapper = self;
    wrapper->inner->unwatch(wrapper->inner_self, watch);
}

static void wrapper_woken(void *self)
{
    struct wrapper *wrapper = self;
    if (atomic_exchange(&wrapper->inner_woken, false))
        wrapper->inner->woken(wrapper->inner_self);
    for (struct shadow *s = wrapper->shadows, *after; s; s = after) {
        after = s->next;
        if (s->stage == HELD && !tck_fault_is_held(wrapper->fault, s->request.op))
            deliver(wrapper, s);
    }
}

static void wrapper_close(void *self)
{
    struct wrapper *wrapper = self;
    wrapper->closing = true;
    for (struct shadow *s = wrapper->shadows, *after; s; s = after) {
        after = s->next;
        if (s->stage == HELD || s->stage == SWALLOWED) /* the inner store has the others, expired ones among them */
            fail_shadow(wrapper, s, SIMBA_EUNAVAILABLE, "fault: closing");
    }
    wrapper->inner->close(wrapper->inner_self);
}

static void wrapper_fini(void *self)
{
    struct wrapper *wrapper = self;
    if (wrapper->inner)
        wrapper->inner->fini(wrapper->inner_self);
    bury(wrapper);
    simba_url_free(wrapper->inner_url);
    if (wrapper->fault)
        tck_fault_detach(wrapper->fault, wrapper->outer);
}

static int wrapper_accepts(const simba_url *url, const char *mutex, simba_error *err)
{
    simba_url *inner_url;
    int rc = simba_url_parse(simba_url_query(url, "inner"), err, &inner_url);
    if (rc < 0)
        return rc;
    const simba_backend *inner = simba_backend_find(simba_url_scheme(inner_url));
    rc = inner->accepts ? inner->accepts(inner_url, mutex, err) : 0;
    simba_url_free(inner_url);
    return rc;
}

static const char *wrapper_server(void *self)
{
    struct wrapper *wrapper = self;
    return wrapper->inner->server ? wrapper->inner->server(wrapper->inner_self) : "";
}

static int64_t wrapper_session_ms(void *self)
{
    struct wrapper *wrapper = self;
    return wrapper->inner->session_ms(wrapper->inner_self);
}

static simba_backend wrapper_table(const simba_backend *inner)
{
    static const char *const keys[] = {"inner", NULL};
    return (simba_backend){
        .size = sizeof(simba_backend),
        .version = SIMBA_BACKEND_VERSION,
        .keys = keys,
        .instance_size = sizeof(struct wrapper) + inner->instance_size,
        .caps = inner->caps,
        .window = inner->window,
        .workers = inner->workers,
        .init = wrapper_init,
        .submit = wrapper_submit,
        .expire = wrapper_expire,
        .flush = wrapper_flush,
        .watch = wrapper_watch,
        .unwatch = wrapper_unwatch,
        .woken = wrapper_woken,
        .close = wrapper_close,
        .fini = wrapper_fini,
        .accepts = wrapper_accepts,
        .session_ms = wrapper_session_ms,
        .server = wrapper_server,
    };
}

/* --- making one ----------------------------------------------------------------------------------- */

/* There is one table for each inner scheme, because capabilities are part of a table. Tables live for ever, as the
 * contract asks. */
#define TABLES_MAX 16
static struct table {
    char scheme[40];
    const char *schemes[2];
    simba_backend backend;
} tables[TABLES_MAX];
static unsigned tables_used;
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

static int register_table(const char *inner_scheme, simba_error *err)
{
    char scheme[sizeof tables[0].scheme];
    const simba_backend *inner = simba_backend_find(inner_scheme);
    if (!inner)
        return complain(err, SIMBA_ENOTBUILT, "fault: the inner store is not built in");
    snprintf(scheme, sizeof scheme, "fault-%s", inner_scheme);
    for (unsigned i = 0; i < tables_used; i++)
        if (strcmp(tables[i].scheme, scheme) == 0)
            return 0;
    if (tables_used == TABLES_MAX)
        return complain(err, SIMBA_ESTATE, "fault: too many kinds of stores");

    struct table *table = &tables[tables_used];
    memcpy(table->scheme, scheme, sizeof scheme);
    table->schemes[0] = table->scheme;
    table->backend = wrapper_table(inner);
    table->backend.schemes = table->schemes;
    const int rc = simba_backend_register(&table->backend);
    if (rc < 0)
        return complain(err, rc, "fault: cannot register the wrapper");
    tables_used++;
    return 0;
}

int tck_fault_new(const char *inner_url, void (*notify)(void *user), void *user, simba_error *err,
                  tck_fault **ret_fault)
{
    simba_url *parsed = NULL;
    int rc = simba_url_parse(inner_url, err, &parsed);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&tables_lock);
    rc = register_table(simba_url_scheme(parsed), err);
    pthread_mutex_unlock(&tables_lock);
    if (rc == 0 && !(*ret_fault = tck_fault_make(simba_url_scheme(parsed), inner_url, notify, user)))
        rc = complain(err, SIMBA_ENOMEM, "fault: out of memory");
    simba_url_free(parsed);
    return rc;
}
