/* The simulated runtime: what src/runtime does for its parties, with messages to the model of a store. It handles
 * requests and their deadlines, topics, sessions, and the life and death of a process. Core decides who hears a push
 * (delivery.h). A store whose own code runs in the simulation has its runtime in host.c instead. */
#include <string.h>

#include "core/delivery.h"
#include "core/reply.h"
#include "sim/world.h"

static sim_process *process_of(sim *s, const sim_party *party)
{
    return &s->process[party->process];
}

static unsigned index_of(const sim *s, const sim_party *party)
{
    return (unsigned)(party - s->party);
}

simba_local process_now(const sim *s, const sim_process *process)
{
    return (simba_local){sim_clock_read(&process->clock, s->now)};
}

bool process_is_paused(const sim *s, const sim_process *process)
{
    return s->now < process->paused_until;
}

/* --- what parties want ------------------------------------------------------------------------------- */

void process_plan(sim *s, sim_event_kind kind, unsigned who, const sim_process *process, simba_local at,
                  uint32_t version)
{
    if (at.ns == INT64_MAX)
        return;
    const int64_t when = sim_clock_when(&process->clock, at.ns);
    sim_plan_event(s, kind, who, when > s->now ? when : s->now, version, 0);
}

void process_submit(sim *s, sim_party *party, const simba__actions *actions)
{
    sim_process *process = process_of(s, party);
    uint32_t index;
    party->generation = actions->generation;
    party->outstanding = true;
    party->request.deadline = actions->deadline;
    simba__actions_request(actions, party->id, party->is_member ? &s->timing : NULL, &party->request);
    if (s->model) {
        client_submit(s, party, &party->request);
        return;
    }
    process_plan(s, EV_DEADLINE, index_of(s, party), process, actions->deadline, ++party->deadline_version);
    if (s->plan->store == SIM_STORE_SESSION && !process->session)
        return; /* there is nobody to send it to; the deadline will say so */
    sim_message *message = net_message(s, MSG_REQUEST, party->process, &index);
    message->party = (uint8_t)index_of(s, party);
    message->mutex = party->mutex;
    message->generation = actions->generation;
    message->session = process->session;
    message->request = party->request;
    /* While the session lives, a release is carried out in the end. */
    net_to_store(s, index, s->plan->store == SIM_STORE_SESSION && actions->op == SIMBA_OP_RELEASE);
}

static void subscribe(sim *s, unsigned process, unsigned mutex)
{
    uint32_t index;
    sim_message *message = net_message(s, MSG_SUBSCRIBE, process, &index);
    message->mutex = (uint8_t)mutex;
    net_to_store(s, index, true);
}

static void watch(sim *s, unsigned process, unsigned mutex)
{
    sim_topic *topic = &s->process[process].topic[mutex];
    topic->watched = true;
    topic->polled = false;
    if (s->plan->store == SIM_STORE_POLL)
        process_plan(s, EV_POLL, process, &s->process[process], process_now(s, &s->process[process]),
                     ++s->process[process].poll_version);
    else
        subscribe(s, process, mutex);
}

void process_want(sim *s, sim_party *party, bool wants)
{
    sim_topic *topic = &process_of(s, party)->topic[party->mutex];
    if (party->wants != wants) {
        party->wants = wants;
        topic->interest += wants ? 1U : (unsigned)-1;
    }
    if (s->model)
        return; /* the client looks at it before its turn ends */
    if (topic->interest > 0 && !topic->watched) {
        watch(s, party->process, party->mutex);
    } else if (topic->interest == 0 && topic->watched && !s->plan->watch_free) {
        topic->watched = false;
        s->store.subscribed[party->process][party->mutex] = 0;
    }
}

/* --- what comes from the store ------------------------------------------------------------------------ */

static void deliver_reply(sim *s, const sim_message *message)
{
    sim_party *party = &s->party[message->party];
    if (notes_is_about(message->request.op)) {
        notes_answered(s, party, &message->request, message->generation, message->note);
        return;
    }
    simba_reply reply = message->request.reply;
    simba__event event = {.kind = SIMBA__EV_REPLY, .generation = message->generation, .reply = &reply};
    const int fault = simba__reply_check(&message->request, s->plan->store == SIM_STORE_SESSION, NULL);
    if (fault < 0)
        reply = (simba_reply){.status = fault};
    if (!party->running && !party->outstanding)
        return;
    /* The client of a session store fails the requests that an earlier session has not answered. */
    if (s->plan->store == SIM_STORE_SESSION && message->session != process_of(s, party)->session)
        return;
    /* Answers that are late or come twice reach the machine, which has to recognise them. */
    if (message->generation == party->generation)
        party->outstanding = false;
    party_step(s, party, &event);
}

