/* A model Redis server: takes commands from wires, runs scripts on its data, publishes to subscribers, and holds up
 * connections that wait for its replicas. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"

static sim_redis_state *state_of(const sim *s)
{
    return s->servers;
}

static sim_server *server_of(sim *s, unsigned wire)
{
    return &state_of(s)->server[wire_server(s, wire)];
}

bool server_is_modern(const sim *s)
{
    return s->plan->seed % 4 != 0;
}

int64_t server_now_us(const sim_server *server)
{
    return store_now(server->s).epoch_us;
}

/* --- connections ------------------------------------------------------------------------------------- */

void server_say(sim *s, unsigned wire, const sim_answer *answer)
{
    sim_bytes out;
    out.length = 0;
    answer_write(answer, &out);
    if (out.length > 0)
        wire_answer(s, wire, out.data, out.length);
}

static bool hears(const sim_peer *peer, const char *channel)
{
    for (unsigned i = 0; i < peer->channels; i++)
        if (strcmp(peer->channel[i], channel) == 0)
            return true;
    return false;
}

/* The servers of a cluster tell each other what was published. */
static bool are_connected(const sim *s, const sim_server *from, const sim_server *to)
{
    return from == to || (s->plan->topology == SIM_CLUSTER && s->now >= from->apart_until &&
                          s->now >= to->apart_until && !redis_is_away(s, to));
}

int64_t server_publish(sim_server *server, const char *channel, const char *text)
{
    sim *s = server->s;
    int64_t heard = 0;
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        if (!hears(wire_peer(s, wire), channel) || !are_connected(s, server, server_of(s, wire)))
            continue;
        sim_answer message;
        message.count = 0;
        answer_add(&message, "message");
        answer_add(&message, channel);
        answer_add(&message, text);
        server_say(s, wire, &message);
        heard += wire_server(s, wire) == server->index; /* only those are counted */
    }
    heard += jvms_hear(s, channel);
    sim_tell(s, "%s: \"%s\" is heard by %lld", channel, text, (long long)heard);
    return heard;
}

/* Only those at this server hear it; replicas of it, where nobody listens, would too. */
int64_t server_spublish(sim_server *server, const char *channel, const char *text)
{
    sim *s = server->s;
    int64_t heard = 0;
    char name[SIM_NAME + 1];
    snprintf(name, sizeof name, "%c%s", SIM_BY_SHARD, channel);
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        if (wire_server(s, wire) != server->index || !hears(wire_peer(s, wire), name))
            continue;
        sim_answer message;
        message.count = 0;
        answer_add(&message, "smessage");
        answer_add(&message, channel);
        answer_add(&message, text);
        server_say(s, wire, &message);
        heard++;
    }
    sim_tell(s, "%s: \"%s\" is heard by %lld of the shard", channel, text, (long long)heard);
    return heard;
}

void redis_opened(sim *s, unsigned wire)
{
    sim_peer *peer = calloc(1, sizeof *peer);
    if (!peer || !(peer->reader = redisReaderCreate()))
        abort();
    peer->number = ++state_of(s)->peers;
    wire_set_peer(s, wire, peer);
}

void redis_closed(sim *s, unsigned wire)
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
    sim_answer answer;
    answer.count = 0;
    answer_add(&answer, what);
    answer_add(&answer, channel);
    answer.item[answer.count].kind = ANSWER_NUMBER;
    answer.item[answer.count++].number = c->peer->channels;
    server_say(c->s, c->wire, &answer);
}

static void add_channel(sim_peer *peer, const char *name)
{
    if (hears(peer, name))
        return;
    if (peer->channels == SIM_CHANNELS || strlen(name) >= SIM_NAME)
        abort();
    strcpy(peer->channel[peer->channels++], name);
}

static void remove_channel(sim_peer *peer, const char *name)
{
    for (unsigned k = 0; k < peer->channels; k++)
        if (strcmp(peer->channel[k], name) == 0) {
            memmove(peer->channel[k], peer->channel[k + 1], (peer->channels - k - 1) * sizeof peer->channel[0]);
            peer->channels--;
        }
}

