/* A model Redis Cluster: which slots are where, what a server answers that does not have a slot, and how a slot moves.
 *
 * Only the slots of the mutexes matter. All others stay with the shard that has them in the beginning. A slot moves
 * one key after the other, by MIGRATE, with the time that each key has left: so the key ends later by the time the
 * move took. Until the last key has arrived, the old server keeps the slot, and redirects clients that ask for
 * missing keys. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"
#include "stores/redis/redis.h"

#define NODE_TIMEOUT_NS SIM_S /* after which a server that is cut off knows it */
#define MIGRATE_NS (2 * SIM_MS)
#define AGAIN_NS (50 * SIM_MS)

enum { MOVED_KEYS = SIM_LOCK_KEYS + 1 }; /* the keys of the mutex, and its note */

static void key_name(unsigned mutex, unsigned key, char *out)
{
    static const char *const suffix[MOVED_KEYS] = {"", ":grant", ":contender", ":note"};
    snprintf(out, SIM_NAME, "simba:{%s}%s", sim_mutex_name(mutex), suffix[key]);
}

static unsigned mutex_of(const sim *s, const char *key)
{
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        const char *name = sim_mutex_name(m);
        if (strncmp(key, "simba:{", 7) == 0 && strncmp(key + 7, name, strlen(name)) == 0 &&
            key[7 + strlen(name)] == '}')
            return m;
    }
    abort();
}

/* --- what is where ----------------------------------------------------------------------------------- */

static void put_server(sim_bytes *out, unsigned server)
{
    char host[16];
    snprintf(host, sizeof host, "10.0.0.%u", server + 1);
    bytes_put_number(out, '*', 2);
    bytes_put_text(out, host);
    bytes_put_number(out, ':', 6379);
}

/* The master comes first, then its replicas. */
static void put_range(const sim_redis_state *state, sim_bytes *out, unsigned first, unsigned last, unsigned master)
{
    unsigned replicas = 0;
    for (unsigned i = 0; i < state->servers; i++)
        replicas += state->server[i].master == master;
    bytes_put_number(out, '*', 3 + replicas);
    bytes_put_number(out, ':', first);
    bytes_put_number(out, ':', last);
    put_server(out, master);
    for (unsigned i = 0; i < state->servers; i++)
        if (state->server[i].master == master)
            put_server(out, i);
}

/* The shard that has the slot, as this server believes. */
static unsigned shard_of_slot(const sim_server *server, unsigned slot)
{
    const sim *s = server->s;
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        if (slot == simba__redis_slot(sim_mutex_name(m)))
            return server->view.shard[m];
    return slot * redis_state_of(s)->shards / REDIS_SLOTS;
}

static int compare_numbers(const void *left, const void *right)
{
    const unsigned a = *(const unsigned *)left, b = *(const unsigned *)right;
    return (a > b) - (a < b);
}

/* CLUSTER SLOTS. The slots of one shard lie together, but for those of mutexes, each of which is a range of its own. */
void cluster_slots(const sim_server *server, sim_bytes *out)
{
    const sim *s = server->s;
    const unsigned shards = redis_state_of(s)->shards;
    unsigned begins[SIM_SHARDS + 2 * SIM_MUTEXES + 1], ranges = 0;
    for (unsigned i = 0; i < shards; i++)
        begins[ranges++] = (i * REDIS_SLOTS + shards - 1) / shards;
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        const unsigned slot = simba__redis_slot(sim_mutex_name(m));
        begins[ranges++] = slot;
        begins[ranges++] = slot + 1;
    }
    qsort(begins, ranges, sizeof *begins, compare_numbers);
    begins[ranges] = REDIS_SLOTS;
    bytes_put_number(out, '*', ranges);
    for (unsigned i = 0; i < ranges; i++)
        put_range(redis_state_of(s), out, begins[i], begins[i + 1] - 1,
                  server->view.master[shard_of_slot(server, begins[i])]);
}

static bool redirect(sim_answer *answer, const char *how, unsigned mutex, unsigned server)
{
    char text[SIM_TEXT];
    snprintf(text, sizeof text, "%s %u 10.0.0.%u:6379", how, simba__redis_slot(sim_mutex_name(mutex)), server + 1);
    answer_text(answer, ANSWER_ERROR, text);
    return false;
}

static bool refuse(sim_answer *answer, const char *error)
{
    answer_text(answer, ANSWER_ERROR, error);
    return false;
}

static int missing_of(const sim_server *server, int keys, const char *const *key)
{
    sim_keys *data = (sim_keys *)&server->keys;
    int missing = 0;
    data->now_ms = server_now_us(server) / 1000;
    for (int i = 0; i < keys; i++)
        missing += keys_find(data, key[i]) == NULL;
    return missing;
}

/* Has the cluster, as far as this server knows, a shard without a master, or is it in the minority? */
static bool is_down(const sim_server *server)
{
    const sim *s = server->s;
    const sim_redis_state *state = redis_state_of(s);
    if (s->now < server->hesitates_until)
        return true;
    for (unsigned i = 0; i < state->shards; i++) {
        const sim_shard *shard = &state->shard[i];
        if (!shard->fails_over || s->now <= shard->since + NODE_TIMEOUT_NS)
            continue;
        if (server->index == shard->former ? s->now < server->apart_until : server->view.master[i] == shard->former)
            return true;
    }
    return false;
}

