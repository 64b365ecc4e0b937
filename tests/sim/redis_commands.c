/* The commands of Redis that our scripts, and those of contenders on the JVM, use on data. Only the forms that they use. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"

typedef struct command {
    sim_server *server;
    sim_keys *keys;
    int argc;
    const char *const *argv;
    sim_answer *answer;
} command;

static void is_done(const command *c)
{
    answer_text(c->answer, ANSWER_STATUS, "OK");
}

static void is_written(const command *c)
{
    c->server->writes++;
}

/* --- keys ------------------------------------------------------------------------------------------- */

static void get(const command *c)
{
    const sim_key *key = keys_find(c->keys, c->argv[1]);
    answer_text(c->answer, ANSWER_TEXT, key ? key->u.text : NULL);
}

static void exists(const command *c)
{
    int64_t found = 0;
    for (int i = 1; i < c->argc; i++)
        found += keys_find(c->keys, c->argv[i]) != NULL;
    answer_number(c->answer, found);
}

/* SET key value [NX] [PX ms], in any order. */
static void set(const command *c)
{
    int64_t until_ms = INT64_MAX;
    bool nx = false;
    for (int i = 3; i < c->argc; i++) {
        nx |= strcmp(c->argv[i], "NX") == 0;
        if (strcmp(c->argv[i], "PX") == 0)
            until_ms = c->keys->now_ms + strtoll(c->argv[i + 1], NULL, 10);
    }
    if (nx && keys_find(c->keys, c->argv[1]))
        return;
    sim_key *key = keys_make(c->keys, c->argv[1], SIM_KEY_STRING);
    snprintf(key->u.text, sizeof key->u.text, "%s", c->argv[2]);
    key->expires_ms = until_ms;
    is_written(c);
    is_done(c);
}

static void del(const command *c)
{
    int64_t removed = 0;
    for (int i = 1; i < c->argc; i++) {
        sim_key *key = keys_find(c->keys, c->argv[i]);
        if (!key)
            continue;
        keys_remove(key);
        is_written(c);
        removed++;
    }
    answer_number(c->answer, removed);
}

static void persist(const command *c)
{
    sim_key *key = keys_find(c->keys, c->argv[1]);
    if (key)
        key->expires_ms = INT64_MAX;
    is_written(c);
    answer_number(c->answer, key != NULL);
}

static void expire_in(const command *c, int64_t ms)
{
    sim_key *key = keys_find(c->keys, c->argv[1]);
    if (key) {
        key->expires_ms = c->keys->now_ms + ms;
        if (ms <= 0)
            keys_remove(key);
        is_written(c);
    }
    answer_number(c->answer, key != NULL);
}

static void pexpire(const command *c)
{
    expire_in(c, strtoll(c->argv[2], NULL, 10));
}

static void expire(const command *c)
{
    expire_in(c, strtoll(c->argv[2], NULL, 10) * 1000);
}

static int64_t left_ms(const command *c)
{
    const sim_key *key = keys_find(c->keys, c->argv[1]);
    if (!key)
        return -2;
    return key->expires_ms == INT64_MAX ? -1 : key->expires_ms - c->keys->now_ms;
}

static void pttl(const command *c)
{
    answer_number(c->answer, left_ms(c));
}

/* --- hashes ----------------------------------------------------------------------------------------- */

static void hmget(const command *c)
{
    const sim_key *hash = keys_find(c->keys, c->argv[1]);
    for (int i = 2; i < c->argc; i++)
        answer_add(c->answer, hash ? keys_field(hash, c->argv[i]) : NULL);
}

static void hgetall(const command *c)
{
    const sim_key *hash = keys_find(c->keys, c->argv[1]);
    c->answer->kind = ANSWER_LIST;
    for (unsigned i = 0; hash && i < hash->count; i++) {
        answer_add(c->answer, hash->u.field[i].name);
        answer_add(c->answer, hash->u.field[i].value);
    }
}

static void hdel(const command *c)
{
    sim_key *hash = keys_find(c->keys, c->argv[1]);
    const bool had = hash && keys_remove_field(hash, c->argv[2]);
    if (had)
        is_written(c);
    answer_number(c->answer, had);
}

static void hset(const command *c)
{
    sim_key *hash = keys_make(c->keys, c->argv[1], SIM_KEY_HASH);
    for (int i = 2; i + 1 < c->argc; i += 2)
        keys_set_field(hash, c->argv[i], c->argv[i + 1]);
    is_written(c);
    answer_number(c->answer, 0); /* how many are new: nobody asks */
}

/* --- sorted sets ------------------------------------------------------------------------------------ */