static void subscribe(const call *c)
{
    for (int i = 1; i < c->argc; i++) {
        add_channel(c->peer, c->argv[i]);
        say_subscription(c, "subscribe", c->argv[i]);
    }
    c->answer->kind = ANSWER_NONE;
}

/* SSUBSCRIBE channel */
static void ssubscribe(const call *c)
{
    char name[SIM_NAME + 1];
    if (!server_is_modern(c->s)) {
        answer_text(c->answer, ANSWER_ERROR, "ERR unknown command `SSUBSCRIBE`, with args beginning with: ");
        return;
    }
    if (!cluster_admits(c->server, c->peer, 0, c->argv + 1, c->answer)) /* a channel is no key that could be missing */
        return;
    snprintf(name, sizeof name, "%c%s", SIM_BY_SHARD, c->argv[1]);
    add_channel(c->peer, name);
    say_subscription(c, "ssubscribe", c->argv[1]);
    c->answer->kind = ANSWER_NONE;
}

/* SUNSUBSCRIBE channel */
static void sunsubscribe(const call *c)
{
    char name[SIM_NAME + 1];
    snprintf(name, sizeof name, "%c%s", SIM_BY_SHARD, c->argv[1]);
    remove_channel(c->peer, name);
    say_subscription(c, "sunsubscribe", c->argv[1]);
    c->answer->kind = ANSWER_NONE;
}

void server_drop_shard(sim_server *server, unsigned mutex)
{
    sim *s = server->s;
    char prefix[SIM_NAME];
    const int length = snprintf(prefix, sizeof prefix, "%csimba:{%s}", SIM_BY_SHARD, sim_mutex_name(mutex));
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        sim_peer *peer = wire_peer(s, wire);
        for (unsigned i = 0; i < peer->channels && wire_server(s, wire) == server->index;) {
            char name[SIM_NAME];
            strcpy(name, peer->channel[i]);
            if (strncmp(name, prefix, (size_t)length) != 0) {
                i++;
                continue;
            }
            remove_channel(peer, name);
            say_subscription(&(call){.s = s, .wire = wire, .peer = peer}, "sunsubscribe", name + 1);
        }
    }
}

static void unsubscribe(const call *c)
{
    for (int i = 1; i < c->argc; i++) {
        remove_channel(c->peer, c->argv[i]);
        say_subscription(c, "unsubscribe", c->argv[i]);
    }
    c->answer->kind = ANSWER_NONE;
}

/* EVALSHA sha keys key… arg…, and EVAL text keys key… arg…, after which the server knows the script. */
static void evaluate(const call *c)
{
    if (c->argc < 4)
        abort();
    const bool by_text = strcmp(c->argv[0], "EVAL") == 0;
    const int keys = (int)strtol(c->argv[2], NULL, 10);
    if (c->s->plan->topology == SIM_CLUSTER && !cluster_admits(c->server, c->peer, keys, c->argv + 3, c->answer))
        return;
    int found = scripts_find(state_of(c->s)->scripts, c->argv[1]);
    if (by_text) {
        found = (int)scripts_load(state_of(c->s)->scripts, c->argv[1], strlen(c->argv[1]));
        c->server->loaded |= 1U << found;
    }
    if (found < 0 || !(c->server->loaded & 1U << found))
        answer_text(c->answer, ANSWER_ERROR, "NOSCRIPT No matching script. Please use EVAL.");
    else if (c->server->master != SIM_NOBODY)
        answer_text(c->answer, ANSWER_ERROR, "READONLY You can't write against a read only replica.");
    else
        locks_run(c->server, (unsigned)found, keys, c->argc - 3, c->argv + 3, c->answer);
    c->peer->written = c->server->offset;
}

/* WAIT replicas ms: the connection stands still until that many have what was written by it, or the time is over. */
static void wait_for(const call *c)
{
    c->answer->kind = ANSWER_NONE;
    c->peer->waits_for = (unsigned)strtoul(c->argv[1], NULL, 10);
    redis_plan(c->s, REDIS_WAIT_OVER, 0, c->s->now + strtoll(c->argv[2], NULL, 10) * SIM_MS, c->peer->number, c->wire);
}

