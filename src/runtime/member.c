/* See member.h. */
#include "runtime/member.h"

#include <string.h>

#include "core/tally.h"
#include "runtime/eventlog.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/name.h"
#include "util/sized.h"
#include "util/text.h"

/* --- making --------------------------------------------------------------------------------------- */

static bool inherits_all(const simba_timing *timing)
{
    static const simba_timing all = SIMBA_TIMING_INHERIT;
    return memcmp(timing, &all, sizeof all) == 0;
}

/* A timing that is not the client's. */
typedef struct shared_timing {
    simba__timing timing; /* first */
    _Atomic unsigned refs;
} shared_timing;

static int resolve_timing(simba__member *member, simba_client *client, const simba_timing *timing, simba_error *err)
{
    member->machine.timing = &client->timing;
    if (inherits_all(timing))
        return 0;
    if (client->timing.session && (timing->ttl_ms != SIMBA_INHERIT || timing->transition_ms != SIMBA_INHERIT))
        return simba__fail(err, SIMBA_EINVAL, "%s does not apply to %s://, whose leases are sessions",
                           timing->ttl_ms != SIMBA_INHERIT ? "ttl" : "transition", simba_url_scheme(client->url));
    const simba_timing merged = simba__timing_inherit(timing, &client->timing.ms);
    shared_timing *own = simba__calloc(1, sizeof *own);
    if (!own)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    atomic_init(&own->refs, 1);
    member->machine.timing = &own->timing;
    const int rc = simba__timing_resolve(&merged, client->options.drift_ppm, client->options.op_timeout_ms,
                                         client->timing.session, err, &own->timing);
    return rc < 0 || !client->timing.session
               ? rc
               : simba__timing_check_session(&own->timing, atomic_load(&client->session_ms), err);
}

/* NULL: it is the client's. */
static shared_timing *timing_of(const simba__member *member)
{
    const simba__timing *timing = member->machine.timing;
    return timing == &member->party.client->timing ? NULL : (shared_timing *)(uintptr_t)timing;
}

/* In a turn: have the timing of the member that was made before, if it is the same. Of a crowd all have. */
static void share_timing(simba__member *member, const simba_client *client)
{
    const simba__ring *last = client->parties.before;
    const simba__party *party = last == &client->parties ? NULL : SIMBA__OF_RING(last, const simba__party, of_client);
    shared_timing *ours = timing_of(member);
    shared_timing *theirs =
        party && party->type->is_member ? timing_of((const simba__member *)(const void *)party) : NULL;
    if (!ours || !theirs || memcmp(&ours->timing.ms, &theirs->timing.ms, sizeof ours->timing.ms) != 0)
        return;
    simba__free(ours);
    atomic_fetch_add(&theirs->refs, 1);
    member->machine.timing = &theirs->timing;
}

