/* The Lua scripts: all that decides who has a mutex happens in them, because Redis runs one at a time.
 *
 *   KEYS[1]  simba:{M}             string  the owner's id, with the lease as its expiry. Shared with Simba on the JVM.
 *   KEYS[2]  simba:{M}:fence       hash    ours: id, nonce, token, acquired_at, ttl_at, until of the latest grant of ours,
 *                                          revoked: the token of the latest one that was forced away,
 *                                          next, next_until: who was invited to take it, and how long nobody else may,
 *                                          standby, standby_until: "@@ID@@ID@@", who looks after it should they not come.
 *   KEYS[3]  simba:{M}:contender   zset    who waits, by the second at which they began to. Shared. Not for renewals: while
 *                                          a cluster moves a slot, a script is refused if one of its keys does not exist.
 *
 * A grant is ours if the lock names the id that the fence names and the two keys end FENCE_KEPT apart, as our scripts let
 * them end. A JVM contender that renews or takes the lock, also under our id, moves the end of the lock alone: from then on
 * the grant is the JVM contender's. It has no token, and is owned by somebody else whatever its id. The distance is exact to
 * the millisecond, except in a cluster: a slot moves with the time that each of its keys has left, and not with their ends.
 *
 * The numbers of Lua are doubles. A fence whose numbers are not whole or not below 2^53 is damaged: no script computes
 * with it, because two grants could get one token. The scripts refuse until somebody deletes the key.
 *
 * Every mutex M stands between braces, which is Redis Cluster's rule for keys that belong together: what is hashed is
 * the text between the first "{" and the first "}" after it. A "}" inside of M only shortens that text, the same way for
 * all three keys. Only a name that begins with "}" leaves nothing between the two, and then the three keys lie apart.
 *
 * Messages:
 *   simba:{M}        acquired@@ID      shared
 *   simba:{M}:ID     released@@OWNER   shared: ID is next
 *   simba:{M}@@      ours, for observers: "released". No id has "@@" in it: this is no contender's channel.
 *   simba:{M}@@ID    ours: "standby NEXT": ID is to look after the mutex, should NEXT or one after it not come
 *   simba:@@revoked  ours, for whoever holds any mutex: "revoked NONCE M". The grant of that nonce was forced away.
 * All databases of a server share their channels: in database 2 it is "released/2", "revoked/2". Anybody can publish on
 * them, so a message is only a reason to ask the store.
 *
 * Waiters stand in the queue by the time at which they came, in seconds. JVM contenders leave out the fraction, and so stand
 * half a second too far in front, on average: ours stand half a second further in front, too.
 *
 * A release takes waiters off the queue until a message to one of them has reached somebody, and keeps the mutex for
 * that one for a moment: otherwise whoever releases and asks again, being nearest, would always win.
 *
 * A waiter that hears but does not act must not delay the others by more than that moment. So two of ours stand by: they
 * ask when it is over. All the others sleep on. They are told once for all hand-overs of that moment, and are those at the
 * end of the queue, who are going to wait for the longest: to wake two processes for every hand-over would be a good part
 * of what it costs. Who stands by and leaves, or wins, says so, and the next release tells others. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "backends/redis/scripts.h"
#include "util/mem.h"

/* clang-format off */
static const char common[] =
"local lock, fence, queue = KEYS[1], KEYS[2], KEYS[3]\n"
"local RESERVED, FENCE_KEPT, QUEUE_KEPT = 100, 2592000000, 86400\n" /* ms; ms, 30 days; s, one day */
"local TOKEN_END = 9007199254740992\n"
"local time = redis.call('TIME')\n"
"local us = time[1] * 1000000 + time[2]\n"
"local now = math.floor(us / 1000)\n"
"local score = string.format('%.6f', us / 1000000 - 0.5)\n"
"local function num(n) return string.format('%.0f', n) end\n"
"local owner = redis.call('GET', lock)\n"
"local f = redis.call('HMGET', fence, 'id', 'nonce', 'token', 'acquired_at', 'ttl_at', 'until', 'revoked', 'next',"
" 'next_until', 'standby', 'standby_until')\n"
"local function whole(text)\n"
"  local n = tonumber(text)\n"
"  return text == false or (n and n >= 0 and n < TOKEN_END and n % 1 == 0)\n"
"end\n"
"local function damaged()\n"
"  return redis.error_reply('BADFENCE a number in ' .. fence .. ' is not whole or not below 2^53:"
" delete that key while nobody holds the mutex')\n"
"end\n"
"if not (whole(f[3]) and whole(f[4]) and whole(f[5]) and whole(f[6]) and whole(f[9]) and whole(f[11])) then\n"
"  return damaged()\n"
"end\n"
"local left, ours = 0, false\n"
/* The clock may tick between the two readings, before Redis 7.2 also in a script. */
"for _ = 1, owner and 5 or 0 do\n"
"  left = redis.call('PTTL', lock)\n"
"  if f[1] ~= owner or not f[3] then break end\n"
"  ours = math.abs(redis.call('PTTL', fence) - FENCE_KEPT - left) <= ENDS_DIFFER\n"
"  if ours then break end\n"
"end\n"
"if left == -2 then owner, ours = false, false end\n"
/* Somebody made it without an end: ask again in an hour. */
"if left < 0 then left = 3600000 end\n"
"left = math.min(left, 3153600000000)\n" /* a hundred years, should somebody have made it for longer */
"local function shown(id) return string.sub(id, 1, 256) end\n"
"local function answer(outcome)\n"
"  if not owner then return {outcome, now, '', 0, 0, 0, 0} end\n"
"  if not ours then return {outcome, now, shown(owner), 0, 0, now + left, now + left} end\n"
"  local ttl_at = math.min(tonumber(f[5] or 0), now + left)\n"
"  return {outcome, now, owner, tonumber(f[3]), tonumber(f[4] or 0), ttl_at, now + left}\n"
"end\n"
"local function mine(id, nonce, token)\n"
"  return ours and owner == id and f[2] == nonce and (token == '0' or f[3] == token)\n"
"end\n"
/* To a holder that is not one any more: was it forced away, or is it another's? */
"local function not_held(token)\n"
"  return answer(token ~= '0' and f[7] == token and 2 or 0)\n"
"end\n"
"local function end_both(at)\n"
"  redis.call('PEXPIREAT', lock, num(at))\n"
"  redis.call('PEXPIREAT', fence, num(at + FENCE_KEPT))\n"
"end\n"
"local function extend(ttl, transition)\n"
"  left = ttl + transition\n"
"  f[5] = now + ttl\n"
"  redis.call('HSET', fence, 'ttl_at', num(f[5]), 'until', num(now + left))\n"
"  end_both(now + left)\n"
"end\n"
"local reserved = not owner and f[8] and f[8] ~= '' and tonumber(f[9] or 0) > now\n"
"local standby = f[10] and tonumber(f[11] or 0) > now and f[10] or ''\n"
"local function stands_by(id) return string.find(standby, '@@' .. id .. '@@', 1, true) end\n"
"local function wake(from)\n"
"  local chosen = ''\n"
"  for _ = 1, 1000 do\n"
"    local head = redis.call('ZPOPMIN', queue)[1]\n"
"    if not head then break end\n"
"    if redis.call('PUBLISH', lock .. ':' .. head, 'released@@' .. from) > 0 then chosen = head break end\n"
"  end\n"
"  if chosen ~= '' or f[8] then\n"
"    redis.call('HSET', fence, 'next', chosen, 'next_until', num(now + RESERVED))\n"
"    redis.call('PEXPIRE', fence, num(FENCE_KEPT))\n"
"  end\n"
"  redis.call('PUBLISH', lock .. '@@', 'released' .. db)\n"
"  if chosen == '' or (standby ~= '' and not stands_by(chosen)) then return end\n"
"  local told, n = '@@', 0\n"
"  for _, id in ipairs(redis.call('ZREVRANGE', queue, 0, 7)) do\n"
"    if redis.call('PUBLISH', lock .. '@@' .. id, 'standby ' .. chosen) > 0 then\n"
"      told, n = told .. id .. '@@', n + 1\n"
"      if n == 2 then break end\n"
"    end\n"
"  end\n"
"  redis.call('HSET', fence, 'standby', n > 0 and told or '', 'standby_until', num(now + RESERVED))\n"
"end\n"
"local function stand_down(id)\n"
"  if stands_by(id) then redis.call('HSET', fence, 'standby', '') standby = '' end\n"
"end\n"
"local function vacate()\n"
"  local from = owner\n"
"  redis.call('DEL', lock)\n"
"  if f[1] then redis.call('HSET', fence, 'id', '', 'nonce', '') end\n"
"  owner = false\n"
"  wake(from)\n"
"end\n";

