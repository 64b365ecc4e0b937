/* See party.h. */
#include "runtime/party.h"

#include <assert.h>
#include <string.h>

#include "core/tally.h"
#include "runtime/narrator.h"
#include "util/error.h"

static simba__party *of_timer(simba_timer *timer)
{
    return (simba__party *)(void *)((char *)timer - offsetof(simba__party, timer));
}

static void on_timer(simba_timer *timer, simba_local now)
{
    simba__party *party = of_timer(timer);
    static const simba_reply no_memory = {.status = SIMBA_ENOMEM};
    simba__event event = {.kind = SIMBA__EV_TIMER, .now = now};
    if (party->unasked)
        event =
            (simba__event){.kind = SIMBA__EV_REPLY, .now = now, .generation = party->generation, .reply = &no_memory};
    party->unasked = false;
    party->type->event(party, &event);
}

static void on_reply(simba_request *request)
{
    simba__asked *asked = (simba__asked *)(void *)request;
    simba__party *party = asked->party;
    simba__event event = {
        .kind = SIMBA__EV_REPLY,
        .now = party->client->turn.now,
        .generation = party->generation,
        .reply = &request->reply,
        .asked_at = request->asked_at,
    };
    simba_client *client = party->client;
    party->request = NULL;
    party->type->event(party, &event);
    simba__slab_give(&client->asked, asked);
}

/* --- its strand ----------------------------------------------------------------------------------- */

static simba__party *of_strand(simba__strand *strand)
{
    return (simba__party *)(void *)((char *)strand - offsetof(simba__party, strand));
}

static int run_one(simba__strand *strand)
{
    simba__party *party = of_strand(strand);
    return party->type->run_one(party);
}

/* It was freed inside its own callback, and has stopped. */
static void let_orphan_go(simba__strand *strand)
{
    simba__party *party = of_strand(strand);
    if (!party->orphaned || party->running || strand->state != SIMBA__STRAND_IDLE)
        return;
    party->orphaned = false;
    simba__strand_unref(strand);
}

static void gone(simba__strand *strand)
{
    simba__party *party = of_strand(strand);
    simba_client *client = party->client;
    assert(!party->running);
    simba__ring_set(NULL, &party->of_client, false);
    simba__timers_clear(&client->turn.timers, &party->timer);
    simba__timers_unreserve(&client->turn.timers, party->type->timers + 1);
    simba__topics_put(&client->topics, party->topic);
    client->stats.contenders -= party->type->is_member && !party->type->hidden;
}

static void destroy(simba__strand *strand)
{
    simba__party *party = of_strand(strand);
    simba_client *client = party->client;
    party->type->destroy(party);
    simba__client_unref(client);
}

const simba__strand_type simba__party_strands = {run_one, let_orphan_go, gone, destroy};

/* --- its life ------------------------------------------------------------------------------------- */

int simba__party_init(simba__party *party, const simba__party_type *type, simba_client *client, const char *mutex,
                      simba_error *err)
{
    if (client->closing)
        return simba__fail(err, SIMBA_ECLOSED, "the client is closed");
    if (simba__timers_reserve(&client->turn.timers, type->timers + 1) < 0)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    party->topic = simba__topics_get(&client->topics, mutex);
    if (!party->topic) {
        simba__timers_unreserve(&client->turn.timers, type->timers + 1);
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    }
    party->type = type;
    party->client = client;
    party->timer.fire = on_timer;
    party->strand = (simba__strand){.dispatcher = &client->dispatcher, .refs = 1};
    simba__ring_set(&client->parties, &party->of_client, true);
    client->stats.contenders += type->is_member && !type->hidden;
    atomic_fetch_add(&client->refs, 1);
    return 0;
}

void simba__party_change_wants(simba__party *party, bool wants)
{
    party->wants = wants;
    if (wants)
        simba__topic_want(&party->client->topics, party->topic, party->curious);
    else
        simba__topic_unwant(&party->client->topics, party->topic, party->curious);
}

void simba__party_started(simba__party *party)
{
    assert(!party->running);
    party->running = true;
    party->starts++;
    party->client->running++;
    party->topic->watchful += party->curious && party->type->is_member;
    if (!party->type->is_member)
        simba__list_append(&party->topic->parties, &party->of_topic);
}

