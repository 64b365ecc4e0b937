/* See redis_keys.h. A run that needs more room than there is ends here: then the room was too small. */
#include "sim/redis_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy(char *to, size_t size, const char *from)
{
    if ((size_t)snprintf(to, size, "%s", from) >= size)
        abort();
}

/* A key lives until the end of the millisecond at which it expires. */
static bool is_alive(const sim_keys *keys, const sim_key *key)
{
    return key->type != SIM_KEY_NONE && keys->now_ms <= key->expires_ms;
}

sim_key *keys_find(sim_keys *keys, const char *name)
{
    for (unsigned i = 0; i < SIM_KEYS; i++)
        if (is_alive(keys, &keys->key[i]) && strcmp(keys->key[i].name, name) == 0)
            return &keys->key[i];
    return NULL;
}

sim_key *keys_make(sim_keys *keys, const char *name, sim_key_type type)
{
    sim_key *key = keys_find(keys, name);
    if (key && key->type == type)
        return key;
    for (unsigned i = 0; i < SIM_KEYS && !key; i++)
        if (!is_alive(keys, &keys->key[i]))
            key = &keys->key[i];
    if (!key)
        abort();
    copy(key->name, sizeof key->name, name);
    key->type = (uint8_t)type;
    key->expires_ms = INT64_MAX;
    key->count = 0;
    key->u.text[0] = '\0';
    return key;
}

void keys_remove(sim_key *key)
{
    key->type = SIM_KEY_NONE;
}

/* --- hashes ----------------------------------------------------------------------------------------- */

static int find_field(const sim_key *hash, const char *name)
{
    for (unsigned i = 0; i < hash->count; i++)
        if (strcmp(hash->u.field[i].name, name) == 0)
            return (int)i;
    return -1;
}

const char *keys_field(const sim_key *hash, const char *name)
{
    const int at = find_field(hash, name);
    return at < 0 ? NULL : hash->u.field[at].value;
}

void keys_set_field(sim_key *hash, const char *name, const char *value)
{
    int at = find_field(hash, name);
    if (at < 0) {
        if (hash->count == SIM_FIELDS)
            abort();
        at = (int)hash->count++;
        copy(hash->u.field[at].name, SIM_SHORT, name);
    }
    copy(hash->u.field[at].value, SIM_VALUE, value);
}

bool keys_remove_field(sim_key *hash, const char *name)
{
    const int at = find_field(hash, name);
    if (at < 0)
        return false;
    hash->u.field[at] = hash->u.field[--hash->count];
    if (hash->count == 0)
        keys_remove(hash);
    return true;
}

/* --- sorted sets ------------------------------------------------------------------------------------ */

int keys_rank(const sim_key *zset, const char *member)
{
    for (unsigned i = 0; i < zset->count; i++)
        if (strcmp(zset->u.member[i].name, member) == 0)
            return (int)i;
    return -1;
}

static bool comes_before(const sim_scored *left, double score, const char *name)
{
    return left->score < score || (left->score <= score && strcmp(left->name, name) < 0);
}

void keys_add_member(sim_key *zset, const char *member, double score)
{
    unsigned at = 0;
    if (zset->count == SIM_QUEUE)
        abort();
    while (at < zset->count && comes_before(&zset->u.member[at], score, member))
        at++;
    memmove(&zset->u.member[at + 1], &zset->u.member[at], (zset->count - at) * sizeof zset->u.member[0]);
    zset->count++;
    zset->u.member[at].score = score;
    copy(zset->u.member[at].name, SIM_SHORT, member);
}

void keys_remove_member(sim_key *zset, unsigned rank)
{
    memmove(&zset->u.member[rank], &zset->u.member[rank + 1], (zset->count - rank - 1) * sizeof zset->u.member[0]);
    if (--zset->count == 0)
        keys_remove(zset);
}
