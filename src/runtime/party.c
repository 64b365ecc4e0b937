/* See party.h. */
#include "runtime/party.h"

#include <assert.h>

#include "util/error.h"

static simba__party *of_timer(simba_timer *timer)
{
    return (simba__party *)(void *)((char *)timer - offsetof(simba__party, timer));
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__party *party = of_timer(timer);
    simba__event event = {.kind = SIMBA__EV_TIMER, .now = now};
    party->type->event(party, &event);
}

static void on_reply(simba_request *request)
{
    simba__party *party = (simba__party *)(void *)((char *)request - offsetof(simba__party, request));
    simba__event event = {
        .kind = SIMBA__EV_REPLY,
        .now = party->client->now,
        .generation = party->generation,
        .reply = &request->reply,
    };
    party->type->event(party, &event);
}

static void unreserve_timers(simba_client *client, unsigned count)
{
    while (count-- > 0)
        simba__timers_unreserve(&client->timers);
}

static bool reserve_timers(simba_client *client, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (simba__timers_reserve(&client->timers) < 0) {
            unreserve_timers(client, i);
            return false;
        }
    return true;
}

int simba__party_init(simba__party *party, const simba__party_type *type, simba_client *client, const char *mutex,
                      simba_error *err)
{
    if (client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "the client is closed");
    if (!reserve_timers(client, type->timers + 1))
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    party->topic = simba__topics_get(&client->topics, mutex);
    if (!party->topic) {
        unreserve_timers(client, type->timers + 1);
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    }
    party->type = type;
    party->client = client;
    party->timer.fire = on_timer;
    party->request.done = on_reply;
    party->request.mutex = party->topic->mutex;
    party->refs = 1;
    party->next = client->parties;
    if (client->parties)
        client->parties->prev = party;
    client->parties = party;
    client->stats.contenders += type->is_member;
    atomic_fetch_add(&client->refs, 1);
    return 0;
}

void simba__party_unref(simba__party *party)
{
    simba_client *client = party->client;
    assert(party->refs > 0);
    if (--party->refs > 0)
        return;
    assert(!party->running);
    if (party->prev)
        party->prev->next = party->next;
    else
        client->parties = party->next;
    if (party->next)
        party->next->prev = party->prev;
    simba__timers_clear(&client->timers, &party->timer);
    unreserve_timers(client, party->type->timers + 1);
    simba__topics_put(&client->topics, party->topic);
    client->stats.contenders -= party->type->is_member;
    party->next = client->dead;
    client->dead = party;
}

void simba__party_want(simba__party *party, bool wants)
{
    if (party->wants == wants)
        return;
    party->wants = wants;
    if (wants)
        simba__topic_want(&party->client->topics, party->topic);
    else
        simba__topic_unwant(&party->client->topics, party->topic);
}

void simba__party_started(simba__party *party)
{
    simba__topic *topic = party->topic;
    assert(!party->running);
    party->running = true;
    party->starts++;
    party->client->running++;
    party->topic_next = NULL;
    party->topic_prev = topic->last;
    if (topic->last)
        topic->last->topic_next = party;
    else
        topic->first = party;
    topic->last = party;
}

void simba__party_stopped(simba__party *party)
{
    simba__topic *topic = party->topic;
    if (!party->running)
        return;
    party->running = false;
    party->client->running--;
    if (party->topic_prev)
        party->topic_prev->topic_next = party->topic_next;
    else
        topic->first = party->topic_next;
    if (party->topic_next)
        party->topic_next->topic_prev = party->topic_prev;
    else
        topic->last = party->topic_prev;
    simba__party_want(party, false);
    simba__turn_signal(party->client, &party->client->changed);
    if (party->orphaned && party->strand == SIMBA__STRAND_IDLE) {
        party->orphaned = false;
        simba__party_unref(party);
    }
}

void simba__party_act(simba__party *party, const simba__actions *actions, const char *id, const simba__timing *timing)
{
    simba_client *client = party->client;
    if (actions->submit) {
        party->generation = actions->generation;
        simba__actions_request(actions, id, timing, &party->request);
        simba__requests_submit(&client->requests, &party->request);
    }
    simba__timers_set(&client->timers, &party->timer, actions->timer);
    simba__topic_retry(&client->topics, party->topic);
}

static void send_stop(simba__party *party)
{
    simba__event event = {.kind = SIMBA__EV_STOP, .now = party->client->now};
    if (party->running)
        party->type->event(party, &event);
}

void simba__party_stop(simba__party *party)
{
    simba_client *client = party->client;
    send_stop(party);
    if (simba__inside_party(party))
        return;
    /* Another thread may start it again before this one has looked: what was to be waited for is over then. */
    const unsigned starts = party->starts;
    while (party->starts == starts && (party->running || party->strand != SIMBA__STRAND_IDLE))
        if (!simba__dispatch_help(client, party))
            simba__turn_await(client, &client->changed, SIMBA__NEVER, SIMBA_JOB_LONG);
}

void simba__party_free(simba__party *party)
{
    simba_client *client = party->client;
    if (simba__client_forked(client, NULL) < 0)
        return; /* the parent's, and its lock may be held for ever here */
    simba__enter(client);
    simba__party_stop(party);
    if (simba__inside_party(party))
        party->orphaned = true;
    else
        simba__party_unref(party);
    simba__leave(client);
}

void simba__party_discard(simba__party *party)
{
    simba_client *client = party->client;
    if (simba__client_forked(client, NULL) < 0)
        return;
    simba__enter(client);
    send_stop(party);
    if (party->running || party->strand != SIMBA__STRAND_IDLE)
        party->orphaned = true;
    else
        simba__party_unref(party);
    simba__leave(client);
}

int simba__party_owner(simba__party *party, const simba_owner *owner, simba_owner *ret_owner)
{
    simba_client *client = party->client;
    int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    simba__enter(client);
    if (client->closed)
        rc = SIMBA_ECLOSED;
    else
        *ret_owner = *owner;
    simba__leave(client);
    return rc;
}