void simba__party_stopped(simba__party *party)
{
    simba__turn *turn = &party->client->turn;
    if (!party->running)
        return;
    party->running = false;
    party->client->running--;
    party->topic->watchful -= party->curious && party->type->is_member;
    simba__list_remove(&party->of_topic);
    simba__party_want(party, false);
    simba__turn_signal(turn, &turn->changed);
    let_orphan_go(&party->strand);
}

/* The machine hears of it by the timer, at once: it has just been told that the request is under way. */
static void fail_to_ask(simba__party *party, simba_op op)
{
    simba_client *client = party->client;
    const simba_request request = {.op = op, .mutex = party->topic->mutex};
    simba_error cause, whole;
    simba__fail(&cause, SIMBA_ENOMEM, "out of memory");
    simba__fail(&whole, SIMBA_ENOMEM, "%s %s: out of memory", simba__op_name(op), request.mutex);
    simba__narrate_failure(client, &request, &cause, &whole);
    simba__tally_error(&client->stats, SIMBA_ENOMEM);
    party->unasked = true;
}

/* Zero all but the text of the owner's id, which is a third of it and for which an empty string is enough. In parts that are so
 * small that the compiler needs no loop. */
static void clear(simba_request *request)
{
    const size_t reply = offsetof(simba_request, reply.owner.acquired_at_ms);
    const size_t rest = offsetof(simba_request, next);
    memset(request, 0, offsetof(simba_request, reply.owner.id));
    request->reply.owner.id[0] = '\0';
    memset((char *)request + reply, 0, rest - reply);
    memset((char *)request + rest, 0, sizeof *request - rest);
}

static void ask(simba__party *party, const simba__actions *actions, const char *id, const simba__timing *timing)
{
    simba_client *client = party->client;
    simba__asked *asked = simba__slab_take(&client->asked);
    party->generation = actions->generation;
    if (!asked) {
        fail_to_ask(party, actions->op);
        return;
    }
    asked->party = party;
    party->request = &asked->request;
    clear(party->request);
    party->request->mutex = party->topic->mutex;
    party->request->done = on_reply;
    simba__actions_request(actions, id, timing, party->request);
    simba__requests_submit(&client->requests, party->request);
}

void simba__party_explain(simba__party *party, simba_error *err)
{
    if (party->request)
        party->request->err = err;
    else
        simba__fail(err, SIMBA_ENOMEM, "%s: out of memory", party->topic->mutex);
}

void simba__party_act(simba__party *party, const simba__actions *actions, const char *id, const simba__timing *timing)
{
    simba_client *client = party->client;
    if (actions->submit)
        ask(party, actions, id, timing);
    if (actions->hurry && party->request)
        party->request->give_up = party->request->deadline;
    simba__timers_set(&client->turn.timers, &party->timer, party->unasked ? client->turn.now : actions->timer);
    simba__topic_retry(&client->topics, party->topic);
}

void simba__party_send_stop(simba__party *party)
{
    simba__event event = {.kind = SIMBA__EV_STOP, .now = party->client->turn.now};
    if (party->running)
        party->type->event(party, &event);
}

void simba__party_stop(simba__party *party)
{
    simba_client *client = party->client;
    simba__party_send_stop(party);
    if (simba__strand_inside(&party->strand))
        return;
    /* Another thread may start it again before this one has looked: then there is nothing left to wait for. */
    const unsigned starts = party->starts;
    while (party->starts == starts && (party->running || party->strand.state != SIMBA__STRAND_IDLE))
        if (!simba__strand_help(&party->strand))
            simba__turn_await(&client->turn, &client->turn.changed, SIMBA__NEVER, SIMBA_JOB_LONG);
}

void simba__party_free(simba__party *party)
{
    simba_client *client = party->client;
    if (simba__client_enter(client, NULL) < 0)
        return; /* the lock belongs to the parent, and may be held for ever here */
    simba__party_stop(party);
    if (simba__strand_inside(&party->strand))
        party->orphaned = true;
    else
        simba__strand_unref(&party->strand);
    simba__leave(&client->turn);
}

void simba__party_discard(simba__party *party)
{
    simba_client *client = party->client;
    if (simba__client_enter(client, NULL) < 0)
        return;
    simba__party_send_stop(party);
    if (party->running || party->strand.state != SIMBA__STRAND_IDLE)
        party->orphaned = true;
    else
        simba__strand_unref(&party->strand);
    simba__leave(&client->turn);
}
