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

static void mget(const command *c)
{
    for (int i = 1; i < c->argc; i++) {
        const sim_key *key = keys_find(c->keys, c->argv[i]);
        answer_add(c->answer, key && key->type == SIM_KEY_STRING ? key->u.text : NULL);
    }
}

static void exists(const command *c)
{
    answer_number(c->answer, keys_find(c->keys, c->argv[1]) != NULL);
}

/* SET key value [NX] [GET] [PX ms] [PXAT ms] [KEEPTTL], in any order. GET only with NX. */
static void set(const command *c)
{
    int64_t until_ms = INT64_MAX;
    bool nx = false;
    bool keeps = false;
    bool gets = false;
    for (int i = 3; i < c->argc; i++) {
        nx |= strcmp(c->argv[i], "NX") == 0;
        keeps |= strcmp(c->argv[i], "KEEPTTL") == 0;
        gets |= strcmp(c->argv[i], "GET") == 0;
        if (strcmp(c->argv[i], "PX") == 0)
            until_ms = c->keys->now_ms + strtoll(c->argv[i + 1], NULL, 10);
        if (strcmp(c->argv[i], "PXAT") == 0)
            until_ms = strtoll(c->argv[i + 1], NULL, 10);
    }
    const sim_key *had = nx ? keys_find(c->keys, c->argv[1]) : NULL;
    if (had) {
        answer_text(c->answer, ANSWER_TEXT, gets ? had->u.text : NULL);
        return;
    }
    sim_key *key = keys_make(c->keys, c->argv[1], SIM_KEY_STRING);
    snprintf(key->u.text, sizeof key->u.text, "%s", c->argv[2]);
    if (!keeps)
        key->expires_ms = until_ms;
    is_written(c);
    if (gets)
        answer_text(c->answer, ANSWER_TEXT, NULL);
    else
        is_done(c);
}

/* SETRANGE key from text: over what is there, or beyond its end. */
static void setrange(const command *c)
{
    sim_key *key = keys_find(c->keys, c->argv[1]);
    const size_t from = strtoul(c->argv[2], NULL, 10);
    const size_t length = strlen(c->argv[3]);
    if (!key || from > strlen(key->u.text) || from + length >= sizeof key->u.text)
        abort();
    const bool longer = from + length > strlen(key->u.text);
    memcpy(key->u.text + from, c->argv[3], length + longer);
    is_written(c);
    answer_number(c->answer, (int64_t)strlen(key->u.text));
}

static void del(const command *c)
{
    sim_key *key = keys_find(c->keys, c->argv[1]);
    if (key) {
        keys_remove(key);
        is_written(c);
    }
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

static void pexpireat(const command *c)
{
    expire_in(c, strtoll(c->argv[2], NULL, 10) - c->keys->now_ms);
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

static void ttl(const command *c)
{
    const int64_t ms = left_ms(c);
    answer_number(c->answer, ms < 0 ? ms : (ms + 500) / 1000);
}

static void pexpiretime(const command *c)
{
    const int64_t left = left_ms(c);
    answer_number(c->answer, left < 0 ? left : c->keys->now_ms + left);
}

/* --- hashes ----------------------------------------------------------------------------------------- */

static void hmget(const command *c)
{
    const sim_key *hash = keys_find(c->keys, c->argv[1]);
    for (int i = 2; i < c->argc; i++)
        answer_add(c->answer, hash ? keys_field(hash, c->argv[i]) : NULL);
}

static void hget(const command *c)
{
    const sim_key *hash = keys_find(c->keys, c->argv[1]);
    answer_text(c->answer, ANSWER_TEXT, hash ? keys_field(hash, c->argv[2]) : NULL);
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

static void zscore(const command *c)
{
    sim_key *zset;
    const int rank = rank_of(c, &zset);
    char text[40];
    if (rank >= 0)
        write_score(zset->u.member[rank].score, text, sizeof text);
    answer_text(c->answer, ANSWER_TEXT, rank < 0 ? NULL : text);
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

/* ZRANGE and ZREVRANGE key first last */
static void range(const command *c, bool reversed)
{
    const sim_key *zset = keys_find(c->keys, c->argv[1]);
    const int64_t first = strtoll(c->argv[2], NULL, 10), last = strtoll(c->argv[3], NULL, 10);
    c->answer->kind = ANSWER_LIST;
    for (int64_t i = first; zset && i <= last && i < zset->count; i++)
        answer_add(c->answer, zset->u.member[reversed ? zset->count - 1 - i : i].name);
}

static void zrange(const command *c)
{
    range(c, false);
}

static void zrevrange(const command *c)
{
    range(c, true);
}

/* ZREMRANGEBYSCORE key -inf most */
static void zremrangebyscore(const command *c)
{
    sim_key *zset = keys_find(c->keys, c->argv[1]);
    const double most = strtod(c->argv[3], NULL);
    int64_t removed = 0;
    for (; zset && zset->type == SIM_KEY_ZSET && zset->u.member[0].score <= most; removed++) {
        keys_remove_member(zset, 0);
        is_written(c);
    }
    answer_number(c->answer, removed);
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
        {"HMGET", hmget},
        {"GET", get},
        {"MGET", mget},
        {"HGET", hget},
        {"EXISTS", exists},
        {"PEXPIRETIME", pexpiretime},
        {"TIME", now},
        {"PTTL", pttl},
        {"HSET", hset},
        {"ZADD", zadd},
        {"ZREM", zrem},
        {"PEXPIRE", pexpire},
        {"PEXPIREAT", pexpireat},
        {"PUBLISH", publish},
        {"SPUBLISH", spublish},
        {"SET", set},
        {"SETRANGE", setrange},
        {"DEL", del},
        {"ZPOPMIN", zpopmin},
        {"ZREVRANGE", zrevrange},
        {"ZRANGE", zrange},
        {"ZRANK", zrank},
        {"ZSCORE", zscore},
        {"ZCARD", zcard},
        {"EXPIRE", expire},
        {"TTL", ttl},
        {"ZREMRANGEBYSCORE", zremrangebyscore},
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
