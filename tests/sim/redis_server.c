/* A model Redis server: takes commands from wires, runs scripts on its data, publishes to those that have subscribed, and
 * can be restarted, frozen and replaced. What is granted and freed is told to check.c, by comparing the lock before and
 * after every script. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/redis.h"
#include "backends/redis/scripts.h"
#include "sim/redis_model.h"
#include "util/mem.h"

#define FENCE_KEPT_MS INT64_C(2592000000) /* by how much the fence of a grant of ours outlives its lock */

enum { WAIT_OVER = 1000 }; /* EV_SERVER: who; otherwise a replica */

sim_redis_state *redis_state_of(const sim *s)
{
    return s->servers;
}

static sim_redis_state *state_of(const sim *s)
{
    return s->servers;
}

static sim_server *server_of(sim *s, unsigned wire)
{
    return &state_of(s)->server[wire_server(s, wire)];
}

int64_t server_now_us(const sim_server *server)
{
    return store_now(server->s).epoch_us;
}

/* --- who has it -------------------------------------------------------------------------------------- */

typedef struct lock {
    bool held, ours;
    char id[SIM_TEXT];
    uint64_t token, nonce;
    int64_t ends_ms;
} lock;

static uint64_t number_of(const sim_key *hash, const char *field)
{
    const char *text = hash ? keys_field(hash, field) : NULL;
    return text ? strtoull(text, NULL, 10) : 0;
}

static lock look_at(sim_server *server, unsigned mutex)
{
    char name[SIM_NAME];
    lock found = {0};
    server->keys.now_ms = server_now_us(server) / 1000;
    snprintf(name, sizeof name, "simba:{%s}", sim_mutex_name(mutex));
    const sim_key *key = keys_find(&server->keys, name);
    snprintf(name, sizeof name, "simba:{%s}:fence", sim_mutex_name(mutex));
    const sim_key *fence = keys_find(&server->keys, name);
    if (!key)
        return found;
    found.held = true;
    strcpy(found.id, key->u.text);
    found.ends_ms = key->expires_ms;
    const char *id = fence ? keys_field(fence, "id") : NULL;
    found.ours = id && strcmp(id, found.id) == 0 && fence->expires_ms - found.ends_ms == FENCE_KEPT_MS;
    found.token = found.ours ? number_of(fence, "token") : 0;
    found.nonce = found.ours ? number_of(fence, "nonce") : 0;
    return found;
}

/* The party that asks under this nonce right now. */
static unsigned grantee_of(const sim *s, unsigned mutex, const lock *held)
{
    for (unsigned i = 0; i < s->plan->members; i++) {
        const sim_party *party = &s->party[i];
        if (party->mutex == mutex && party->running && party->outstanding && party->machine.nonce == held->nonce &&
            strcmp(party->id, held->id) == 0)
            return i;
    }
    return SIM_NOBODY;
}

static void compare(sim_server *server, unsigned mutex, const lock *before)
{
    sim *s = server->s;
    const lock after = look_at(server, mutex);
    const unsigned grantee = after.held ? grantee_of(s, mutex, &after) : SIM_NOBODY;
    if (after.held && (!before->held || before->token != after.token || before->nonce != after.nonce)) {
        if (before->held)
            check_broken(s, "S1", "mutex %u was granted to %s while %s had it", mutex, after.id, before->id);
        check_granted(s, mutex, grantee, after.token, grantee == SIM_NOBODY);
    } else if (after.held && after.ends_ms != before->ends_ms && grantee == SIM_NOBODY)
        s->checks.straggled[mutex] = true;
    else if (before->held && !after.held)
        check_freed(s, mutex);
}

/* --- what it may forget ------------------------------------------------------------------------------ */

/* Only a server that is going to lose something needs to know what it was like before. */
static void remember(sim_server *server)
{
    sim_redis_state *state = state_of(server->s);
    if (server->s->plan->broken != SIM_BROKEN_LOST_WRITES)
        return;
    if (!state->past && !(state->past = calloc(SIM_PAST, sizeof *state->past)))
        abort();
    sim_past *past = &state->past[state->pasts++ % SIM_PAST];
    past->at = server->s->now;
    past->keys = server->keys;
}

static void forget(sim_server *server, int64_t lost_ms)
{
    sim_redis_state *state = state_of(server->s);
    for (unsigned n = 0; n < SIM_PAST && state->pasts > 0; n++, state->pasts--) {
        const sim_past *past = &state->past[(state->pasts - 1) % SIM_PAST];
        if (past->at <= server->s->now - lost_ms * SIM_MS)
            break;
        server->keys = past->keys;
        server->s->checks.lost_writes = true;
    }
}

