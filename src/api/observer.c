/* The observer: sees who owns a mutex and never contends. It queues changes, so that the application hears every
 * change that the store pushes; when memory is short or the application too slow, it reports several as one. */
#include <simba.h>

#include "client/handles.h"
#include "core/observation.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"

enum { QUEUE_MAX = 1024 };

struct change {
    struct change *next;
    simba_owner owner;
};

struct simba_observer {
    simba__handle handle; /* first */
    simba__observation machine;
    simba_observed_fn on_changed;
    void *user;
    simba_freed_fn on_freed;
    simba_observed_note_fn on_noted;
    simba_owner told;
    bool begun; /* the first call was made */
    struct change *first, **last;
    unsigned queued;
    bool behind; /* the machine's owner is younger than the queue */
    bool noted;  /* call on_noted */
};

static void drop_queue(simba_observer *observer)
{
    while (observer->first) {
        struct change *next = observer->first->next;
        simba__free(observer->first);
        observer->first = next;
    }
    observer->last = &observer->first;
    observer->queued = 0;
    observer->behind = false;
    observer->noted = false;
}

static void step(simba__handle *handle, simba__event *event)
{
    simba_observer *observer = (simba_observer *)(void *)handle;
    simba__actions actions;
    simba__observation_step(&observer->machine, event, handle->client->timing.op_timeout_ns, &actions);
    if (actions.changed) {
        struct change *change = observer->queued < QUEUE_MAX ? simba__malloc(sizeof *change) : NULL;
        observer->behind = !change;
        if (change) {
            *change = (struct change){.owner = observer->machine.owner};
            *observer->last = change;
            observer->last = &change->next;
            observer->queued++;
        }
        simba__callbacks_add(handle);
    }
    simba__handle_act(handle, &actions, "", NULL);
    simba__watches_want(&handle->client->watches, handle, !actions.done);
    if (actions.done)
        simba__handle_stopped(handle);
}

static void noted(simba__handle *handle)
{
    simba_observer *observer = (simba_observer *)(void *)handle;
    if (!observer->on_noted)
        return;
    observer->noted = true;
    simba__callbacks_add(handle);
}

static bool take(simba_observer *observer, simba_owner *ret_owner)
{
    struct change *change = observer->first;
    if (change) {
        *ret_owner = change->owner;
        observer->first = change->next;
        if (!observer->first)
            observer->last = &observer->first;
        observer->queued--;
        simba__free(change);
        return true;
    }
    if (!observer->behind)
        return false;
    observer->behind = false;
    *ret_owner = observer->machine.owner;
    return true;
}

static int run_callback(simba__handle *handle)
{
    simba_observer *observer = (simba_observer *)(void *)handle;
    simba_state state = {.before = observer->told};
    if (simba__observation_is_over(&observer->machine)) {
        drop_queue(observer);
        return -1;
    }
    if (!take(observer, &state.after)) {
        if (!observer->noted)
            return -1;
        observer->noted = false;
        simba__pause(handle->client);
        observer->on_noted(observer, observer->user);
        simba__lock(handle->client);
        return 1;
    }
    if (observer->begun && !simba_state_changed(&state))
        return 0; /* the changes between the two were dropped */
    observer->begun = true;
    observer->told = state.after;
    simba__pause(handle->client);
    observer->on_changed(observer, &state, observer->user);
    simba__lock(handle->client);
    return 1;
}

static void destroy(simba__handle *handle)
{
    simba_observer *observer = (simba_observer *)(void *)handle;
    drop_queue(observer);
    if (observer->on_freed)
        observer->on_freed(observer->user);
    simba__free(observer);
}

static const simba__handle_type type = {.step = step, .callback = run_callback, .destroy = destroy, .noted = noted};

int simba_observer_new(simba_client *client, const char *mutex, const simba_observer_options *options, simba_error *err,
                       simba_observer **ret_observer)
{
    if (!client || !ret_observer)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_observer" : "client");
    if (!options)
        return simba__fail(err, SIMBA_EINVAL, "options are NULL; an observer needs on_changed");
    simba_observer_options own = SIMBA_OBSERVER_OPTIONS_INIT;
    int rc = simba__sized_take("simba_observer_options", options, &own, err);
    if (rc == 0 && !own.on_changed)
        rc = simba__fail(err, SIMBA_EINVAL, "on_changed is NULL");
    else if (rc == 0 && (own.poll_ms < 1 || own.poll_ms > SIMBA_LEASE_MAX_MS))
        rc = simba__fail(err, SIMBA_EINVAL, "poll_ms is %lld; it must be from 1 to %lld", (long long)own.poll_ms,
                         (long long)SIMBA_LEASE_MAX_MS);
    if (rc < 0)
        return rc;
    simba_observer *observer = simba__calloc(1, sizeof *observer);
    if (!observer)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    const bool pushes = client->backend->caps & SIMBA_CAP_PUSH;
    observer->on_changed = own.on_changed;
    observer->user = own.user;
    observer->on_freed = own.on_freed;
    observer->on_noted = client->backend->caps & SIMBA_CAP_NOTE ? own.on_noted : NULL;
    observer->last = &observer->first;
    simba__observation_init(&observer->machine, own.poll_ms * SIMBA__NS_PER_MS * (pushes ? 10 : 1));
    observer->handle.observes = true;
    rc = simba__handle_init(&observer->handle, &type, client, mutex, err);
    if (rc < 0) {
        simba__free(observer);
        return rc;
    }
    *ret_observer = observer;
    return 0;
}

int simba_observer_start(simba_observer *observer)
{
    if (!observer)
        return SIMBA_EINVAL;
    simba_client *client = observer->handle.client;
    int rc = simba__lock_checked(client, false, NULL);
    if (rc < 0)
        return rc;
    if (client->closing) {
        rc = SIMBA_ECLOSED;
    } else if (observer->handle.running) {
        rc = SIMBA_ESTATE;
    } else {
        simba__event event = {.kind = SIMBA__EV_START, .now = client->now, .seed = client->host.random(&client->host)};
        observer->told = (simba_owner){0};
        observer->begun = false;
        drop_queue(observer); /* it was stopped inside its own callback, with changes still to report */
        simba__handle_started(&observer->handle);
        step(&observer->handle, &event);
    }
    simba__unlock(client);
    return rc;
}

int simba_observer_stop(simba_observer *observer)
{
    if (!observer)
        return SIMBA_EINVAL;
    simba_client *client = observer->handle.client;
    const int rc = simba__lock_checked(client, true, NULL);
    if (rc < 0)
        return rc;
    simba__handle_stop(&observer->handle);
    simba__unlock(client);
    return 0;
}

void simba_observer_free(simba_observer *observer)
{
    if (observer)
        simba__handle_free(&observer->handle, true);
}

const char *simba_observer_mutex(const simba_observer *observer)
{
    return observer ? observer->handle.watch->mutex : NULL;
}

int simba_observer_owner(simba_observer *observer, simba_owner *ret_owner)
{
    if (!observer || !ret_owner)
        return SIMBA_EINVAL;
    simba_client *client = observer->handle.client;
    const int rc = simba__lock_checked(client, true, NULL);
    if (rc < 0)
        return rc;
    *ret_owner = observer->machine.owner;
    simba__unlock(client);
    return 0;
}