static const char acquire[] =
"local id, nonce, ttl, transition, waits, invited = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5],"
" ARGV[6]\n"
"if mine(id, nonce, '0') then\n"
"  extend(ttl, transition)\n"
"  redis.call('ZREM', queue, id)\n"
"  return answer(1)\n"
"end\n"
"if not owner and (not reserved or f[8] == id or f[8] == invited) then\n"
"  local token = math.max(tonumber(f[3] or 0) + 1, us)\n"
"  if token >= TOKEN_END then return damaged() end\n"
"  owner, ours, left = id, true, ttl + transition\n"
"  f[3], f[4], f[5] = token, now, now + ttl\n"
"  redis.call('SET', lock, id, 'PX', num(left))\n"
"  redis.call('HSET', fence, 'id', id, 'nonce', nonce, 'token', num(token), 'acquired_at', num(now), 'ttl_at',"
" num(f[5]), 'until', num(now + left), 'next', '')\n"
"  end_both(now + left)\n"
"  redis.call('ZREM', queue, id)\n"
"  stand_down(id)\n"
/* Another contender of the same client was quicker than the one that was invited, which still waits. */
"  if invited ~= '' and invited ~= id then\n"
"    redis.call('ZADD', queue, 'NX', score, invited)\n"
"  end\n"
"  redis.call('PUBLISH', lock, 'acquired@@' .. id)\n"
"  return answer(1)\n"
"end\n"
"local told = answer(0)\n"
"if reserved then told = {0, now, shown(f[8]), 0, 0, tonumber(f[9]), tonumber(f[9])} end\n"
"if waits ~= '1' then return told end\n"
/* An owner does not wait. A JVM contender that won by its timer stands in the queue, and would swallow its own release. */
"if owner and not ours then redis.call('ZREM', queue, owner) end\n"
"redis.call('ZADD', queue, 'NX', score, id)\n"
/* Who still asks is not to be taken for one that never came back. */
"local waits_since = tonumber(redis.call('ZSCORE', queue, id))\n"
"if waits_since < time[1] - QUEUE_KEPT / 2 then redis.call('ZADD', queue, score, id) end\n"
"local before = redis.call('ZRANK', queue, id)\n"
/* Some of those that join a queue tidy it up: there is no hurry, and a hand-over has no time to lose. Nobody needs to
 * ask before the lease that it was told of has ended. */
