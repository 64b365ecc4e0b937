/* Who has a mutex, according to the data of a model Redis server. Compares the lock before and after every script,
 * and reports grants and releases to check.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"
#include "stores/redis/redis.h"

#define GRANT_KEPT_MS INT64_C(2764800000) /* by how much the key of a grant outlives its lock, */
#define GAP_LESS_MS 5                     /* or nearly, when its slot has moved, */
#define GAP_MORE_MS 1000                  /* or when the server has paused */

typedef struct lock {
    bool held, ours;
    char id[SIM_TEXT];
    uint64_t token, nonce;
    int64_t ends_ms;
} lock;

/* Does the lock belong to the grant? lua/grant.lua says when. */
static bool is_ours(const sim_key *held, const sim_key *grant)
{
    const char *id = grant ? keys_field(grant, "id") : NULL;
    if (!id || strcmp(id, held->u.text) != 0)
        return false;
    const int64_t gap_ms = grant->expires_ms - held->expires_ms - GRANT_KEPT_MS;
    return gap_ms >= -GAP_LESS_MS && gap_ms <= GAP_MORE_MS;
}

static lock look_at(sim_server *server, unsigned mutex)
{
    char name[SIM_NAME];
    lock found = {0};
    server->keys.now_ms = server_now_us(server) / 1000;
    snprintf(name, sizeof name, "simba:{%s}", sim_mutex_name(mutex));
    const sim_key *key = keys_find(&server->keys, name);
    if (!key)
        return found;
    snprintf(name, sizeof name, "simba:{%s}:grant", sim_mutex_name(mutex));
    const sim_key *grant = keys_find(&server->keys, name);
    found.held = true;
    strcpy(found.id, key->u.text);
    found.ends_ms = key->expires_ms;
    found.ours = is_ours(key, grant);
    found.token = found.ours ? strtoull(keys_field(grant, "token"), NULL, 10) : 0;
    found.nonce = found.ours ? strtoull(keys_field(grant, "nonce"), NULL, 10) : 0;
    return found;
}

/* --- what a script has done -------------------------------------------------------------------------- */

/* The handle that asks under this nonce right now. */
static unsigned grantee_of(const sim *s, unsigned mutex, const lock *held)
{
    for (unsigned i = 0; i < s->plan->contenders; i++) {
        const sim_handle *handle = &s->handle[i];
        if (handle->mutex == mutex && handle->running && handle->candidate.handle.request &&
            handle->candidate.machine.nonce == held->nonce && strcmp(handle->id, held->id) == 0)
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

/* A master that was replaced and does not know it may write anything: nobody confirms it. The checks of the holders see
 * whether a client believes it. */
static bool counts(const sim_server *server, unsigned mutex)
{
    const sim_redis_state *state = redis_state_of(server->s);
    return server == redis_master_of(server->s, mutex) ||
           (state->move.active && state->move.mutex == mutex && server->index == state->shard[state->move.to].master);
}

/* --- what a server may forget ------------------------------------------------------------------------ */

/* Only a server that is going to lose writes needs its earlier data. */
static void remember(sim_server *server)
{
    sim_redis_state *state = redis_state_of(server->s);
    if (server->s->plan->broken != SIM_BROKEN_LOST_WRITES)
        return;
    if (!state->past && !(state->past = calloc(SIM_PAST, sizeof *state->past)))
        abort();
    sim_past *past = &state->past[state->pasts++ % SIM_PAST];
    past->at = server->s->now;
    past->server = server->index;
    past->keys = server->keys;
}

void locks_forget_all(sim_server *server)
{
    memset(&server->keys, 0, sizeof server->keys);
    server->s->checks.lost_writes = true;
}

void locks_forget(sim_server *server, int64_t lost_ms)
{
    const sim_redis_state *state = redis_state_of(server->s);
    for (unsigned n = state->pasts; n > 0 && state->pasts - n < SIM_PAST; n--) {
        const sim_past *past = &state->past[(n - 1) % SIM_PAST];
        if (past->at <= server->s->now - lost_ms * SIM_MS)
            break;
        if (past->server != server->index)
            continue;
        server->keys = past->keys;
        server->s->checks.lost_writes = true;
    }
}

/* --- scripts ----------------------------------------------------------------------------------------- */

void locks_run(sim_server *server, unsigned script, int keys, int argc, const char *const *argv, sim_answer *ret_answer)
{
    lock before[SIM_MUTEXES] = {0};
    sim *s = server->s;
    const uint32_t written = server->writes;
    remember(server);
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        before[m] = look_at(server, m);
    scripts_run(redis_state_of(s)->scripts, server, script, keys, argc, argv, ret_answer);
    if (server->writes == written)
        return;
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        if (counts(server, m))
            compare(server, m, &before[m]);
    replicas_feed(server);
}

void locks_eval(sim_server *server, const char *text, int keys, int argc, const char *const *argv,
                sim_answer *ret_answer)
{
    locks_run(server, scripts_load(redis_state_of(server->s)->scripts, text, strlen(text)), keys, argc, argv,
              ret_answer);
}

void locks_force_release(sim *s, unsigned mutex)
{
    sim_server *server = redis_master_of(s, mutex);
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
    const lock before = look_at(server, mutex);
    const bool shards = s->plan->topology == SIM_CLUSTER && server_is_modern(s);
    sim_answer answer;
    if (redis_is_away(s, server) || redis_state_of(s)->move.active)
        return;
    if (before.ours)
        check_revoked(s, mutex, before.token);
    simba__redis_keys(REDIS_FORCE, sim_mutex_name(mutex), keys);
    locks_eval(server, simba__redis_scripts[REDIS_FORCE].text, 3, 5,
               (const char *const[]){keys[0], keys[1], keys[2], shards ? "SPUBLISH" : "PUBLISH", ""}, &answer);
}

bool locks_owner(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    const lock held = look_at(redis_master_of(s, mutex), mutex);
    memset(ret_owner, 0, sizeof *ret_owner);
    snprintf(ret_owner->id, sizeof ret_owner->id, "%s", held.id);
    ret_owner->token = held.token;
    return held.held;
}