/* --- scripts ----------------------------------------------------------------------------------------- */

static void run_script(sim_server *server, unsigned script, int keys, int argc, const char *const *argv,
                       sim_answer *ret_answer)
{
    lock before[SIM_MUTEXES] = {0};
    sim *s = server->s;
    const uint32_t written = server->writes;
    remember(server);
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        before[m] = look_at(server, m);
    scripts_run(state_of(s)->scripts, server, script, keys, argc, argv, ret_answer);
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        compare(server, m, &before[m]);
    if (server->writes != written)
        replicas_feed(server);
}

void server_eval(sim_server *server, const char *text, int keys, int argc, const char *const *argv,
                 sim_answer *ret_answer)
{
    run_script(server, scripts_load(state_of(server->s)->scripts, text, strlen(text)), keys, argc, argv, ret_answer);
}

/* --- connections ------------------------------------------------------------------------------------- */

static void say(sim *s, unsigned wire, const sim_answer *answer)
{
    char *bytes = NULL;
    size_t length = 0;
    if (answer->kind == ANSWER_NONE)
        return;
    FILE *out = open_memstream(&bytes, &length);
    answer_write(answer, out);
    fclose(out);
    wire_answer(s, wire, bytes, length);
    free(bytes);
}

static bool hears(const sim_peer *peer, const char *channel)
{
    for (unsigned i = 0; i < peer->channels; i++)
        if (strcmp(peer->channel[i], channel) == 0)
            return true;
    return false;
}

int64_t server_publish(sim_server *server, const char *channel, const char *text)
{
    sim *s = server->s;
    int64_t heard = 0;
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        if (wire_server(s, wire) != server->index || !hears(wire_peer(s, wire), channel))
            continue;
        sim_answer message = {.kind = ANSWER_LIST};
        answer_add(&message, "message");
        answer_add(&message, channel);
        answer_add(&message, text);
        say(s, wire, &message);
        heard++;
    }
    heard += jvms_hear(s, channel);
    sim_tell(s, "%s: \"%s\" is heard by %lld", channel, text, (long long)heard);
    return heard;
}

static void opened(sim *s, unsigned wire)
{
    sim_peer *peer = calloc(1, sizeof *peer);
    if (!peer || !(peer->reader = redisReaderCreate()))
        abort();
    peer->number = ++state_of(s)->peers;
    wire_set_peer(s, wire, peer);
}

static void closed(sim *s, unsigned wire)
{
    sim_peer *peer = wire_peer(s, wire);
    redisReaderFree(peer->reader);
    free(peer);
    wire_set_peer(s, wire, NULL);
}

/* --- commands ---------------------------------------------------------------------------------------- */

typedef struct call {
    sim *s;
    unsigned wire;
    sim_server *server;
    sim_peer *peer;
    int argc;
    const char *const *argv;
    sim_answer *answer;
} call;

static void ping(const call *c)
{
    const char *text = c->argc > 1 ? c->argv[1] : "PONG";
    if (c->peer->channels == 0) {
        answer_text(c->answer, c->argc > 1 ? ANSWER_TEXT : ANSWER_STATUS, text);
        return;
    }
    answer_add(c->answer, "pong");
    answer_add(c->answer, c->argc > 1 ? text : "");
}

static void say_subscription(const call *c, const char *what, const char *channel)
{
    sim_answer answer = {.kind = ANSWER_LIST};
    answer_add(&answer, what);
    answer_add(&answer, channel);
    answer.item[answer.count].kind = ANSWER_NUMBER;
    answer.item[answer.count++].number = c->peer->channels;
    say(c->s, c->wire, &answer);
}

static void subscribe(const call *c)
{
    for (int i = 1; i < c->argc; i++) {
        if (!hears(c->peer, c->argv[i])) {
            if (c->peer->channels == SIM_CHANNELS || strlen(c->argv[i]) >= SIM_NAME)
                abort();
            strcpy(c->peer->channel[c->peer->channels++], c->argv[i]);
        }
        say_subscription(c, "subscribe", c->argv[i]);
    }
    c->answer->kind = ANSWER_NONE;
}

static void unsubscribe(const call *c)
{
    for (int i = 1; i < c->argc; i++) {
        for (unsigned k = 0; k < c->peer->channels; k++)
            if (strcmp(c->peer->channel[k], c->argv[i]) == 0) {
                memmove(c->peer->channel[k], c->peer->channel[k + 1],
                        (c->peer->channels - k - 1) * sizeof c->peer->channel[0]);
                c->peer->channels--;
            }
        say_subscription(c, "unsubscribe", c->argv[i]);
    }
    c->answer->kind = ANSWER_NONE;
}