/* ZADD key [NX] score member */
static void zadd(const command *c)
{
    const bool nx = strcmp(c->argv[2], "NX") == 0;
    const char *member = c->argv[nx ? 4 : 3];
    sim_key *zset = keys_make(c->keys, c->argv[1], SIM_KEY_ZSET);
    const int rank = keys_rank(zset, member);
    answer_number(c->answer, rank < 0);
    if (rank >= 0 && nx)
        return;
    if (rank >= 0) {
        const int64_t expires_ms = zset->expires_ms;
        keys_remove_member(zset, (unsigned)rank);
        zset = keys_make(c->keys, c->argv[1], SIM_KEY_ZSET);
        zset->expires_ms = expires_ms;
    }
    keys_add_member(zset, member, strtod(c->argv[nx ? 3 : 2], NULL));
    is_written(c);
}

static int rank_of(const command *c, sim_key **ret_zset)
{
    *ret_zset = keys_find(c->keys, c->argv[1]);
    return *ret_zset ? keys_rank(*ret_zset, c->argv[2]) : -1;
}

static void zrem(const command *c)
{
    sim_key *zset;
    const int rank = rank_of(c, &zset);
    if (rank >= 0) {
        keys_remove_member(zset, (unsigned)rank);
        is_written(c);
    }
    answer_number(c->answer, rank >= 0);
}

static void zrank(const command *c)
{
    sim_key *zset;
    const int rank = rank_of(c, &zset);
    if (rank < 0)
        c->answer->kind = ANSWER_NIL;
    else
        answer_number(c->answer, rank);
}

static void write_score(double score, char *out, size_t size)
{
    snprintf(out, size, "%.17g", score);
}

static void zcard(const command *c)
{
    const sim_key *zset = keys_find(c->keys, c->argv[1]);
    answer_number(c->answer, zset ? zset->count : 0);
}

static void zpopmin(const command *c)
{
    sim_key *zset = keys_find(c->keys, c->argv[1]);
    c->answer->kind = ANSWER_LIST;
    if (!zset)
        return;
    char text[40];
    write_score(zset->u.member[0].score, text, sizeof text);
    answer_add(c->answer, zset->u.member[0].name);
    answer_add(c->answer, text);
    keys_remove_member(zset, 0);
    is_written(c);
}

/* ZRANGE and ZREVRANGE key first last [WITHSCORES] */
static void range(const command *c, bool reversed)
{
    char text[40];
    const sim_key *zset = keys_find(c->keys, c->argv[1]);
    const int64_t first = strtoll(c->argv[2], NULL, 10), last = strtoll(c->argv[3], NULL, 10);
    c->answer->kind = ANSWER_LIST;
    for (int64_t i = first; zset && i <= last && i < zset->count; i++) {
        const sim_scored *member = &zset->u.member[reversed ? zset->count - 1 - i : i];
        answer_add(c->answer, member->name);
        if (c->argc <= 4)
            continue;
        write_score(member->score, text, sizeof text);
        answer_add(c->answer, text);
    }
}

static void zrange(const command *c)
{
    range(c, false);
}

static void zrevrange(const command *c)
{
    range(c, true);
}

/* --- the rest --------------------------------------------------------------------------------------- */

static void now(const command *c)
{
    char text[24];
    const int64_t us = server_now_us(c->server);
    snprintf(text, sizeof text, "%" PRId64, us / 1000000);
    answer_add(c->answer, text);
    snprintf(text, sizeof text, "%" PRId64, us % 1000000);
    answer_add(c->answer, text);
}

static void publish(const command *c)
{
    answer_number(c->answer, server_publish(c->server, c->argv[1], c->argv[2]));
}

static void spublish(const command *c)
{
    answer_number(c->answer, server_spublish(c->server, c->argv[1], c->argv[2]));
}

bool commands_run(sim_server *server, int argc, const char *const *argv, sim_answer *ret_answer)
{
    static const struct {
        const char *name;
        void (*run)(const command *c);
    } known[] = {
        {"HMGET", hmget}, {"GET", get},         {"EXISTS", exists},       {"TIME", now},          {"PTTL", pttl},
        {"HSET", hset},   {"HGETALL", hgetall}, {"HDEL", hdel},           {"PERSIST", persist},   {"ZADD", zadd},
        {"ZREM", zrem},   {"PEXPIRE", pexpire}, {"PUBLISH", publish},     {"SPUBLISH", spublish}, {"SET", set},
        {"DEL", del},     {"ZPOPMIN", zpopmin}, {"ZREVRANGE", zrevrange}, {"ZRANGE", zrange},     {"ZRANK", zrank},
        {"ZCARD", zcard}, {"EXPIRE", expire},
    };
    ret_answer->kind = ANSWER_NIL;
    ret_answer->count = 0;
    server->keys.now_ms = server_now_us(server) / 1000;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i].name, argv[0]) == 0) {
            known[i].run(&(command){server, &server->keys, argc, argv, ret_answer});
            return true;
        }
    return false;
}
