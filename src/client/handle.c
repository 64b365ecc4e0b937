/* What all handles have in common; see handles.h. */
#include "client/handles.h"

#include <assert.h>

#include "client/log.h"
#include "core/trace.h"
#include "util/error.h"

/* --- events ----------------------------------------------------------------------------------------- */

static void on_timer(simba_timer *timer, simba_local now)
{
    static const simba_reply no_memory = {.status = SIMBA_ENOMEM};
    simba__handle *handle = SIMBA__OF_ITEM(timer, simba__handle, timer);
    simba__event event = {.kind = SIMBA__EV_TIMER, .now = now};
    simba_error error;
    if (handle->unasked) {
        simba__error_set(&error, SIMBA_ENOMEM, "%s: out of memory", handle->watch->mutex);
        event.kind = SIMBA__EV_REPLY;
        event.generation = handle->generation;
        event.reply = &no_memory;
        event.error = &error;
    }
    handle->unasked = false;
    handle->type->step(handle, &event);
}

static void on_reply(simba__request *request, const simba_error *error)
{
    simba__handle *handle = request->of;
    simba__event event = {
        .kind = SIMBA__EV_REPLY,
        .now = handle->client->now,
        .generation = handle->generation,
        .reply = &request->shown.reply,
        .sent_at = request->sent_at,
        .error = error,
    };
    handle->request = NULL;
    handle->type->step(handle, &event);
}

/* --- what machines ask for -------------------------------------------------------------------------- */

void simba__handle_act(simba__handle *handle, const simba__actions *actions, const char *id,
                       const simba__timing *timing)
{
    simba_client *client = handle->client;
    if (actions->submit) {
        simba_request wanted = {.mutex = handle->watch->mutex, .id = id};
        simba__actions_request(actions, timing, &wanted);
        simba__request *request = simba__request_new(&wanted, actions->timeout_ns);
        handle->generation = actions->generation;
        handle->request = request;
        if (request) {
            request->latest = actions->latest;
            request->done = on_reply;
            request->of = handle;
            simba__window_add(&client->window, request);
        } else {
            /* The machine hears of it by the timer, at once: it has just been told that the request is under way. */
            simba_error cause;
            simba__fail(&cause, SIMBA_ENOMEM, "out of memory");
            simba__log_failure(client, &wanted, &cause);
            simba__count_error(&client->stats, SIMBA_ENOMEM);
            handle->unasked = true;
        }
    }
    simba__timers_set(&client->timers, &handle->timer, handle->unasked ? client->now : actions->timer);
}

/* --- its life --------------------------------------------------------------------------------------- */

int simba__handle_init(simba__handle *handle, const simba__handle_type *type, simba_client *client, const char *mutex,
                       simba_error *err)
{
    const unsigned timers = type->timers + 1;
    int rc = simba__client_check_mutex(client, mutex, err);
    if (rc == 0)
        rc = simba__lock_checked(client, false, err);
    if (rc < 0)
        return rc;
    const bool reserved = !client->closing && simba__timers_reserve(&client->timers, timers) == 0;
    handle->watch = reserved ? simba__watches_get(&client->watches, mutex) : NULL;
    if (client->closing) {
        rc = simba__fail(err, SIMBA_ECLOSED, "the client is closed");
    } else if (!handle->watch) {
        if (reserved)
            simba__timers_unreserve(&client->timers, timers);
        rc = simba__fail(err, SIMBA_ENOMEM, "out of memory");
    } else {
        handle->type = type;
        handle->client = client;
        handle->timer.fire = on_timer;
        handle->refs = 1;
        simba__list_append(&client->handles, &handle->of_client);
        client->stats.contenders += type->contends;
        atomic_fetch_add(&client->refs, 1);
    }
    simba__unlock(client);
    return rc;
}

void simba__handle_unref(simba__handle *handle)
{
    simba_client *client = handle->client;
    assert(handle->refs > 0);
    if (--handle->refs > 0)
        return;
    assert(!handle->running && !handle->request);
    simba__list_remove(&handle->of_client);
    simba__timers_clear(&client->timers, &handle->timer);
    simba__timers_unreserve(&client->timers, handle->type->timers + 1);
    simba__watches_put(&client->watches, handle->watch);
    client->stats.contenders -= handle->type->contends;
    simba__list_append(&client->callbacks.dead, &handle->of_callbacks);
}

void simba__handle_started(simba__handle *handle)
{
    assert(!handle->running);
    handle->running = true;
    handle->refs++;
    handle->starts++;
    handle->client->running++;
    simba__list_append(&handle->watch->handles, &handle->of_watch);
}

void simba__handle_stopped(simba__handle *handle)
{
    if (!handle->running)
        return;
    handle->running = false;
    handle->client->running--;
    simba__list_remove(&handle->of_watch);
    simba__wake(handle->client, handle);
    simba__handle_unref(handle);
}

void simba__handle_send_stop(simba__handle *handle)
{
    simba__event event = {.kind = SIMBA__EV_STOP, .now = handle->client->now};
    if (handle->running)
        handle->type->step(handle, &event);
}

void simba__handle_wait(simba__handle *handle, simba_local until)
{
    if (!simba__callbacks_help(handle))
        simba__wait(handle->client, handle, until);
}

void simba__handle_stop(simba__handle *handle)
{
    simba__handle_send_stop(handle);
    if (simba__callbacks_are_inside(handle->client, handle))
        return;
    /* Another thread may start it again before this one has looked: then there is nothing left to wait for. */
    const uint32_t starts = handle->starts;
    while (handle->starts == starts && (handle->running || handle->callback_state != SIMBA__CALLBACKS_IDLE))
        simba__handle_wait(handle, SIMBA__NEVER);
}

void simba__handle_free(simba__handle *handle, bool wait)
{
    simba_client *client = handle->client;
    if (simba__lock_checked(client, false, NULL) < 0)
        return; /* the lock belongs to the parent, and may be held for ever here */
    if (wait)
        simba__handle_stop(handle);
    else
        simba__handle_send_stop(handle);
    simba__handle_unref(handle);
    simba__unlock(client);
}