"if before == 0 or time[2] % 16 == 0 then\n"
"  local kept = QUEUE_KEPT + math.ceil(math.max(left, ttl + transition) / 1000)\n"
"  redis.call('ZREMRANGEBYSCORE', queue, '-inf', num(time[1] - kept))\n"
"  redis.call('EXPIRE', queue, num(kept))\n"
"end\n"
"told[8] = stands_by(id) and 1 or before + 1\n"
"return told\n";

static const char renew[] =
"if mine(ARGV[1], ARGV[2], ARGV[3]) and ARGV[3] ~= '0' then\n"
"  extend(tonumber(ARGV[4]), tonumber(ARGV[5]))\n"
"  return answer(1)\n"
"end\n"
"return not_held(ARGV[3])\n";

/* What no replica had is given back by us, under a nonce that may ask again. That may be quicker, on another connection: so
 * only the grant that ends when that one did. Whoever leaves without having been in the queue has just been invited: the
 * invitation goes on to the next. */
static const char release[] =
"local id, ends_at = ARGV[1], ARGV[4]\n"
"if ends_at and not (mine(id, ARGV[2], ARGV[3]) and f[6] == ends_at) then return answer(0) end\n"
"local was_queued = redis.call('ZREM', queue, id) == 1\n"
"stand_down(id)\n"
"if mine(id, ARGV[2], ARGV[3]) then\n"
"  vacate()\n"
"  return answer(1)\n"
"end\n"
"if not owner and (f[8] == id or not (was_queued or reserved)) then wake(id) end\n"
"return not_held(ARGV[3])\n";

/* A waiter whose channel was not subscribed yet may have been taken for dead. */
static const char queue_up[] =
"if owner ~= ARGV[1] then\n"
"  redis.call('ZADD', queue, 'NX', score, ARGV[1])\n"
"  redis.call('EXPIRE', queue, num(math.max(QUEUE_KEPT + math.ceil(left / 1000), redis.call('TTL', queue))))\n"
"end\n"
"return answer(0)\n";

static const char read_owner[] =
"local told = answer(0)\n"
"told[8] = redis.call('ZCARD', queue)\n"
"return told\n";

static const char force_release[] =
"if not owner then return answer(0) end\n"
"if ours then\n"
"  redis.call('HSET', fence, 'revoked', f[3])\n"
"  redis.call('PUBLISH', 'simba:@@revoked', 'revoked' .. db .. ' ' .. f[2] .. ' ' .. string.sub(lock, 8, -2))\n"
"end\n"
"vacate()\n"
"return answer(1)\n";
/* clang-format on */

char *simba__redis_script_text(redis_script script, const redis_options *options)
{
    static const char *const own[REDIS_SCRIPTS] = {
        [REDIS_ACQUIRE] = acquire,
        [REDIS_RENEW] = renew,
        [REDIS_RELEASE] = release,
        [REDIS_READ] = read_owner,
        [REDIS_FORCE_RELEASE] = force_release,
        [REDIS_QUEUE_UP] = queue_up,
    };
    char db[24] = "";
    if (options->login.db != 0)
        snprintf(db, sizeof db, "/%ld", options->login.db);
    /* How far apart a move of the slot may bring the ends of two keys, in ms. */
    const int ends_differ = options->kind == REDIS_CLUSTER ? 5 : 0;
    char first[96];
    const int length = snprintf(first, sizeof first, "local db, ENDS_DIFFER = '%s', %d\n", db, ends_differ);
    assert(length > 0 && (size_t)length < sizeof first);
    char *text = simba__malloc((size_t)length + sizeof common + strlen(own[script]));
    if (text) {
        strcpy(text, first);
        strcat(text, common);
        strcat(text, own[script]);
    }
    return text;
}