static int make_id(simba__member *member, const char *id, simba_error *err)
{
    char generated[SIMBA_ID_MAX + 1];
    if (id) {
        const int rc = simba__check_id(id, err);
        if (rc < 0)
            return rc;
    } else {
        simba_id_host(generated);
        id = generated;
    }
    member->id = simba__name_make(id);
    return member->id ? 0 : simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

int simba__member_init(simba__member *member, const simba__member_type *type, simba_client *client, const char *mutex,
                       const char *id, const simba_timing *timing, simba_error *err)
{
    int rc = simba__client_forked(client, err);
    member->party.client = client;
    member->machine.timing = &client->timing;
    if (rc == 0)
        rc = simba__client_check_mutex(client, mutex, err);
    if (rc == 0)
        rc = make_id(member, id, err);
    if (rc == 0)
        rc = resolve_timing(member, client, timing, err);
    if (rc == 0) {
        simba__enter(&client->turn);
        share_timing(member, client);
        rc = simba__party_init(&member->party, &type->party, client, mutex, err);
        simba__contention_init(&member->machine, member->machine.timing, client->backend->caps & SIMBA_CAP_QUEUE);
        simba__leave(&client->turn);
    }
    if (rc < 0)
        simba__member_fini(member);
    return rc;
}

void simba__member_fini(simba__member *member)
{
    shared_timing *timing = timing_of(member);
    if (timing && atomic_fetch_sub(&timing->refs, 1) == 1)
        simba__free(timing);
    simba__name_drop(member->machine.owner.id);
    simba__name_drop(member->id);
}

/* --- stepping ------------------------------------------------------------------------------------- */

static const simba__member_type *type_of(const simba__member *member)
{
    return (const simba__member_type *)(const void *)member->party.type;
}

static void publish(simba__member *member)
{
    const simba__contention *machine = &member->machine;
    int64_t valid_until_ns = simba__contention_valid_until(machine).ns;
    if (valid_until_ns == 0 && atomic_load_explicit(&member->valid_until_ns, memory_order_relaxed) == 0)
        return; /* as it was */
    const int64_t margin_ns = machine->phase == SIMBA__HOLD ? machine->timing->stop_margin_ns : 0;
    int64_t ttl_until_ns = valid_until_ns ? simba__contention_ttl_until(machine).ns : 0;
    if (machine->timing->session && valid_until_ns)
        valid_until_ns = ttl_until_ns = INT64_MAX - margin_ns;
    atomic_store_explicit(&member->token, valid_until_ns ? machine->token : 0, memory_order_relaxed);
    atomic_store_explicit(&member->ttl_until_ns, ttl_until_ns, memory_order_relaxed);
    atomic_store_explicit(&member->has_margin, margin_ns != 0, memory_order_relaxed);
    atomic_store_explicit(&member->valid_until_ns, valid_until_ns, memory_order_release);
}

/* The owner that a reply or a push tells of, and the store's time then. NULL: it does not. */
static const simba_owner *owner_in(const simba__event *event, int64_t *ret_now_ms)
{
    if (event->kind == SIMBA__EV_REPLY && event->reply->status == 0) {
        *ret_now_ms = event->reply->now_ms;
        return &event->reply->owner;
    }
    if (event->kind == SIMBA__EV_PUSH && event->push->kind == SIMBA_PUSH_ACQUIRED) {
        *ret_now_ms = event->push->now_ms;
        return &event->push->owner;
    }
    return NULL;
}

/* NULL: nobody. */
static const char *shared_id(const simba__member *member, const simba_owner *owner)
{
    if (!owner || owner->id[0] == '\0')
        return NULL;
    return strcmp(owner->id, member->id) == 0 ? member->id : simba__topic_hear(member->party.topic, owner->id);
}

static simba__speaker speaker(const simba__member *member)
{
    return (simba__speaker){member->party.client, member->party.topic->mutex, member->id};
}

static simba__narrator narrator_of(simba__member *member)
{
    return (simba__narrator){
        .client = member->party.client,
        .mutex = member->party.topic->mutex,
        .id = member->id,
        .machine = &member->machine,
        .owner_until = member->owner_until,
        .said = &member->said,
    };
}

void simba__member_say_lease(simba__member *member, bool renewed)
{
    const simba__narrator narrator = narrator_of(member);
    simba__narrate_lease(&narrator, renewed, member->party.client->turn.now);
}

void simba__member_say(const simba__member *member, const char *words)
{
    const simba__speaker who = speaker(member);
    simba__eventlog_say(&who, words);
}

static void log_step(simba__member *member, const simba__event *event, const simba__actions *actions)
{
    const simba__speaker who = speaker(member);
    const simba__narrator narrator = narrator_of(member);
    simba__narrate_step(&narrator, event, actions);
    simba__eventlog_step(&who, &member->machine, event, actions);
}

static void take_step(simba__member *member, simba__event *event)
{
    simba__party *party = &member->party;
    const simba__before before = simba__tally_before(&member->machine);
    event->session_until.ns = atomic_load_explicit(&party->client->session_until_ns, memory_order_relaxed);
    int64_t store_now_ms;
    const simba_owner *owner = owner_in(event, &store_now_ms);
    event->owner_id = shared_id(member, owner);
    const char *known_id = member->machine.owner.id;
    simba__actions actions;
    simba__contention_step(&member->machine, event, &actions);
    simba__name_replace(known_id, member->machine.owner.id);
    event->used = actions.used;
    publish(member);
    if (owner) /* until when it has the mutex, on our own clock */
        member->owner_until = simba__local_add(event->now, simba__owner_left_ns(owner, store_now_ms));
    simba__tally_step(&party->client->stats, &before, &member->machine, event, &actions, &member->waits_since);
    if (simba__has_listener(&party->client->options))
        log_step(member, event, &actions);
    simba__party_act(party, &actions, member->id, member->machine.timing);
    const bool hears_notes = member->hears_notes && !actions.done;
    simba__party_want(party,
                      hears_notes || simba__contention_wants_news(&member->machine, party->client->backend->caps));
    type_of(member)->told(member, &actions);
    if (actions.done)
        simba__party_stopped(party);
    if (actions.released && type_of(member)->acks_at_once)
        simba__member_ack(member);
}

/* --- news that is heard late ------------------------------------------------------------------------- */

/* Before `event` happens to it. */
static void catch_up(simba__member *member, const simba__event *event)
{
    const simba__topic *topic = member->party.topic;
    const simba__news *news = topic->news;
    if (!news || member->heard == news->number || member->party.of_topic.list != &topic->waiting)
        return;
    member->heard = news->number;
    if (simba__news_is_known(news, event))
        return;
    const simba_push push = simba__news_late(news, event->now);
    simba__event late = {.kind = SIMBA__EV_PUSH, .now = event->now, .push = &push};
    take_step(member, &late);
}

void simba__member_catch_up(simba__member *member)
{
    const simba__event look = {.kind = SIMBA__EV_TIMER, .now = member->party.client->turn.now};
    catch_up(member, &look);
}

/* From the second one that waits on there may be news that is kept. Without memory for it all hear everything at once. */
static void begin_news(simba__topic *topic)
{
    topic->news = simba__calloc(1, sizeof *topic->news);
    for (simba__list_item *item = topic->news ? topic->waiting.first : NULL; item; item = item->next) {
        simba__member *member = (simba__member *)(void *)SIMBA__OF_ITEM(item, simba__party, of_topic);
        simba__news_told(topic->news, member->owner_until);
        member->heard = topic->news->number;
    }
}

/* After each step: does it wait? One that begins to has heard everything. */
static void enlist(simba__member *member)
{
    simba__topic *topic = member->party.topic;
    simba__list_item *item = &member->party.of_topic;
    const bool waits = simba__news_waits(&member->machine);
    simba__list *list = waits ? &topic->waiting : &topic->parties;
    if (!member->party.running)
        return;
    if (item->list != list) {
        simba__list_append(list, item);
        member->heard = topic->news ? topic->news->number : 0;
    }
    if (!topic->news && topic->waiting.count > 1)
        begin_news(topic);
    if (waits && topic->news)
        simba__news_told(topic->news, member->owner_until);
}

void simba__member_step(simba__party *party, simba__event *event)
{
    simba__member *member = (simba__member *)(void *)party;
    if (party->topic->news)
        catch_up(member, event);
    take_step(member, event);
    enlist(member);
}

void simba__member_start(simba__member *member, simba_local give_up)
{
    simba_client *client = member->party.client;
    const uint64_t seed = member->machine.seed; /* it goes on from where it is: asking the kernel is a system call */
    simba__event event = {
        .kind = SIMBA__EV_START,
        .now = client->turn.now,
        .seed = seed ? seed : client->host.random(&client->host),
        .give_up = give_up,
    };
    simba__party_started(&member->party);
    simba__member_step(&member->party, &event);
}

void simba__member_ack(simba__member *member)
{
    simba__event event = {.kind = SIMBA__EV_ACK, .now = member->party.client->turn.now};
    simba__member_step(&member->party, &event);
}

void simba__member_look(simba__member *member)
{
    simba__event event = {.kind = SIMBA__EV_TIMER, .now = member->party.client->turn.now};
    if (member->party.running)
        simba__member_step(&member->party, &event);
}

/* --- start and stop ------------------------------------------------------------------------------- */

int simba__member_public_start(simba__member *member)
{
    simba_client *client = member->party.client;
    int rc = simba__client_enter(client, NULL);
    if (rc < 0)
        return rc;
    if (client->closing)
        rc = SIMBA_ECLOSED;
    else if (member->party.running)
        rc = SIMBA_ESTATE;
    else
        simba__member_start(member, SIMBA__NEVER);
    simba__leave(&client->turn);
    return rc;
}

int simba__member_public_stop(simba__member *member)
{
    simba_client *client = member->party.client;
    int rc = simba__client_enter(client, NULL);
    if (rc < 0)
        return rc;
    const bool was_running = member->party.running;
    simba__party_stop(&member->party);
    if (was_running && !member->party.running)
        rc = member->machine.last_error;
    else if (client->closed)
        rc = SIMBA_ECLOSED;
    simba__leave(&client->turn);
    return rc;
}

/* --- looking -------------------------------------------------------------------------------------- */

/* The time left until `more_ns` after `until`. */
static int64_t lease_left_ns(const simba__member *member, const _Atomic int64_t *until, int64_t more_ns)
{
    const simba_client *client = member->party.client;
    if (simba__client_forked(client, NULL) < 0)
        return 0;
    simba_local until_at = {atomic_load_explicit(until, memory_order_acquire)};
    if (until_at.ns)
        until_at.ns += more_ns;
    simba_local session_at = {atomic_load_explicit(&client->session_until_ns, memory_order_relaxed)};
    if (client->timing.session && until_at.ns) {
        session_at = simba__local_add(session_at, until_at.ns - INT64_MAX); /* less the margin */
        until_at = SIMBA__NEVER;
    }
    return simba__lease_left_ns(until_at, session_at, simba__clock_boot());
}

int64_t simba__member_held_for_ns(const simba__member *member)
{
    return lease_left_ns(member, &member->valid_until_ns, 0);
}

int64_t simba__member_ttl_for_ns(const simba__member *member)
{
    return lease_left_ns(member, &member->ttl_until_ns, 0);
}

uint64_t simba__member_token(const simba__member *member)
{
    return simba__member_held_for_ns(member) > 0 ? atomic_load_explicit(&member->token, memory_order_relaxed) : 0;
}

int simba__member_lease(const simba__member *member, simba_lease *ret_lease)
{
    const simba_client *client = member->party.client;
    const int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    simba_lease lease;
    memset(&lease, 0, sizeof lease); /* the program also gets the padding between the members */
    lease.size = sizeof lease;
    const int64_t held_ns = simba__member_held_for_ns(member);
    if (held_ns > 0) {
        const bool has_margin = atomic_load_explicit(&member->has_margin, memory_order_relaxed);
        int64_t left_ns =
            lease_left_ns(member, &member->valid_until_ns, has_margin ? member->machine.timing->stop_margin_ns : 0);
        if (left_ns < held_ns)
            left_ns = held_ns; /* the lease has just ended, or just begun */
        const int64_t ttl_ns = client->timing.session ? left_ns : simba__member_ttl_for_ns(member);
        lease.token = atomic_load_explicit(&member->token, memory_order_relaxed);
        lease.held_for_ms = held_ns / SIMBA__NS_PER_MS;
        lease.left_ms = left_ns / SIMBA__NS_PER_MS;
        lease.ttl_left_ms = ttl_ns / SIMBA__NS_PER_MS;
        lease.overdue = left_ns <= simba__lease_overdue_ns(member->machine.timing, atomic_load(&client->session_ms));
    }
    return simba__sized_tell(ret_lease, &lease);
}

int simba__member_owner(simba__member *member, simba_owner *ret_owner)
{
    simba_client *client = member->party.client;
    const int rc = simba__client_enter_open(client);
    if (rc < 0)
        return rc;
    simba__member_catch_up(member);
    *ret_owner = simba__known_shown(&member->machine.owner);
    simba__leave(&client->turn);
    return 0;
}

int64_t simba__member_owner_left_ms(simba__member *member)
{
    simba_client *client = member->party.client;
    if (simba__client_enter(client, NULL) < 0)
        return 0;
    simba__member_catch_up(member);
    const bool none = !member->machine.owner.id;
    const int64_t left_ns = member->owner_until.ns - client->turn.now.ns;
    const bool session = client->timing.session;
    simba__leave(&client->turn);
    if (none || left_ns < 0)
        return 0;
    return session ? INT64_MAX : left_ns / SIMBA__NS_PER_MS;
}

int simba__member_grant(simba__member *member, simba_grant *ret_grant)
{
    simba_client *client = member->party.client;
    int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    if (client->timing.session)
        return SIMBA_ENOTSUP;
    simba__enter(&client->turn);
    const simba__contention *machine = &member->machine;
    if (client->closed)
        rc = SIMBA_ECLOSED;
    else if (simba__contention_valid_until(machine).ns == 0)
        rc = SIMBA_ESTATE;
    if (rc == 0) {
        *ret_grant = (simba_grant){.nonce = machine->nonce, .token = machine->token};
        strcpy(ret_grant->id, member->id);
    }
    simba__leave(&client->turn);
    return rc;
}

simba_status simba__member_status(const simba__member *member)
{
    simba_client *client = member->party.client;
    if (simba__client_enter(client, NULL) < 0)
        return SIMBA_STATUS_INITIAL;
    const simba_status status = simba__contention_status(&member->machine);
    simba__leave(&client->turn);
    return status;
}
