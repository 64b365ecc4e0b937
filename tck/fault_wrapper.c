/* The store in the middle: a back end towards the runtime, a host towards the store it wraps.
 *
 * Every request that passes gets a shadow, a copy that the inner store works on, because the fields a back end may use
 * in a request belong to the inner one while it has it. The inner store sees a host of ours: the runtime's, with the
 * ways up (complete, fail, push, session) replaced. All of this runs in turns of the client and needs no lock. */
#include "fault_wrapper.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct shadow {
    simba_request request; /* what the inner store works on */
    simba_request *original;
    struct shadow *previous, *next;
    enum { SENT, HELD, SWALLOWED } stage;
    bool lose_reply;
    char text[256]; /* of a failure of the inner store */
};

struct wrapper {
    simba_host host; /* what the inner store sees */
    simba_host *outer;
    tck_fault *fault;
    const simba_backend *inner; /* NULL: its init was not called */
    simba_url *inner_url;
    struct shadow *shadows; /* all that the runtime still waits for */
    simba_timer timer;      /* for the deadlines of those that are held or swallowed */
    atomic_bool inner_woken;
    bool closing;
    _Alignas(max_align_t) unsigned char inner_self[];
};

static void finish(struct wrapper *wrapper, struct shadow *shadow)
{
    if (shadow->stage == HELD)
        tck_fault_add(wrapper->fault, shadow->request.op, TCK_HELD, -1);
    if (shadow->previous)
        shadow->previous->next = shadow->next;
    else
        wrapper->shadows = shadow->next;
    if (shadow->next)
        shadow->next->previous = shadow->previous;
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

/* Keep a request from the runtime, but not past its deadline: that is the contract. */
static void keep(struct wrapper *wrapper, struct shadow *shadow, int stage)
{
    shadow->stage = stage;
    tck_fault_add(wrapper->fault, shadow->request.op, stage == HELD ? TCK_HELD : TCK_SWALLOWED, 1);
    if (wrapper->timer.index == 0 || shadow->request.deadline.ns < wrapper->timer.at.ns)
        wrapper->outer->timer_set(wrapper->outer, &wrapper->timer, shadow->request.deadline);
}

static void deadline_passed(simba_timer *timer, simba_local now)
{
    struct wrapper *wrapper = CONTAINER_OF(timer, struct wrapper, timer);
    simba_local next = {INT64_MAX};

    for (struct shadow *s = wrapper->shadows, *after; s; s = after) {
        after = s->next;
        if (s->stage == SENT)
            continue;
        if (s->request.deadline.ns <= now.ns)
            fail_shadow(wrapper, s, SIMBA_ETIMEDOUT, "fault: no answer");
        else if (s->request.deadline.ns < next.ns)
            next = s->request.deadline;
    }
    if (next.ns != INT64_MAX)
        wrapper->outer->timer_set(wrapper->outer, &wrapper->timer, next);
}

/* The inner store has answered. */
static void answered(struct wrapper *wrapper, struct shadow *shadow)
{
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

static simba_local host_now(simba_host *host)
{
    simba_host *outer = of_host(host)->outer;
    return outer->now(outer);
}

static int64_t host_epoch_us(simba_host *host)
{
    simba_host *outer = of_host(host)->outer;
    return outer->epoch_us(outer);
}

static uint64_t host_random(simba_host *host)
{
    simba_host *outer = of_host(host)->outer;
    return outer->random(outer);
}

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

static void host_complete(simba_host *host, simba_request *request)
{
    answered(of_host(host), CONTAINER_OF(request, struct shadow, request));
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    struct shadow *shadow = CONTAINER_OF(request, struct shadow, request);
    va_list args;
    va_start(args, format);
    vsnprintf(shadow->text, sizeof shadow->text, format, args);
    va_end(args);
    request->reply.status = code;
    answered(of_host(host), shadow);
}

static int host_listed(simba_host *host, simba_request *request, const simba_listing *row)
{
    simba_host *outer = of_host(host)->outer;
    return outer->listed(outer, CONTAINER_OF(request, struct shadow, request)->original, row);
}

static int host_found(simba_host *host, simba_request *request, const simba_finding *finding)
{
    simba_host *outer = of_host(host)->outer;
    return outer->found(outer, CONTAINER_OF(request, struct shadow, request)->original, finding);
}

static void host_push(simba_host *host, simba_topic *topic, const simba_push *push)
{
    struct wrapper *wrapper = of_host(host);
    for (int times = tck_fault_push_times(wrapper->fault); times > 0; times--)
        wrapper->outer->push(wrapper->outer, topic, push);
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

static void host_work(simba_host *host, simba_job *job)
{
    simba_host *outer = of_host(host)->outer;
    outer->work(outer, job);
}

static int host_timer_add(simba_host *host, simba_timer *timer)
{
    simba_host *outer = of_host(host)->outer;
    return outer->timer_add(outer, timer);
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local at)
{
    simba_host *outer = of_host(host)->outer;
    outer->timer_set(outer, timer, at);
}

static void host_timer_clear(simba_host *host, simba_timer *timer)
{
    simba_host *outer = of_host(host)->outer;
    outer->timer_clear(outer, timer);
}

static int host_watch_add(simba_host *host, simba_watch *watch)
{
    simba_host *outer = of_host(host)->outer;
    return outer->watch_add(outer, watch);
}

static int host_watch_change(simba_host *host, simba_watch *watch, unsigned interest)
{
    simba_host *outer = of_host(host)->outer;
    return outer->watch_change(outer, watch, interest);
}

static void host_watch_remove(simba_host *host, simba_watch *watch)
{
    simba_host *outer = of_host(host)->outer;
    outer->watch_remove(outer, watch);
}

static void host_closed(simba_host *host)
{
    simba_host *outer = of_host(host)->outer;
    outer->closed(outer);
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
        .complete = host_complete,
        .fail = host_fail,
        .listed = host_listed,
        .found = host_found,
        .push = host_push,
        .push_to = host_push_to,
        .session = host_session,
        .wake = host_wake,
        .work = host_work,
        .timer_add = host_timer_add,
        .timer_set = host_timer_set,
        .timer_clear = host_timer_clear,
        .watch_add = host_watch_add,
        .watch_change = host_watch_change,
        .watch_remove = host_watch_remove,
        .closed = host_closed,
    };
}

/* --- the table that the runtime sees --------------------------------------------------------------- */

static int wrapper_init(void *self, simba_host *host, const simba_url *url, simba_error *err)
{
    struct wrapper *wrapper = self;
    const char *inner_url = simba_url_query(url, "inner");
    tck_fault *fault = tck_fault_find(simba_url_authority(url));
    if (!fault || !inner_url)
        return tck_fault_complain(err, SIMBA_EURL, "fault: the URL must come from tck_fault_url()");
    int rc = simba_url_parse(inner_url, err, &wrapper->inner_url);
    if (rc < 0)
        return rc;
    const simba_backend *inner = simba_backend_find(simba_url_scheme(wrapper->inner_url));
    if (!inner)
        return tck_fault_complain(err, SIMBA_ENOTBUILT, "fault: the inner store is not built in");

    wrapper->fault = fault;
    wrapper->timer.fire = deadline_passed;
    make_host(wrapper, host);
    rc = host->timer_add(host, &wrapper->timer);
    if (rc < 0)
        return tck_fault_complain(err, rc, "fault: no timer");

    wrapper->inner = inner;
    rc = inner->init(wrapper->inner_self, &wrapper->host, wrapper->inner_url, err);
    if (rc < 0)
        return rc;
    host->workers = wrapper->host.workers;

    if (tck_fault_attach(fault, host) < 0)
        return tck_fault_complain(err, SIMBA_ESTATE, "fault: one client per remote control");
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

static void wrapper_flush(void *self)
{
    struct wrapper *wrapper = self;
    wrapper->inner->flush(wrapper->inner_self);
}

static int wrapper_watch(void *self, simba_topic *topic)
{
    struct wrapper *wrapper = self;
    return wrapper->inner->watch(wrapper->inner_self, topic);
}

static void wrapper_unwatch(void *self, simba_topic *topic)
{
    struct wrapper *wrapper = self;
    wrapper->inner->unwatch(wrapper->inner_self, topic);
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
    wrapper->outer->timer_clear(wrapper->outer, &wrapper->timer);
    for (struct shadow *s = wrapper->shadows, *after; s; s = after) {
        after = s->next;
        if (s->stage != SENT)
            fail_shadow(wrapper, s, SIMBA_EUNAVAILABLE, "fault: closing");
    }
    wrapper->inner->close(wrapper->inner_self);
}

static void wrapper_fini(void *self)
{
    struct wrapper *wrapper = self;
    if (wrapper->inner)
        wrapper->inner->fini(wrapper->inner_self);
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

static int64_t wrapper_session_ms(void *self)
{
    struct wrapper *wrapper = self;
    return wrapper->inner->session_ms(wrapper->inner_self);
}

simba_backend tck_fault_wrapper_table(const simba_backend *inner)
{
    static const char *const keys[] = {"inner", NULL};
    return (simba_backend){
        .size = sizeof(simba_backend),
        .version = SIMBA_BACKEND_VERSION,
        .keys = keys,
        .instance_size = sizeof(struct wrapper) + inner->instance_size,
        .caps = inner->caps,
        .workers = inner->workers,
        .init = wrapper_init,
        .submit = wrapper_submit,
        .flush = wrapper_flush,
        .watch = wrapper_watch,
        .unwatch = wrapper_unwatch,
        .woken = wrapper_woken,
        .close = wrapper_close,
        .fini = wrapper_fini,
        .accepts = wrapper_accepts,
        .session_ms = wrapper_session_ms,
    };
}
