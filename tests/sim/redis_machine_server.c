/* See redis_machine.h. The scripts are the text that ships, run by Lua on the model of Redis' data. The time of the server is always the
 * same one, and what is stored ends so much before or after it. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim/redis_machine.h"
#include "sim/redis_model.h"
#include "stores/redis/redis.h"

#define NOW_S INT64_C(1794792640)
#define NOW_MS (NOW_S * 1000)
#define KEPT_MS INT64_C(2764800000) /* KEPT of the scripts */
#define TOKEN_BASE (NOW_S * 1000000 - 10000)

/* --- what is stored, as keys ---------------------------------------------------------------------------------- */

static unsigned who_is(const char *id, size_t length)
{
    for (unsigned i = 0; i < CONTENDERS; i++)
        if (strlen(redis_machine_id(i)) == length && strncmp(redis_machine_id(i), id, length) == 0)
            return i;
    return NOBODY;
}

static void set_number(sim_key *hash, const char *field, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    keys_set_field(hash, field, text);
}

static void write_grant(const stored *from, sim_key *grant)
{
    grant->expires_ms = NOW_MS + (from->has_lock ? from->lock_ends_ms : 0) + KEPT_MS;
    set_number(grant, "token", TOKEN_BASE + from->token);
    if (from->incarnation < 0)
        keys_set_field(grant, "nonce", "");
    else
        set_number(grant, "nonce", (int64_t)redis_machine_nonce(from->id, from->incarnation));
    keys_set_field(grant, "id", redis_machine_id(from->id));
    set_number(grant, "transition", LEASE_MS - TTL_MS);
    if (from->next != NOBODY) {
        keys_set_field(grant, "next", redis_machine_id(from->next));
        set_number(grant, "next_until", NOW_MS + 100);
    }
    if (from->has_standby)
        set_number(grant, "standby_until", NOW_MS + 100);
}

static int64_t number_of_field(const sim_key *hash, const char *field)
{
    const char *text = keys_field(hash, field);
    return text ? strtoll(text, NULL, 10) : 0;
}

static void read_grant(const sim_key *grant, stored *to)
{
    const int64_t nonce = number_of_field(grant, "nonce");
    const char *id = keys_field(grant, "id");
    const char *next = keys_field(grant, "next");
    to->has_grant = true;
    to->token = (int16_t)(number_of_field(grant, "token") - TOKEN_BASE);
    to->id = id ? (uint8_t)who_is(id, strlen(id)) : 0;
    to->incarnation = nonce == 0 ? -1 : (int8_t)(nonce % 1000);
    if (next && number_of_field(grant, "next_until") > NOW_MS)
        to->next = (uint8_t)who_is(next, strlen(next));
    to->has_standby = number_of_field(grant, "standby_until") > NOW_MS;
}

static void unpack(const stored *from, sim_keys *to)
{
    to->now_ms = NOW_MS;
    if (from->has_lock) {
        sim_key *lock = keys_make(to, "simba:{m}", SIM_KEY_STRING);
        strcpy(lock->u.text, redis_machine_id(from->owner));
        lock->expires_ms = NOW_MS + from->lock_ends_ms;
    }
    if (from->has_grant)
        write_grant(from, keys_make(to, "simba:{m}:grant", SIM_KEY_HASH));
    for (unsigned i = 0; i < from->queued; i++)
        keys_add_member(keys_make(to, "simba:{m}:contender", SIM_KEY_ZSET), redis_machine_id(from->queue[i]),
                        (double)NOW_S - 0.6 - (double)(from->queued - i) / 1000);
}

static void pack(sim_keys *from, stored *to)
{
    const sim_key *lock = keys_find(from, "simba:{m}");
    const sim_key *grant = keys_find(from, "simba:{m}:grant");
    const sim_key *queue = keys_find(from, "simba:{m}:contender");
    memset(to, 0, sizeof *to);
    to->next = NOBODY;
    to->incarnation = -1;
    if (lock) {
        to->has_lock = true;
        to->owner = (uint8_t)who_is(lock->u.text, strlen(lock->u.text));
        to->lock_ends_ms = (int16_t)(lock->expires_ms - NOW_MS);
    }
    if (grant)
        read_grant(grant, to);
    for (unsigned i = 0; queue && i < queue->count; i++)
        to->queue[i] = (uint8_t)who_is(queue->u.member[i].name, strlen(queue->u.member[i].name));
    to->queued = queue ? (uint8_t)queue->count : 0;
}

/* --- messages ------------------------------------------------------------------------------------------------- */