/* Those who wait, or the others. News that is kept goes to those who wait until one has made itself known to the holder. */
static void tell(sim *s, unsigned process, unsigned mutex, const simba_push *push, bool waits, bool kept,
                 simba__delivery *delivery)
{
    for (unsigned i = 0; i < s->parties && !(kept && (delivery->used || !push->listens)); i++) {
        sim_party *party = &s->party[i];
        if (!party->running || party->process != process || party->mutex != mutex || party->waits != waits ||
            !simba__delivery_concerns(delivery, party->is_member))
            continue;
        simba__event event = {.kind = SIMBA__EV_PUSH, .push = push, .used = delivery->used};
        party_step(s, party, &event);
        simba__delivery_made(delivery, party->is_member, event.used);
    }
}

/* As in runtime/host.c. */
static bool keep_news(sim *s, unsigned process, unsigned mutex, const simba_push *push)
{
    simba__news *news = &s->process[process].topic[mutex].news;
    const simba_local now = process_now(s, &s->process[process]);
    if (push->kind != SIMBA_PUSH_ACQUIRED)
        return false;
    bool can_wait = simba__news_can_wait(news, push, now);
    for (unsigned i = 0; i < s->parties; i++) {
        const sim_party *party = &s->party[i];
        can_wait &= !(party->running && party->process == process && party->mutex == mutex && party->is_member &&
                      party_is_curious(party));
    }
    simba__news_keep(news, push, now);
    return can_wait;
}

void process_push(sim *s, unsigned process, unsigned mutex, const simba_push *push)
{
    simba__delivery delivery = simba__delivery_of(push);
    tell(s, process, mutex, push, false, false, &delivery);
    tell(s, process, mutex, push, true, keep_news(s, process, mutex, push), &delivery);
}

static void push_to(sim *s, const sim_message *message)
{
    sim_party *party = &s->party[message->party];
    simba__event event = {.kind = SIMBA__EV_PUSH, .push = &message->push};
    if (party->running && party->machine.nonce == message->request.nonce)
        party_step(s, party, &event);
}

void process_push_all(sim *s, unsigned process, simba_push_kind kind)
{
    const simba_push push = {.kind = kind};
    for (unsigned i = 0; i < s->parties; i++) {
        sim_party *party = &s->party[i];
        simba__event event = {.kind = SIMBA__EV_PUSH, .push = &push};
        if (!party->running || party->process != process)
            continue;
        party_step(s, party, &event);
    }
}

/* A mutex that was free is free again: somebody may have had it in between, and others may have heard of that. */
static void polled(sim *s, unsigned process, unsigned mutex, const simba_reply *reply, uint64_t version)
{
    sim_topic *topic = &s->process[process].topic[mutex];
    const bool is_free = simba_owner_is_none(&reply->owner);
    simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    if (!topic->watched)
        return;
    const bool news = !topic->polled || topic->is_free != is_free || topic->token != reply->owner.token ||
                      (is_free && topic->version != version);
    if (topic->polled && is_free)
        push.kind = SIMBA_PUSH_RELEASED;
    else if (topic->polled)
        push = (simba_push){.kind = SIMBA_PUSH_ACQUIRED, .owner = reply->owner, .now_ms = reply->now_ms};
    topic->polled = true;
    topic->is_free = is_free;
    topic->token = reply->owner.token;
    topic->version = version;
    if (news)
        process_push(s, process, mutex, &push);
}

/* --- sessions ---------------------------------------------------------------------------------------- */

static void send_for_session(sim *s, unsigned p, sim_message_kind kind)
{
    uint32_t index;
    sim_process *process = &s->process[p];
    sim_message *message = net_message(s, kind, p, &index);
    message->session = process->session;
    message->generation = process->attempt;
    message->sent_at = process_now(s, process).ns;
    net_to_store(s, index, false);
}

static void set_session(sim *s, unsigned p, int64_t sent_at)
{
    sim_process *process = &s->process[p];
    const int64_t until = sent_at + simba__session_ns(&s->timing, s->plan->session_ns / SIM_MS);
    if (until <= process->session_until.ns)
        return;
    process->session_until.ns = until;
    process_plan(s, EV_SESSION_OVER, p, process, process->session_until, ++process->session_version);
}

static void session_lost(sim *s, unsigned p)
{
    sim_process *process = &s->process[p];
    process->session = 0;
    process->attempt++;
    process->session_until.ns = 0;
    process->session_version++;
    process_push_all(s, p, SIMBA_PUSH_SESSION_LOST);
}