static void script(const call *c)
{
    const unsigned loaded = scripts_load(state_of(c->s)->scripts, c->argv[2], strlen(c->argv[2]));
    c->server->loaded |= 1U << loaded;
    answer_text(c->answer, ANSWER_TEXT, scripts_sha(state_of(c->s)->scripts, loaded));
}

/* EVALSHA sha keys key… arg… */
static void evalsha(const call *c)
{
    if (c->argc < 3)
        abort();
    const int found = scripts_find(state_of(c->s)->scripts, c->argv[1]);
    if (found < 0 || !(c->server->loaded & 1U << found))
        answer_text(c->answer, ANSWER_ERROR, "NOSCRIPT No matching script. Please use EVAL.");
    else
        run_script(c->server, (unsigned)found, (int)strtol(c->argv[2], NULL, 10), c->argc - 3, c->argv + 3, c->answer);
    c->peer->written = c->server->writes;
}

/* WAIT replicas ms: the connection stands still until that many have what was written by it, or the time is over. */
static void wait_for(const call *c)
{
    c->answer->kind = ANSWER_NONE;
    c->peer->waits_for = (unsigned)strtoul(c->argv[1], NULL, 10);
    sim_plan_event(c->s, EV_SERVER, WAIT_OVER, c->s->now + strtoll(c->argv[2], NULL, 10) * SIM_MS, c->peer->number,
                   c->wire);
}

static void fine(const call *c)
{
    answer_text(c->answer, ANSWER_STATUS, "OK");
}

static void obey(const call *c)
{
    static const struct {
        const char *name;
        void (*run)(const call *c);
    } known[] = {
        {"EVALSHA", evalsha}, {"PING", ping},   {"SUBSCRIBE", subscribe}, {"UNSUBSCRIBE", unsubscribe},
        {"SCRIPT", script},   {"SELECT", fine}, {"WAIT", wait_for},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i].name, c->argv[0]) == 0) {
            known[i].run(c);
            return;
        }
    if (!commands_run(c->server, c->argc, c->argv, c->answer)) {
        fprintf(stderr, "simba-sim: the model does not know the command %s\n", c->argv[0]);
        abort();
    }
}

static void take_command(sim *s, unsigned wire, const redisReply *command)
{
    const char *argv[SIM_WORDS] = {0};
    sim_answer answer = {.kind = ANSWER_NIL};
    if (command->type != REDIS_REPLY_ARRAY || command->elements == 0 || command->elements > SIM_WORDS)
        abort();
    for (size_t i = 0; i < command->elements; i++)
        argv[i] = command->element[i]->str;
    sim_tell(s, "process %u: %s %.8s", wire_process(s, wire), argv[0], command->elements > 1 ? argv[1] : "");
    obey(&(call){s, wire, server_of(s, wire), wire_peer(s, wire), (int)command->elements, argv, &answer});
    say(s, wire, &answer);
}

static void take_commands(sim *s, unsigned wire)
{
    const sim_peer *peer = wire_peer(s, wire);
    void *command = NULL;
    while (peer->waits_for == 0 && redisReaderGetReply(peer->reader, &command) == REDIS_OK && command) {
        take_command(s, wire, command);
        freeReplyObject(command);
    }
}

static void bytes(sim *s, unsigned wire, const char *data, size_t length)
{
    const sim_peer *peer = wire_peer(s, wire);
    if (redisReaderFeed(peer->reader, data, length) != REDIS_OK)
        abort();
    take_commands(s, wire);
    server_look_at_waits(s);
}

/* --- WAIT -------------------------------------------------------------------------------------------- */

static void end_wait(sim *s, unsigned wire, sim_peer *peer)
{
    sim_answer answer;
    answer_number(&answer, replicas_with(s, peer->written));
    peer->waits_for = 0;
    say(s, wire, &answer);
    take_commands(s, wire);
}

void server_look_at_waits(sim *s)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        sim_peer *peer = wire_peer(s, wire);
        if (peer->waits_for > 0 && replicas_with(s, peer->written) >= peer->waits_for)
            end_wait(s, wire, peer);
    }
}

static void event(sim *s, const sim_event *event)
{
    if (event->who >= SIM_JVM_FIRST) {
        jvms_event(s, event);
        return;
    }
    if (event->who != WAIT_OVER) {
        replicas_event(s, event);
        return;
    }
    sim_peer *peer = wire_peer_at(s, event->arg, 0);
    if (peer && peer->number == event->version && peer->waits_for > 0)
        end_wait(s, event->arg, peer);
}

