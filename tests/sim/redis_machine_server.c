/* See redis_machine.h. The scripts are the text that ships, run by Lua on the model of Redis' data. The time of the server is always the
 * same one, and what is stored ends so much before or after it. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/scripts.h"
#include "sim/redis_machine.h"
#include "sim/redis_model.h"
#include "util/mem.h"

#define NOW_S INT64_C(1794792640) /* a multiple of 16, at which those who join a queue tidy it up */
#define NOW_MS (NOW_S * 1000)
#define TOKEN_BASE (NOW_S * 1000000 - 10000)
#define TOKEN_NEXT 10000

/* --- what is stored, as keys ---------------------------------------------------------------------------------- */

static unsigned who_is(const char *id, size_t length)
{
    for (unsigned i = 0; i < CONTENDERS; i++)
        if (strlen(redis_machine_id(i)) == length && strncmp(redis_machine_id(i), id, length) == 0)
            return i;
    return NOBODY;
}

/* As `save` in scripts.c writes it. */
static void write_grant(const stored *from, char *text, size_t size)
{
    char tail[64] = "";
    if (from->next != NOBODY || from->standbys > 0) {
        const char *next = from->next == NOBODY ? "" : redis_machine_id(from->next);
        int length = snprintf(tail, sizeof tail, "%" PRId64 " %" PRId64 " %zu %s@@", NOW_MS + 100, NOW_MS + 100,
                              strlen(next), next);
        for (unsigned i = 0; i < from->standbys; i++)
            length += snprintf(tail + length, sizeof tail - (size_t)length, "%s@@", redis_machine_id(from->standby[i]));
        snprintf(tail + length, sizeof tail - (size_t)length, ".");
    }
    const uint64_t nonce = from->incarnation < 0 ? 0 : redis_machine_nonce(from->id, from->incarnation);
    snprintf(text, size, "%016" PRId64 " %020" PRIu64 " %015" PRId64 " %016d %015" PRId64 " %d@@%s@@%s",
             TOKEN_BASE + from->token, nonce, NOW_MS + from->ends_ms, 0, NOW_MS, LEASE_MS - TTL_MS,
             redis_machine_id(from->id), tail);
}

static void read_tail(const char *tail, stored *to)
{
    int64_t invited_until, told_until;
    int length, at = 0;
    to->next = NOBODY;
    to->standbys = 0;
    if (sscanf(tail, "%" SCNd64 " %" SCNd64 " %d %n", &invited_until, &told_until, &length, &at) < 3 || at == 0)
        return;
    const char *rest = tail + at;
    if (invited_until > NOW_MS)
        to->next = (uint8_t)who_is(rest, (size_t)length);
    rest += length + 2;
    for (const char *end; told_until > NOW_MS && to->standbys < 2 && (end = strstr(rest, "@@")) != NULL; rest = end + 2)
        to->standby[to->standbys++] = (uint8_t)who_is(rest, (size_t)(end - rest));
}

static void read_grant(const char *text, stored *to)
{
    const uint64_t nonce = strtoull(text + 17, NULL, 10);
    const char *id = strstr(text, "@@") + 2;
    const char *end = strstr(id, "@@");
    const int64_t ends_ms = strtoll(text + 38, NULL, 10) - NOW_MS;
    to->has_grant = true;
    to->token = (int16_t)(strtoll(text, NULL, 10) - TOKEN_BASE);
    to->id = (uint8_t)who_is(id, (size_t)(end - id));
    to->incarnation = nonce == 0 ? -1 : (int8_t)(nonce % 1000);
    to->ends_ms = ends_ms < 0 ? -1 : (int16_t)ends_ms;
    read_tail(end + 2, to);
}

static double score_of(unsigned age, unsigned behind)
{
    return (double)NOW_S - 0.5 - (double)age * JUMP_S - (double)behind / 1000;
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
        write_grant(from, keys_make(to, "simba:{m}:grant", SIM_KEY_STRING)->u.text, SIM_LINE);
    for (unsigned i = 0; i < from->queued; i++)
        keys_add_member(keys_make(to, "simba:{m}:contender", SIM_KEY_ZSET), redis_machine_id(from->queue[i]),
                        score_of(from->age[i], from->queued - i));
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
        read_grant(grant->u.text, to);
    for (unsigned i = 0; queue && i < queue->count; i++) {
        const sim_scored *member = &queue->u.member[i];
        to->queue[i] = (uint8_t)who_is(member->name, strlen(member->name));
        to->age[i] = (uint8_t)(((double)NOW_S - 0.5 - member->score) / JUMP_S + 0.5);
    }
    to->queued = queue ? (uint8_t)queue->count : 0;
}

/* --- messages ------------------------------------------------------------------------------------------------- */

static int64_t tell(world *w, unsigned to, message_kind kind, unsigned who)
{
    int64_t heard = 0;
    for (unsigned i = 0; i < redis_machine_clients(w); i++) {
        client *c = &w->client[i];
        if (!c->has_pushes || !(c->hears & to))
            continue;
        if (c->messages == SAID)
            abort();
        c->message[c->messages++] = (message){(uint8_t)kind, (uint8_t)who};
        heard++;
    }
    return heard;
}