static void ping(sim *s, unsigned p)
{
    sim_process *process = &s->process[p];
    const int64_t next = s->plan->session_ns / 4;
    send_for_session(s, p, process->session ? MSG_PING : MSG_CONNECT);
    process_plan(s, EV_PING, p, process, simba__local_add(process_now(s, process), next), process->ping_version);
}

static void connected(sim *s, const sim_message *message)
{
    const unsigned p = message->process;
    sim_process *process = &s->process[p];
    const int64_t sent_at = message->sent_at;
    if (process->session || message->generation != process->attempt)
        return; /* an answer to an earlier attempt; that session will go by itself */
    process->session = message->session;
    process->session_until.ns = 0;
    set_session(s, p, sent_at);
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        if (process->topic[m].watched)
            subscribe(s, p, m);
    process_push_all(s, p, SIMBA_PUSH_SESSION_BACK);
}

/* --- life -------------------------------------------------------------------------------------------- */

void process_init(sim *s)
{
    memset(s->process, 0, sizeof s->process);
    memset(s->party, 0, sizeof s->party);
    s->parties = 0;
    for (unsigned p = 0; p < s->plan->processes; p++)
        s->process[p].clock = (sim_clock){.base_shown = s->plan->offset_ns[p], .ppm = s->plan->ppm[p]};
    for (unsigned i = 0; i < SIM_PARTIES; i++) {
        sim_party *party = &s->party[i];
        party->is_member = i < s->plan->members;
        party->timer = SIMBA__NEVER;
        if (!party->is_member)
            continue;
        const sim_member_plan *plan = &s->plan->member[i];
        party->process = plan->process;
        party->mutex = plan->mutex;
        party->id = plan->id;
        party->locker = plan->locker;
        party->try_once = plan->try_once;
        party->sharing.sharers = plan->sharers;
        s->parties = i + 1;
    }
}

void process_start(sim *s, unsigned p)
{
    sim_process *process = &s->process[p];
    process->alive = true;
    process->boot++;
    process->session_until = SIMBA__NEVER;
    memset(process->topic, 0, sizeof process->topic);
    for (unsigned i = 0; i < s->parties; i++)
        if (s->party[i].process == p)
            party_make(s, &s->party[i]);
    for (unsigned i = 0; i < s->parties; i++)
        if (s->party[i].process == p)
            notes_start(s, &s->party[i]);
    if (s->model) {
        client_open(s, p);
    } else if (s->plan->store == SIM_STORE_SESSION) {
        process->session = 0;
        process->session_until.ns = 0;
        sim_plan_event(s, EV_PING, p, s->now, ++process->ping_version, 0);
    }
    for (unsigned i = 0; i < s->parties; i++)
        if (s->party[i].process == p && s->party[i].restarts)
            party_start(s, &s->party[i]);
}

void process_kill(sim *s, unsigned p, int64_t back_after_ns)
{
    sim_process *process = &s->process[p];
    if (!process->alive)
        return;
    process->alive = false;
    process->paused_until = 0;
    process->in_turn = false;
    process->session_version++;
    process->ping_version++;
    process->poll_version++;
    /* Otherwise the machine has died with it, and the store takes a while to notice. */
    const bool noticed = sim_chance(s, 500);
    if (s->model)
        client_kill(s, p, noticed);
    else if (noticed)
        memset(s->store.subscribed[p], 0, sizeof s->store.subscribed[p]);
    for (unsigned i = 0; i < s->parties; i++) {
        sim_party *party = &s->party[i];
        if (party->process != p)
            continue;
        if (party->running && party->is_member)
            s->verdict.contender_ns += s->now - party->started_at;
        party->life++;
        party->timer_version++;
        party->deadline_version++;
        party->timer = SIMBA__NEVER;
        party->outstanding = party->running = party->wants = party->app_leads = party->told_acquired = false;
        party->stop_wanted = false;
        party->strand = STRAND_IDLE;
        party->valid_until.ns = 0;
        lingering_kill(party);
        sim_log(s, party->name, "killed");
    }
    if (back_after_ns > 0)
        sim_plan_event(s, EV_PROCESS_UP, p, s->now + back_after_ns, process->boot, 0);
}

/* The clock is another one now: events that were planned by it come at another time. */
static void plan_anew(sim *s, unsigned p)
{
    sim_process *process = &s->process[p];
    for (unsigned i = 0; i < s->parties; i++) {
        sim_party *party = &s->party[i];
        if (party->process != p || !process->alive)
            continue;
        process_plan(s, EV_TIMER, i, process, party->timer, ++party->timer_version);
        if (party->sharing.sharers > 0)
            lingering_plan_anew(s, party);
        if (party->outstanding && !s->model)
            process_plan(s, EV_DEADLINE, i, process, party->request.deadline, ++party->deadline_version);
    }
    if (process->session)
        process_plan(s, EV_SESSION_OVER, p, process, process->session_until, ++process->session_version);
    if (s->model)
        client_plan_anew(s, p);
}