/* How many hear it. */
static int64_t publish(void *user, const char *channel, const char *text)
{
    world *w = user;
    const char *suffix = channel + strlen("simba:{m}");
    int64_t heard = 0;
    if (*suffix != ':')
        return 0;
    const unsigned who = who_is(suffix + 1, strlen(suffix + 1));
    const message_kind kind = strncmp(text, "standby@@", 9) == 0 ? STANDBY : INVITATION;
    for (unsigned i = 0; i < redis_machine_clients(w) && who != NOBODY; i++) {
        client *c = &w->client[i];
        if (!c->has_pushes || !(c->hears & 1U << who))
            continue;
        if (c->messages == SAID)
            abort();
        c->message[c->messages++] = (message){(uint8_t)kind, (uint8_t)who};
        heard++;
    }
    return heard;
}

/* --- scripts -------------------------------------------------------------------------------------------------- */

static const redis_script used[] = {REDIS_ACQUIRE, REDIS_RELEASE};

/* A Lua serves one thread at a time. Threads come and go, so those that nobody uses are kept here. */
static struct {
    pthread_mutex_t lock;
    unsigned count;
    sim_scripts *at[64];
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static sim_scripts *take_lua(void)
{
    pthread_mutex_lock(&spare.lock);
    sim_scripts *scripts = spare.count > 0 ? spare.at[--spare.count] : NULL;
    pthread_mutex_unlock(&spare.lock);
    if (scripts)
        return scripts;
    scripts = scripts_new();
    for (unsigned i = 0; i < sizeof used / sizeof *used; i++) {
        const char *text = simba__redis_scripts[used[i]].text;
        if (scripts_load(scripts, text, strlen(text)) != i)
            abort();
    }
    return scripts;
}

static void put_back(sim_scripts *scripts)
{
    pthread_mutex_lock(&spare.lock);
    const bool fits = spare.count < sizeof spare.at / sizeof *spare.at;
    if (fits)
        spare.at[spare.count++] = scripts;
    pthread_mutex_unlock(&spare.lock);
    if (!fits)
        scripts_free(scripts);
}

typedef struct words {
    const char *at[REDIS_KEYS_MOST + 8];
    int count;
} words;

static void add(words *all, const char *word)
{
    all->at[all->count++] = word;
}

/* {outcome, now, owner, token, end, …} */
static void take_answer(call *what, const sim_answer *answer)
{
    if (answer->kind != ANSWER_LIST) {
        fprintf(stderr, "simba-sim: a script answers %s\n", answer->item[0].text);
        abort();
    }
    const bool granted = what->kind == CALL_ACQUIRE && answer->item[0].number == 1;
    what->is_owned = answer->count > 2;
    what->token = granted ? (int16_t)(answer->item[3].number - TOKEN_BASE) : 0;
    what->ends_ms = what->is_owned ? (int16_t)(answer->item[4].number - NOW_MS) : 0;
    what->outcome = what->kind != CALL_ACQUIRE ? OUTCOME_DONE : granted ? OUTCOME_GRANTED : OUTCOME_REFUSED;
}

void redis_machine_run(world *w, call *what)
{
    static _Thread_local sim_server server;
    static _Thread_local sim_answer answer;
    const sim_alone alone = {.now_us = NOW_S * 1000000, .publish = publish, .user = w};
    const unsigned number = what->kind == CALL_ACQUIRE ? 0 : 1;
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE], nonce[24], token[24], lease[24], kept[24], transition[24];
    const char hears[2] = {what->hears};
    const size_t count = simba__redis_keys(used[number], "m", keys);
    words all = {.count = 0};
    for (size_t i = 0; i < count; i++)
        add(&all, keys[i]);
    snprintf(nonce, sizeof nonce, "%" PRIu64, redis_machine_nonce(what->who, what->incarnation));
    snprintf(token, sizeof token, "%" PRId64, what->token ? TOKEN_BASE + what->token : 0);
    snprintf(lease, sizeof lease, "%d", LEASE_MS);
    snprintf(kept, sizeof kept, "%" PRId64, LEASE_MS + KEPT_MS);
    snprintf(transition, sizeof transition, "%d", LEASE_MS - TTL_MS);
    const char *const acquire[] = {redis_machine_id(what->who), nonce, lease, kept, transition, hears, "0", "PUBLISH"};
    const char *const release[] = {redis_machine_id(what->who), nonce, token, hears, "PUBLISH", ""};
    for (unsigned i = 0; i < (number == 0 ? 8 : 6); i++)
        add(&all, number == 0 ? acquire[i] : release[i]);
    memset(&server.keys, 0, sizeof server.keys);
    server.alone = &alone;
    unpack(&w->store, &server.keys);
    sim_scripts *scripts = take_lua();
    scripts_run(scripts, &server, number, (int)count, all.count, all.at, &answer);
    put_back(scripts);
    pack(&server.keys, &w->store);
    take_answer(what, &answer);
}