bool cluster_admits(const sim_server *server, sim_peer *peer, int keys, const char *const *key, sim_answer *ret_answer)
{
    const sim *s = server->s;
    const sim_redis_state *state = redis_state_of(s);
    const unsigned mutex = mutex_of(s, key[0]);
    const sim_move *move = state->move.active && state->move.mutex == mutex ? &state->move : NULL;
    const unsigned believed = server->view.master[server->view.shard[mutex]];
    const bool asking = peer->asking;
    peer->asking = false;
    if (is_down(server))
        return refuse(ret_answer, "CLUSTERDOWN The cluster is down");
    const int missing = missing_of(server, keys, key);
    if (move && asking && server->index == state->shard[move->to].master)
        return missing == 0 || refuse(ret_answer, "TRYAGAIN Multiple keys request during rehashing of slot");
    if (believed != server->index)
        return redirect(ret_answer, "MOVED", mutex, believed);
    if (!move || server->index != state->shard[move->from].master || missing == 0)
        return true;
    if (missing < keys)
        return refuse(ret_answer, "TRYAGAIN Multiple keys request during rehashing of slot");
    return redirect(ret_answer, "ASK", mutex, state->shard[move->to].master);
}

/* --- a slot moves ------------------------------------------------------------------------------------ */

static bool is_whole(const sim *s, unsigned shard)
{
    const sim_redis_state *state = redis_state_of(s);
    const sim_server *master = &state->server[state->shard[shard].master];
    return !state->shard[shard].fails_over && !redis_is_away(s, master) && s->now >= master->hesitates_until;
}

void cluster_move(sim *s, unsigned mutex, int64_t until)
{
    sim_redis_state *state = redis_state_of(s);
    sim_move *move = &state->move;
    const unsigned from = state->shard_of[mutex];
    const unsigned to = (from + (unsigned)sim_pick(s, 1, state->shards - 1)) % state->shards;
    int64_t at[MOVED_KEYS];
    if (move->active || !is_whole(s, from) || !is_whole(s, to))
        return;
    *move = (sim_move){true, (uint8_t)mutex, (uint8_t)from, (uint8_t)to, move->version + 1};
    sim_tell(s, "the slot of mutex %u moves from shard %u to %u", mutex, from, to);
    for (unsigned i = 0; i < MOVED_KEYS; i++) {
        at[i] = sim_pick(s, s->now, until);
        redis_plan(s, REDIS_MOVE_KEY, 0, at[i], move->version, i);
    }
    redis_plan(s, REDIS_MOVED, 0, until + 1, move->version, 0);
    /* A renewal needs the lock and the grant in one place. */
    check_trouble(s, SIM_PROCESSES, at[0] < at[1] ? at[0] : at[1], at[0] < at[1] ? at[1] : at[0]);
}

static void move_key(sim *s, unsigned key)
{
    sim_redis_state *state = redis_state_of(s);
    sim_server *from = &state->server[state->shard[state->move.from].master];
    sim_server *to = &state->server[state->shard[state->move.to].master];
    char name[SIM_NAME];
    key_name(state->move.mutex, key, name);
    from->keys.now_ms = to->keys.now_ms = server_now_us(from) / 1000;
    sim_key *moved = keys_find(&from->keys, name);
    if (!moved)
        return;
    sim_key *arrived = keys_make(&to->keys, name, (sim_key_type)moved->type);
    *arrived = *moved;
    if (arrived->expires_ms != INT64_MAX)
        arrived->expires_ms += sim_pick(s, 0, MIGRATE_NS) / SIM_MS;
    keys_remove(moved);
    replicas_feed(from);
    replicas_feed(to);
    from->must_have = from->offset;
    to->must_have = to->offset;
}

void cluster_move_key(sim *s, const sim_event *event)
{
    const sim_redis_state *state = redis_state_of(s);
    if (!state->move.active || event->version != state->move.version)
        return;
    if (is_whole(s, state->move.from) && is_whole(s, state->move.to)) {
        move_key(s, event->arg);
        return;
    }
    check_trouble(s, SIM_PROCESSES, s->now, s->now + AGAIN_NS);
    redis_plan(s, REDIS_MOVE_KEY, 0, s->now + AGAIN_NS, event->version, event->arg);
}

void cluster_finish_move(sim *s)
{
    sim_redis_state *state = redis_state_of(s);
    sim_move *move = &state->move;
    if (!move->active)
        return;
    for (unsigned i = 0; i < MOVED_KEYS; i++)
        move_key(s, i);
    move->active = false;
    state->shard_of[move->mutex] = move->to;
    sim_tell(s, "the slot of mutex %u is in shard %u", move->mutex, move->to);
    sim_server *const ends[] = {&state->server[state->shard[move->from].master],
                                &state->server[state->shard[move->to].master]};
    for (unsigned i = 0; i < 2; i++) /* these two servers know it at once */
        ends[i]->view.shard[move->mutex] = move->to;
    server_drop_shard(ends[0], move->mutex);
    views_spread(s, 0);
}

void cluster_moved(sim *s, const sim_event *event)
{
    if (redis_state_of(s)->move.active && event->version == redis_state_of(s)->move.version)
        cluster_finish_move(s);
}
