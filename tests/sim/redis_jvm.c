/* Contenders of Simba on the JVM, beside ours: their scripts and their timers. Such a contender renews once, when
 * its ttl is over. It asks when the key ends, plus a jitter, or when it hears that it is next; its grants have no
 * token. The checks ignore how long it believes to lead: ours must never lead while its key is there. They leave
 * when everything heals, because they do not keep the promises of liveness. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"

static const char acquire_text[] =
    "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then"
    "  redis.call('publish', KEYS[1], 'acquired@@' .. ARGV[1]) return ARGV[1] .. '@@' .. ARGV[2] end"
    " redis.call('zadd', KEYS[1] .. ':contender', 'NX', redis.call('time')[1], ARGV[1])"
    " return redis.call('get', KEYS[1]) .. '@@' .. redis.call('pttl', KEYS[1])";
static const char guard_text[] = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2])"
                                 "  return ARGV[1] .. '@@' .. ARGV[2] end return '@@'";
static const char release_text[] =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then redis.call('zrem', KEYS[1] .. ':contender', ARGV[1]) return '0' end"
    " redis.call('del', KEYS[1]) local q = redis.call('zpopmin', KEYS[1] .. ':contender')"
    " if #q > 0 then redis.call('publish', KEYS[1] .. ':' .. q[1], 'released@@' .. ARGV[1]) end return '1'";

typedef enum jvm_move { JVM_ACQUIRE, JVM_GUARD, JVM_RELEASE } jvm_move;

static int64_t trip(sim *s)
{
    return s->plan->latency_ns * sim_pick(s, 50, 150) / 100;
}

static void plan_move(sim *s, unsigned i, jvm_move move, int64_t after_ns)
{
    redis_plan(s, REDIS_JVM, i, s->now + after_ns, ++redis_state_of(s)->jvm[i].version, move);
}

/* Run a script. Its answer is "OWNER@@MS", split at the "@@". */
static void run(sim *s, unsigned i, const char *text, char *ret_owner, int64_t *ret_ms)
{
    const sim_jvm *jvm = &redis_state_of(s)->jvm[i];
    char key[SIM_NAME];
    char ms[24];
    sim_answer answer;
    snprintf(key, sizeof key, "simba:{%s}", sim_mutex_name(jvm->mutex));
    snprintf(ms, sizeof ms, "%lld", (long long)(s->plan->timing.ttl_ms + s->plan->timing.transition_ms));
    locks_eval(&redis_state_of(s)->server[0], text, 1, 3, (const char *const[]){key, jvm->id, ms}, &answer);
    char *parted = strstr(answer.item[0].text, "@@");
    *ret_ms = parted ? strtoll(parted + 2, NULL, 10) : 0;
    if (parted)
        *parted = '\0';
    strcpy(ret_owner, answer.item[0].text);
}

static void move(sim *s, unsigned i, jvm_move what)
{
    sim_jvm *jvm = &redis_state_of(s)->jvm[i];
    char owner[SIM_TEXT];
    int64_t ms;
    static const char *const texts[] = {acquire_text, guard_text, release_text};
    run(s, i, texts[what], owner, &ms);
    sim_tell(s, "%s: %s, %lld ms", jvm->id, owner, (long long)ms);
    jvm->holds = what != JVM_RELEASE && strcmp(owner, jvm->id) == 0;
    jvm->waits = !jvm->holds && what != JVM_RELEASE;
    if (jvm->holds)
        plan_move(s, i, sim_chance(s, 300) ? JVM_RELEASE : JVM_GUARD, s->plan->timing.ttl_ms * SIM_MS + trip(s));
    else
        plan_move(s, i, JVM_ACQUIRE, ms * SIM_MS + sim_pick(s, 0, SIM_S) + trip(s));
}

void jvms_begin(sim *s)
{
    for (unsigned i = 0; i < SIM_JVMS; i++) {
        sim_jvm *jvm = &redis_state_of(s)->jvm[i];
        *jvm = (sim_jvm){.alive = i < s->plan->jvms, .mutex = i % s->plan->mutexes};
        snprintf(jvm->id, sizeof jvm->id, "%u:1@jvm", i);
        if (jvm->alive)
            plan_move(s, i, JVM_ACQUIRE, sim_pick(s, 0, 10 * SIM_S));
    }
}

void jvms_leave(sim *s)
{
    for (unsigned i = 0; i < SIM_JVMS; i++) {
        sim_jvm *jvm = &redis_state_of(s)->jvm[i];
        if (jvm->alive)
            plan_move(s, i, JVM_RELEASE, trip(s));
        jvm->leaves = true;
    }
}

/* True: it is subscribed to this, and tries at once. */
bool jvms_hear(sim *s, const char *channel)
{
    for (unsigned i = 0; i < SIM_JVMS; i++) {
        const sim_jvm *jvm = &redis_state_of(s)->jvm[i];
        char own[SIM_NAME];
        snprintf(own, sizeof own, "simba:{%s}:%s", sim_mutex_name(jvm->mutex), jvm->id);
        if (!jvm->alive || !jvm->waits || strcmp(own, channel) != 0)
            continue;
        plan_move(s, i, JVM_ACQUIRE, 2 * trip(s));
        return true;
    }
    return false;
}

void jvms_event(sim *s, const sim_event *event)
{
    const unsigned i = event->who & 15;
    sim_jvm *jvm = &redis_state_of(s)->jvm[i];
    if (!jvm->alive || event->version != jvm->version)
        return;
    if (store_is_away(s)) {
        plan_move(s, i, (jvm_move)event->arg, sim_pick(s, 100, 1000) * SIM_MS);
        return;
    }
    move(s, i, (jvm_move)event->arg);
    jvm->alive = !jvm->leaves;
}