/* --- what goes wrong --------------------------------------------------------------------------------- */

static void drop_all(sim *s, unsigned server)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_server(s, wire) == server)
            wire_drop(s, wire);
}

static void fault(sim *s, const sim_item *item, int64_t until)
{
    sim_server *server = &state_of(s)->server[0];
    if (item->kind == SIM_ITEM_FREEZE) {
        s->store.frozen_until = until;
        return;
    }
    if (item->kind == SIM_ITEM_STORE_EPOCH) {
        replicas_stick(s, until);
        return;
    }
    forget(server, item->arg);
    if (item->kind == SIM_ITEM_FAIL_OVER)
        replicas_promote(s);
    s->store.down_until = until;
    server->loaded = 0;
    drop_all(s, 0);
}

static bool accepts(const sim *s, unsigned server)
{
    return server == 0 && s->now >= s->store.down_until;
}

static int64_t frozen_until(const sim *s, unsigned server)
{
    (void)server;
    return s->now < s->store.down_until ? 0 : s->store.frozen_until;
}

static void force_release(sim *s, unsigned mutex)
{
    static const redis_options plain = {.kind = REDIS_SINGLE};
    sim_redis_state *state = state_of(s);
    char keys[3][SIM_NAME];
    const lock before = look_at(&state->server[0], mutex);
    sim_answer answer;
    char *text = simba__redis_script_text(REDIS_FORCE_RELEASE, &plain);
    snprintf(keys[0], SIM_NAME, "simba:{%s}", sim_mutex_name(mutex));
    snprintf(keys[1], SIM_NAME, "simba:{%s}:fence", sim_mutex_name(mutex));
    snprintf(keys[2], SIM_NAME, "simba:{%s}:contender", sim_mutex_name(mutex));
    if (before.ours)
        check_revoked(s, mutex, before.token);
    server_eval(&state->server[0], text, 3, 3, (const char *const[]){keys[0], keys[1], keys[2]}, &answer);
    simba__free(text);
}

/* Of a process: the server closes what it has subscribed by, or they have lost each other. */
static void lose_subscriptions(sim *s, unsigned process)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        const sim_peer *peer = wire_peer(s, wire);
        if (wire_process(s, wire) != process || peer->channels == 0)
            continue;
        if (sim_chance(s, 500))
            wire_drop(s, wire);
        else
            wire_silence(s, wire);
    }
}

static void healed(sim *s)
{
    wires_notice(s);
    if (s->now == s->plan->horizon_ns)
        jvms_leave(s);
    for (unsigned i = 0; i < SIM_REPLICAS; i++)
        state_of(s)->replica[i].stuck_until = 0;
}

static int64_t cut_until(const sim *s, unsigned process, unsigned server)
{
    (void)s, (void)process, (void)server;
    return 0;
}

static bool owner(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    const lock held = look_at(&state_of(s)->server[0], mutex);
    memset(ret_owner, 0, sizeof *ret_owner);
    snprintf(ret_owner->id, sizeof ret_owner->id, "%s", held.id);
    ret_owner->token = held.token;
    return held.held;
}

/* --- life -------------------------------------------------------------------------------------------- */

static void *state_new(void)
{
    sim_redis_state *state = calloc(1, sizeof *state);
    if (!state)
        abort();
    state->scripts = scripts_new();
    return state;
}

static void state_free(void *servers)
{
    sim_redis_state *state = servers;
    scripts_free(state->scripts);
    free(state->past);
    free(state->sent);
    free(state);
}

static void begin(sim *s)
{
    sim_redis_state *state = state_of(s);
    memset(state->server, 0, sizeof state->server);
    state->pasts = 0;
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        state->server[i].s = s, state->server[i].index = i;
    replicas_begin(s);
    jvms_begin(s);
}

static void end(sim *s)
{
    for (unsigned i = 0; i < SIM_SERVERS; i++)
        drop_all(s, i);
}

static void url(const sim *s, char *out, size_t size)
{
    snprintf(out, size, s->plan->replicas ? "redis://10.0.0.1?replicas=%ld" : "redis://10.0.0.1",
             (long)s->plan->replicas);
}

const sim_model sim_redis = {
    .backend = &simba__backend_redis,
    .new = state_new,
    .free = state_free,
    .begin = begin,
    .end = end,
    .url = url,
    .event = event,
    .opened = opened,
    .bytes = bytes,
    .closed = closed,
    .force_release = force_release,
    .accepts = accepts,
    .frozen_until = frozen_until,
    .cut_until = cut_until,
    .fault = fault,
    .lose_subscriptions = lose_subscriptions,
    .healed = healed,
    .owner = owner,
};