/* How many hear it. */
static int64_t publish(void *user, const char *channel, const char *text)
{
    world *w = user;
    const char *suffix = channel + strlen("simba:{m}");
    (void)text;
    if (*suffix == '\0' || strcmp(suffix, "@@") == 0)
        return tell(w, TO_NEWS, NEWS, 0);
    const bool invites = *suffix == ':';
    const char *id = suffix + (invites ? 1 : 2);
    const unsigned who = who_is(id, strlen(id));
    return who == NOBODY ? 0 : tell(w, 1U << who, invites ? INVITATION : STANDBY, who);
}

/* --- scripts -------------------------------------------------------------------------------------------------- */

static const redis_script used[] = {REDIS_ACQUIRE, REDIS_RELEASE, REDIS_REJOIN};

/* A Lua serves one thread at a time. Threads come and go, so those that nobody uses are kept here. */
static struct {
    pthread_mutex_t lock;
    unsigned count;
    sim_scripts *at[64];
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static sim_scripts *take_lua(void)
{
    static const redis_options single = {.kind = REDIS_SINGLE};
    pthread_mutex_lock(&spare.lock);
    sim_scripts *scripts = spare.count > 0 ? spare.at[--spare.count] : NULL;
    pthread_mutex_unlock(&spare.lock);
    if (scripts)
        return scripts;
    scripts = scripts_new();
    for (unsigned i = 0; i < sizeof used / sizeof *used; i++) {
        char *text = simba__redis_script_text(used[i], &single);
        if (!text || scripts_load(scripts, text, strlen(text)) != i)
            abort();
        simba__free(text);
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

static void take_list(call *what, const sim_answer *answer)
{
    const int64_t ends_ms = answer->item[6].number - NOW_MS;
    what->outcome = what->kind == CALL_ACQUIRE ? OUTCOME_REFUSED : OUTCOME_DONE;
    what->is_owned = answer->item[2].text[0] != '\0';
    what->ends_ms = what->is_owned ? (int16_t)ends_ms : 0;
}

/* "#", the place, the time, and a grant whose end is its third field. */
static void take_place(call *what, const char *text)
{
    long long ends_ms = 0;
    if (sscanf(text, "#%*u %*u %*u %*u %lld", &ends_ms) != 1)
        abort();
    what->outcome = OUTCOME_REFUSED;
    what->is_owned = true;
    what->ends_ms = (int16_t)(ends_ms - NOW_MS);
}

static void take_answer(call *what, const sim_answer *answer)
{
    stored granted;
    what->token = what->ends_ms = 0;
    if (answer->kind == ANSWER_ERROR) {
        fprintf(stderr, "simba-sim: a script answers %s\n", answer->item[0].text);
        abort();
    }
    if (answer->kind == ANSWER_LIST) {
        take_list(what, answer);
    } else if (answer->kind == ANSWER_TEXT && answer->item[0].text[0] == '#') {
        take_place(what, answer->item[0].text);
    } else if (answer->kind == ANSWER_TEXT) {
        read_grant(answer->item[0].text, &granted);
        what->outcome = OUTCOME_GRANTED;
        what->token = granted.token;
        what->ends_ms = granted.ends_ms;
    } else {
        what->outcome = OUTCOME_DONE;
    }
}

static unsigned number_of(call_kind kind)
{
    return kind == CALL_ACQUIRE ? 0 : kind == CALL_REJOIN ? 2 : 1;
}

void redis_machine_run(world *w, call *what)
{
    static _Thread_local sim_server server;
    static _Thread_local sim_answer answer;
    const sim_alone alone = {.now_us = NOW_S * 1000000, .publish = publish, .user = w};
    const unsigned number = number_of((call_kind)what->kind);
    const simba_request request = {.nonce = redis_machine_nonce(what->who, what->incarnation),
                                   .token = what->token ? (uint64_t)(TOKEN_BASE + what->token) : 0,
                                   .ttl_ms = TTL_MS,
                                   .transition_ms = LEASE_MS - TTL_MS};
    const redis_numbers numbers = simba__redis_numbers_of(&request);
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE], here[8];
    words all = {.count = 0};
    const size_t count = simba__redis_script_keys(used[number], false, "m", keys);
    for (size_t i = 0; i < count; i++)
        add(&all, keys[i]);
    snprintf(here, sizeof here, "%s%s", what->here ? "@@" : "",
             what->here > 1 ? redis_machine_id(what->here - 2U) : "");
    add(&all, redis_machine_id(what->who));
    if (what->kind == CALL_ACQUIRE) {
        add(&all, numbers.nonce);
        add(&all, numbers.total);
        add(&all, numbers.transition);
        add(&all, "1");
        add(&all, here);
    } else if (what->kind != CALL_REJOIN) {
        add(&all, numbers.head);
        add(&all, here);
    }
    memset(&server.keys, 0, sizeof server.keys);
    server.alone = &alone;
    unpack(&w->store, &server.keys);
    sim_scripts *scripts = take_lua();
    scripts_run(scripts, &server, number, (int)count, all.count, all.at, &answer);
    put_back(scripts);
    pack(&server.keys, &w->store);
    take_answer(what, &answer);
}