/* How long it has run: the difference of two seconds that are cut off. */
static void info(const call *c)
{
    char text[SIM_TEXT];
    const int64_t up_s = server_now_us(c->server) / 1000000 - c->server->started_us / 1000000;
    snprintf(text, sizeof text, "redis_version:%s\r\nuptime_in_seconds:%lld\r\n",
             server_is_modern(c->s) ? "7.0.15" : "6.2.14", (long long)up_s);
    answer_text(c->answer, ANSWER_TEXT, text);
}

static void role(const call *c)
{
    answer_add(c->answer, c->server->master == SIM_NOBODY ? "master" : "slave");
    answer_add(c->answer, "0");
}

static void asking(const call *c)
{
    c->peer->asking = true;
    answer_text(c->answer, ANSWER_STATUS, "OK");
}

static void cluster(const call *c)
{
    sim_bytes out;
    out.length = 0;
    if (strcasecmp(c->argv[1], "SLOTS") != 0)
        abort();
    cluster_slots(c->server, &out);
    wire_answer(c->s, c->wire, out.data, out.length);
    c->answer->kind = ANSWER_NONE;
}

static void sentinel(const call *c)
{
    sentinel_answer(c->server, c->argc, c->argv, c->answer);
}

static void fine(const call *c)
{
    answer_text(c->answer, ANSWER_STATUS, "OK");
}

/* Its settings are nobody's business, as in most services. */
static void config(const call *c)
{
    answer_text(c->answer, ANSWER_ERROR, "NOPERM this user has no permissions to run the 'config|get' command");
}

static void obey(const call *c)
{
    static const struct {
        const char *name;
        void (*run)(const call *c);
    } known[] = {
        {"EVALSHA", evaluate},  {"EVAL", evaluate},         {"INFO", info},
        {"PING", ping},         {"SUBSCRIBE", subscribe},   {"UNSUBSCRIBE", unsubscribe},
        {"ROLE", role},         {"SELECT", fine},           {"WAIT", wait_for},
        {"CONFIG", config},     {"ASKING", asking},         {"CLUSTER", cluster},
        {"SENTINEL", sentinel}, {"SSUBSCRIBE", ssubscribe}, {"SUNSUBSCRIBE", sunsubscribe},
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
    const char *argv[SIM_WORDS];
    sim_answer answer;
    answer.kind = ANSWER_NIL;
    answer.count = 0;
    if (command->type != REDIS_REPLY_ARRAY || command->elements == 0 || command->elements > SIM_WORDS)
        abort();
    for (size_t i = 0; i < command->elements; i++)
        argv[i] = command->element[i]->str;
    sim_tell(s, "process %u, server %u: %s %.8s", wire_process(s, wire), wire_server(s, wire), argv[0],
             command->elements > 1 ? argv[1] : "");
    obey(&(call){s, wire, server_of(s, wire), wire_peer(s, wire), (int)command->elements, argv, &answer});
    if (answer.kind == ANSWER_ERROR)
        sim_tell(s, "server %u: %s", wire_server(s, wire), answer.item[0].text);
    server_say(s, wire, &answer);
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

void redis_bytes(sim *s, unsigned wire, const char *data, size_t length)
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
    answer_number(&answer, replicas_with(server_of(s, wire), peer->written));
    peer->waits_for = 0;
    server_say(s, wire, &answer);
    take_commands(s, wire);
}

void server_look_at_waits(sim *s)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        sim_peer *peer = wire_peer(s, wire);
        if (peer->waits_for > 0 && replicas_with(server_of(s, wire), peer->written) >= peer->waits_for)
            end_wait(s, wire, peer);
    }
}

void server_wait_over(sim *s, const sim_event *event)
{
    sim_peer *peer = wire_peer_at(s, event->arg, wire_server(s, event->arg));
    if (peer && peer->number == event->version && peer->waits_for > 0)
        end_wait(s, event->arg, peer);
}

void redis_drop_all(sim *s, const sim_server *server)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_server(s, wire) == server->index)
            wire_drop(s, wire);
}