void process_set_rate(sim *s, unsigned p, int64_t ppm)
{
    sim_clock_set_rate(&s->process[p].clock, s->now, ppm);
    plan_anew(s, p);
}

void process_jump(sim *s, unsigned p, int64_t ns)
{
    sim_clock_jump(&s->process[p].clock, ns);
    plan_anew(s, p);
    /* That much of a lease is gone at once, and nobody could be told meanwhile. */
    check_jump(s, p, ns);
    if (s->process[p].paused_until < s->now)
        s->process[p].paused_until = s->now;
}

/* --- events ------------------------------------------------------------------------------------------ */

static void message_arrived(sim *s, uint32_t index)
{
    const sim_message message = s->message[index];
    sim_process *process = &s->process[message.process];
    net_free(s, index);
    if (!process->alive || message.boot != process->boot)
        return;
    switch ((sim_message_kind)message.kind) {
    case MSG_REPLY:
        deliver_reply(s, &message);
        break;
    case MSG_PUSH:
        if (message.party < SIM_PARTIES)
            push_to(s, &message);
        else if (process->topic[message.mutex].watched)
            process_push(s, message.process, message.mutex, &message.push);
        break;
    case MSG_SUBSCRIBED:
        if (process->topic[message.mutex].watched)
            process_push(s, message.process, message.mutex, &(simba_push){.kind = SIMBA_PUSH_CHANGED});
        break;
    case MSG_POLLED:
        polled(s, message.process, message.mutex, &message.request.reply, message.version);
        break;
    case MSG_CONNECTED:
        connected(s, &message);
        break;
    case MSG_PONG:
        if (process->session == message.session)
            set_session(s, message.process, message.sent_at);
        break;
    case MSG_EXPIRED:
        if (process->session == message.session && process->session)
            session_lost(s, message.process);
        break;
    default:
        break;
    }
}

static void poll_all(sim *s, unsigned p)
{
    sim_process *process = &s->process[p];
    bool any = false;
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        if (!process->topic[m].watched)
            continue;
        uint32_t index;
        net_message(s, MSG_POLL, p, &index)->mutex = (uint8_t)m;
        net_to_store(s, index, false);
        any = true;
    }
    if (any)
        process_plan(s, EV_POLL, p, process, simba__local_add(process_now(s, process), s->plan->poll_ns),
                     process->poll_version);
}

static unsigned process_of_event(const sim *s, const sim_event *event)
{
    if (event->kind == EV_TO_PROCESS)
        return s->message[event->arg].process;
    if (event->kind == EV_WIRE_TO_PROCESS)
        return wire_process(s, event->who);
    return event->kind >= EV_TIMER ? s->party[event->who].process : event->who;
}

void process_event(sim *s, const sim_event *event)
{
    const unsigned p = process_of_event(s, event);
    sim_process *process = &s->process[p];
    if (process_is_paused(s, process) && process->alive) {
        /* When it goes on, it finds everything at once, in whatever order; but first it ends the turn it was in. */
        const int64_t late = event->kind == EV_ACT ? 0 : sim_pick(s, 1, 2000);
        sim_plan_event(s, (sim_event_kind)event->kind, event->who, process->paused_until + late, event->version,
                       event->arg);
        return;
    }
    switch ((sim_event_kind)event->kind) {
    case EV_TO_PROCESS:
        message_arrived(s, event->arg);
        break;
    case EV_WIRE_TO_PROCESS:
    case EV_HOST_TIMER:
    case EV_JOB:
    case EV_READY:
        client_event(s, p, event);
        break;
    case EV_PROCESS_UP:
        if (!process->alive && event->version == process->boot)
            process_start(s, p);
        break;
    case EV_RESUBSCRIBE:
        for (unsigned m = 0; process->alive && event->version == process->boot && m < s->plan->mutexes; m++)
            if (process->topic[m].watched && s->plan->store != SIM_STORE_POLL)
                subscribe(s, p, m);
        break;
    case EV_SESSION_OVER:
        if (event->version == process->session_version && process->alive)
            session_lost(s, p);
        break;
    case EV_PING:
        if (event->version == process->ping_version)
            ping(s, p);
        break;
    case EV_POLL:
        if (event->version == process->poll_version)
            poll_all(s, p);
        break;
    default:
        party_event(s, &s->party[event->who], event);
    }
}
