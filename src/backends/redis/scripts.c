/* The Lua scripts: all that decides who has a mutex happens in them, because Redis runs one at a time.
 *
 *   KEYS[1]  simba:{M}             string  the owner's id, with the lease as its expiry. Shared with Simba on the JVM.
 *   KEYS[2]  simba:{M}:grant       string  ours: the latest grant of ours, and who comes next. See below.
 *   KEYS[3]  simba:{M}:contender   zset    who waits, by the second at which they began to. Shared. Not for renewals: while
 *                                          a cluster moves a slot, a script is refused if one of its keys does not exist.
 *   KEYS[4]  simba:{M}:fence       hash    of versions before this layout: its token is read where there is no grant yet. In a
 *                                          cluster it is not passed, for the same reason; it lies in the same slot.
 *   last     simba:{M}:note        string  ours, without an expiry: the token of the grant that wrote it, the number of the write,
 *                                          the time in ms, each of fixed width with a space behind it, and the bytes. Without
 *                                          bytes there is no note: such a key expires, and only says which writes are late.
 *
 * The grant is one line of text. Its first fields have a fixed width, so that a script can compare them without parsing:
 *
 *   1-16    token
 *   18-37   nonce of the contender; zeroes: nobody has it
 *   39-53   when the lease ends, in ms
 *   55-70   the token of the latest grant that was forced away
 *   72-86   when it was granted, in ms
 *   88-     the transition in ms, "@@", the owner's id, "@@". While a hand-over is under way more follows:
 *           until when nobody but the invited one may take it, until when those who stand by need not be told again, the length
 *           of the id of the invited one, that id, "@@ID@@ID@@" (who stands by), and a full stop.
 *
 * A grant is ours if the lock names the id of the grant and ends when the grant says so. A JVM contender that renews or takes
 * the lock, even under our id, moves only the end of the lock: from then on the grant is the JVM contender's. It has no token,
 * and counts as somebody else's whatever its id. The same holds for a grant that a version with the old layout has made, and
 * a grant of ours is foreign to that version: the lock makes the two exclude each other. In a cluster the key of the grant ends
 * GRANT_KEPT after the lock, give or take some milliseconds, and the scripts compare that: see ends_with.
 *
 * The most frequent requests take a short way through their script: taking a mutex that is free and to which nobody else is
 * invited, joining its queue, releasing it, and renewing. Everything else goes on to the general part, which knows all cases. A short
 * way writes nothing before it is sure that it is the right one, and leads to the same as the general part would: a test compares
 * the two.
 *
 * The numbers of Lua are doubles. A grant whose token is not below 2^53, or that cannot be read, is damaged: no script
 * computes with it, because two grants could get one token. The scripts refuse until somebody deletes the key.
 *
 * Every mutex M stands between braces, which is Redis Cluster's rule for keys that belong together: it hashes the text
 * between the first "{" and the first "}" after it. A "}" inside M only shortens that text, the same way for all keys. Only
 * for a name that begins with "}" is there no such text, and then the keys lie apart.
 *
 * Messages:
 *   simba:{M}        acquired@@ID      shared
 *   simba:{M}:ID     released@@OWNER   shared: ID is next
 *   simba:{M}@@      ours, for observers: "released". No id has "@@" in it: this is no contender's channel.
 *   simba:{M}@@ID    ours: "standby NEXT": ID is to look after the mutex, should NEXT or one after it not come
 *   simba:{M}@@@@    ours, for whoever waits or observes: "noted". The note is another one.
 *   simba:@@revoked  ours, for whoever holds any mutex: "revoked NONCE M". The grant of that nonce was forced away.
 * In a cluster of version 7.0 or later, these are messages of sharded pub/sub (SPUBLISH), which reach the servers of the slot
 * alone. "released@@OWNER" goes out by PUBLISH as well if nobody has heard it so, and "acquired@@ID" if anybody stands in the
 * queue: JVM contenders and waiters of earlier versions hear only that. Revocations go to all servers in any case.
 * All databases of a server share their channels: in database 2 it is "released/2", "revoked/2". Anybody can publish on
 * them, so a message is only a reason to ask the store.
 *
 * Waiters stand in the queue by the time at which they came, in seconds. JVM contenders leave out the fraction, and so stand
 * half a second too far in front, on average: ours stand half a second further in front, too.
 *
 * A release takes waiters off the queue until a message has reached one of them, and keeps the mutex for that one for a
 * moment: otherwise a contender that releases and asks again, being nearest, would always win.
 *
 * A waiter that hears but does not act must not delay the others by more than that moment. So two of ours stand by: they
 * ask when it is over. All the others sleep on. The two are told once for all hand-overs of that moment, and are those at the
 * end of the queue, which will wait for the longest: waking two processes for every hand-over would be a good part of its
 * cost. A waiter that stands by and leaves, or wins, says so, and the next release tells others.
 *
 * Answers: a grant is answered with the line of the grant, a renewal with the end of the lease and the time of the grant as they
 * stand in that line, a release that took effect with 1, who joins the queue with "#", its place, the time and the line of the grant,
 * everything else with a list; see reply.c. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/scripts.h"
#include "util/digits.h"
#include "util/mem.h"

/* clang-format off */

/* --- the short ways --------------------------------------------------------------------------------- */

/* To make a function takes a script about as long as a part of a command, so the short ways make none: what several scripts
 * need stands in macros. Numbers that go to a command are text here: the server takes long to turn a number of Lua
 * into text. For the same reason an answer is one text where it can be, not a list. */

/* The beginning of every script. Servers before 7.0 know neither PEXPIRETIME nor the options of SET that the short ways
 * need. */
static const char first_of_all[] =
"local call, MODERN, keys, args = redis.call, redis.REDIS_VERSION_NUM, KEYS, ARGV\n"
"local RESERVED, GRANT_KEPT, QUEUE_KEPT, TOKEN_END = 100, 2764800000, 86400, 9007199254740992\n" /* ms; ms, 32 days; s, one day */
"local lock, key, queue, strings = keys[1], keys[2], keys[3], string\n"
"local sub, find, format = strings.sub, strings.find, strings.format\n"
/* How to publish a message of ours. In a cluster PUBLISH goes to all servers, SPUBLISH only to those of the slot. */
"local SHARDED = CLUSTER and MODERN\n"
"local TELL = SHARDED and 'SPUBLISH' or 'PUBLISH'\n";

/* When a key ends, in ms; -1: never, -2: there is no such key. Before Redis 7.2 the clock goes on while a script runs,
 * and on a busy machine the server may have to wait for a processor between any two commands. So a script must not
 * compute anything from two readings of the clock. */
#define END_OF(key) "(MODERN and call('PEXPIRETIME', " key ") or end_of(" key "))"

static const char times[] =
"local end_of\n"
"if not MODERN then\n"
"  local function clock()\n"
"    local t = call('TIME')\n"
"    return t[1] * 1000 + math.floor(t[2] / 1000)\n"
"  end\n"
"  function end_of(key)\n"
"    local after, before, left = clock()\n"
"    for _ = 1, 20 do\n"
"      before, left, after = after, call('PTTL', key), clock()\n"
"      if left < 0 then return left end\n"
"      if before == after then break end\n"
"    end\n"
"    return after + left\n"
"  end\n"
"end\n";

/* Does the lock end when the grant says so? In a cluster: when the key of the grant says so, because a slot moves with the time
 * that its keys have left, to a server with a clock of its own. */
#define ENDS_WITH(lock_ends, key, ends) \
"(CLUSTER and math.abs(" END_OF(key) " - " lock_ends " - GRANT_KEPT) <= ENDS_DIFFER or not CLUSTER and " lock_ends " == " ends ")"

/* Read the lock and the grant; false: there is no such key. One MGET would take longer than two GETs, because its answer is
 * a table. */
static const char read_both[] =
"local owner, grant, lock_end, time = call('GET', lock), call('GET', key)\n";

/* The key of the grant gets a new end only if the lease ends in another stretch of 10^8 ms than the lease before it.
 * That is once a day, and not at every grant. SETRANGE, which leaves the end of the key as it is, takes less time than SET, and does
 * the same if the text that it writes over is no longer than the new one. */
#define PUT_GRANT(before, text, ends) \
"  if MODERN and not CLUSTER and sub(" before ", 39, 45) == sub(" text ", 39, 45) then\n" \
"    if #" text " < #" before " then call('SET', key, " text ", 'KEEPTTL') else call('SETRANGE', key, '0', " text ") end\n" \
"  else\n" \
"    call('SET', key, " text ")\n" \
"    call('PEXPIREAT', key, format('%d', " ends " + GRANT_KEPT))\n" \
"  end\n"

/* A JVM contender that does not have the mutex stands in the queue, or is about to ask. */
#define TELL_GRANT \
"  call(TELL, lock, 'acquired@@' .. id)\n" \
"  if SHARDED and call('EXISTS', queue) == 1 then call('PUBLISH', lock, 'acquired@@' .. id) end\n"

/* Who is invited, and who stands by, from `at` on in a grant; nil: nobody is. */
#define MATCH_TAIL(at) "string.match(grant, '^(%d+) (%d+) (%d+) (.*)%.$', " at ")\n"

/* What an acquire is about, and what its short ways need. `sound`: the grant can be read, as far as they do. `before`: its token.
 * `middle`: the token that was forced away, and the first digits of the time behind it. `shut`: somebody may be invited. */
static const char look[] =
"local id, nonce, total, transition, waits, here = args[1], args[2], args[3], args[4], args[5] or '1', args[6] or ''\n"
"local time, grant, owner, lock_end = call('TIME'), call('GET', key)\n"
"local micros = time[2]\n"
"if #micros < 6 then micros = sub('00000' .. micros, -6) end\n"
"local token = time[1] .. micros\n"
"local at, before, middle, sound, shut = sub(token, 1, 13)\n"
"if MODERN and grant and #token == 16 then\n"
"  before, middle, shut = tonumber(sub(grant, 1, 16)), sub(grant, 54, 73), sub(grant, -2) ~= '@@'\n"
"  sound = before and before >= 0 and before < TOKEN_END - 1 and (middle == ' 0000000000000000 00' or find(middle, '^ %d+ 00$'))\n"
"end\n";

/* Take a mutex that is free, to which nobody is invited, or this contender is. A contender that was not in the queue most
 * likely finds it free: SET says so, or who has it. */
static const char take[] =
"if sound then\n"
"  local open, rest = not shut and (here == '' or here == '@@'), ''\n"
"  if shut and here == '@@' .. id then\n"
"    local tail = find(grant, '@@', 88, true)\n"
"    tail = tail and find(grant, '@@', tail + 2, true)\n"
"    local invited_until, told_until, length, names = " MATCH_TAIL("(tail or 0) + 2")
"    open = names and invited_until - at > 0 and sub(names, 1, length) == id\n"
"    if open and #names > #id + 2 and told_until - at > 0 and not find(names, here .. '@@', #id + 1, true) then\n"
"      rest = invited_until .. ' ' .. told_until .. ' 0 ' .. sub(names, #id + 1) .. '.'\n"
"    end\n"
"  end\n"
"  if here == '@@' then owner = call('GET', lock) end\n"
"  if open and not owner then\n"
"    local ends = at + total\n"
"    local ends_text = format('%d', ends)\n"
"    local fits = #ends_text == 13\n"
"    if fits then owner = call('SET', lock, id, 'NX', 'GET', 'PXAT', ends_text) end\n"
"    if fits and not owner then\n"
"      if before >= token + 0 then token = format('%016d', before + 1) end\n"
"      local text = token .. ' ' .. nonce .. ' 00' .. ends_text .. middle .. at .. ' ' .. transition .. '@@' .. id .. '@@' .. rest\n"
PUT_GRANT("grant", "text", "ends")
"      if here == '@@' then call('ZREM', queue, id) end\n"
TELL_GRANT
"      return text\n"
"    end\n"
"  end\n"
"end\n";

/* Join the queue of a mutex that another contender of ours has, or is invited to. The answer is the place in the queue, the
 * time, and the grant; or the invitation, in the form of a grant. Some of the contenders that join tidy the queue up, in the general
 * part: there is no hurry with that, and a hand-over has no time to lose. */
static const char wait_for_it[] =
"if sound and waits == '1' and not CLUSTER and micros % 16 ~= 0 then\n"
"  if owner == nil then owner = call('GET', lock) end\n"
"  local us = token + 0\n"
"  local now = (us - us % 1000) / 1000\n"
"  lock_end = owner and call('PEXPIRETIME', lock)\n"
"  local from = find(grant, '@@', 88, true)\n"
"  from = from and tonumber(sub(grant, 88, from - 1)) and from + 1\n"
"  local told, lasts\n"
"  if not from or owner == id then\n"
"  elseif owner then\n"
"    local tail = from + #owner + 2\n"
"    if lock_end == tonumber(sub(grant, 39, 53)) and sub(grant, from + 1, tail) == owner .. '@@'\n"
"      and (not shut or not find(grant, '@@' .. id .. '@@', tail + 1, true)) then\n"
"      told, lasts = grant, lock_end - now\n"
"    end\n"
"  elseif shut then\n"
"    local tail = find(grant, '@@', from + 1, true)\n"
"    local invited_until, _, length, names = " MATCH_TAIL("(tail or 0) + 2")
"    local next = names and invited_until + 0 > now and sub(names, 1, length)\n"
"    if next and next ~= '' and next ~= id and here ~= '@@' .. next and #invited_until == 13 and #next <= 256\n"
"      and not find(names, '@@' .. id .. '@@', #next + 1, true) then\n"
"      told, lasts = '0000000000000000 00000000000000000000 00' .. invited_until .. ' 0000000000000000 000000000000000 0@@' .. next\n"
"        .. '@@', 0\n"
"    end\n"
"  end\n"
"  if told and call('ZADD', queue, 'NX', format('%.6f', us / 1000000 - 0.5), id) == 1 then\n"
"    local place = call('ZRANK', queue, id)\n"
"    if place == 0 then\n"
"      call('EXPIRE', queue, format('%d', QUEUE_KEPT + math.ceil(math.max(lasts, total) / 1000)))\n"
"    end\n"
"    return format('#%d 00', place + 1) .. at .. ' ' .. told\n"
"  end\n"
"end\n";

/* Publish to one waiter. JVM contenders and earlier versions hear only PUBLISH, which does not count listeners at other
 * servers. */
#define REACHES(channel, text) \
"(SHARDED and call('SPUBLISH', " channel ", " text ") > 0 or call('PUBLISH', " channel ", " text ") > 0)"

/* Invite the first waiter that hears of it. */
#define INVITE(from) \
"  next = ''\n" \
"  for _ = 1, 1000 do\n" \
"    local head = call('ZPOPMIN', queue)[1]\n" \
"    if not head then break end\n" \
"    if " REACHES("lock .. ':' .. head", "'released@@' .. " from) " then next = head break end\n" \
"  end\n" \
"  next_until = now + RESERVED\n" \
"  call(TELL, lock .. '@@', 'released' .. db)\n" \
"  if next ~= '' and (standby == '@@' or find(standby, '@@' .. next .. '@@', 1, true)) then\n" \
"    local n = 0\n" \
"    standby, standby_until = '@@', now + RESERVED\n" \
"    for _, id in ipairs(call('ZREVRANGE', queue, '0', '7')) do\n" \
"      if " REACHES("lock .. '@@' .. id", "'standby ' .. next") " then\n" \
"        standby, n = standby .. id .. '@@', n + 1\n" \
"        if n == 2 then break end\n" \
"      end\n" \
"    end\n" \
"  end\n"

/* How an invitation stands in a grant. */
#define TAIL "format('%d %d %d ', next_until, standby_until, #next) .. next .. standby .. '.'"

/* Release a mutex that this contender has. If nobody waits, the grant can stay as it is: it is nobody's without the lock. */
static const char give_back[] =
"local id, head, here = args[1], args[2], args[3] or ''\n"
"if owner == id and grant and sub(grant, 1, 37) == head then\n"
"  lock_end = " END_OF("lock") "\n"
"  local shut = sub(grant, -2) ~= '@@'\n"
"  if " ENDS_WITH("lock_end", "key", "tonumber(sub(grant, 39, 53))") " then\n"
"    if here == '' and not shut and call('EXISTS', queue) == 0 then\n"
"      call('DEL', lock)\n"
"      call(TELL, lock .. '@@', 'released' .. db)\n"
"      return 1\n"
"    end\n"
"    time = call('TIME')\n"
"    local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
"    local next, next_until, standby, standby_until, fits = '', 0, '@@', 0, not shut\n"
"    local _, from = find(grant, '@@' .. id .. '@@', 88, true)\n"
"    if shut and from then\n"
"      local invited_until, told_until, length, names = " MATCH_TAIL("from + 1")
"      fits = length == '0' and not find(names, '@@' .. id .. '@@', 1, true)\n"
"      if fits and told_until + 0 > now then standby, standby_until = names, told_until + 0 end\n"
"    end\n"
"    if fits and from then\n"
"      call('ZREM', queue, id)\n"
"      call('DEL', lock)\n"
INVITE("id")
"      if next ~= '' then\n"
"        local text = sub(grant, 1, 17) .. '00000000000000000000' .. sub(grant, 38, from) .. " TAIL "\n"
/* A lock that is not ours must not end when the grant does, not even nearly. */
PUT_GRANT("grant", "text", "now - 1000")
"      end\n"
"      return 1\n"
"    end\n"
"  end\n"
"end\n";

/* Renew a lease. Nothing else than its end has changed: only that is written, and answered with the time of the grant. `head`: token
 * and nonce, as they stand in the grant. `wide`: the end with the width that it has there. `tail`: the transition, as it stands
 * there. */
static const char prolong[] =
"local time = call('TIME')\n"
"local us = time[2] + 0\n"
"local now = time[1] * 1000 + (us - us % 1000) / 1000\n"
"local id, head, ends, tail = args[1], args[2], now + args[3], args[4] .. '@@'\n"
"local owner, grant, lock_end = call('GET', lock), call('GET', key)\n"
"do\n"
"  local ends_text = format('%d', ends)\n"
"  local wide = #ends_text == 13 and '00' .. ends_text or format('%015d', ends)\n"
"  local rest = owner == id and grant and sub(grant, 1, 37) == head and #wide == 15\n"
"    and " ENDS_WITH(END_OF("lock"), "key", "tonumber(sub(grant, 39, 53))") "\n"
"  if rest and sub(grant, 88, 87 + #tail) == tail then\n"
"    call('PEXPIREAT', lock, ends_text)\n"
"    call('SETRANGE', key, '38', wide)\n"
"    if CLUSTER or sub(grant, 39, 45) ~= sub(wide, 1, 7) then\n"
"      call('PEXPIREAT', key, format('%d', ends + GRANT_KEPT))\n"
"    end\n"
"    return wide .. sub(grant, 71, 86)\n"
"  end\n"
"  rest = rest and find(grant, '@@', 88, true)\n"
"  if rest then\n"
"    call('PEXPIREAT', lock, ends_text)\n"
"    call('SET', key, sub(grant, 1, 38) .. wide .. sub(grant, 54, 87) .. tail .. sub(grant, rest + 2))\n"
"    call('PEXPIREAT', key, format('%d', ends + GRANT_KEPT))\n"
"    return wide .. sub(grant, 71, 86)\n"
"  end\n"
"end\n";

/* --- the general part ------------------------------------------------------------------------------- */

static const char common[] =
"time = time or call('TIME')\n"
"local us = time[1] * 1000000 + time[2]\n"
"local now = math.floor(us / 1000)\n"
"local function num(n) return format('%d', n) end\n"
"local function damaged(key, what)\n"
"  return redis.error_reply('BADFENCE ' .. what .. ' ' .. key .. ': delete that key while nobody holds the mutex')\n"
"end\n"
"if owner == nil then owner = call('GET', lock) end\n"
/* The fields of the latest grant. */
"local NOBODY = '00000000000000000000'\n"
"local g = {token = 0, nonce = NOBODY, ends = 0, revoked = '0000000000000000', acquired = 0, transition = 0, id = ''}\n"
"local next, next_until, standby, standby_until = '', 0, '@@', 0\n"
"if grant then\n"
"  local tail\n"
"  g.token, g.nonce, g.ends, g.revoked, g.acquired, g.transition, g.id, tail =\n"
"    string.match(grant, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)@@(.-)@@(.*)$')\n"
"  if not g.token or #g.token ~= 16 or #g.nonce ~= 20 or #g.ends ~= 15 or #g.revoked ~= 16 or #g.acquired ~= 15 then\n"
"    return damaged(key, 'nobody can read')\n"
"  end\n"
"  g.token, g.ends, g.acquired, g.transition = tonumber(g.token), tonumber(g.ends), tonumber(g.acquired),\n"
"    tonumber(g.transition)\n"
"  if g.token >= TOKEN_END or g.transition >= TOKEN_END then return damaged(key, 'a number is not below 2^53 in') end\n"
"  local invited_until, told_until, length, rest = string.match(tail, '^(%d+) (%d+) (%d+) (.*)%.$')\n"
"  if rest and tonumber(invited_until) > now then\n"
"    next, next_until = sub(rest, 1, length), tonumber(invited_until)\n"
"  end\n"
"  if rest and tonumber(told_until) > now then\n"
"    standby, standby_until = sub(rest, length + 1), tonumber(told_until)\n"
"  end\n"
"else\n"
"  local fence = CLUSTER and lock .. ':fence' or keys[4]\n"
"  local token = fence and call('HGET', fence, 'token')\n"
"  g.token = tonumber(token or 0)\n"
"  if not g.token or g.token < 0 or g.token >= TOKEN_END or g.token % 1 ~= 0 then\n"
"    return damaged(fence, 'a number is not whole or not below 2^53 in')\n"
"  end\n"
"end\n"
"local lock_ends = owner and (lock_end or " END_OF("lock") ") or -2\n"
"if lock_ends == -2 then owner = false end\n"
"local ours = owner and grant and owner == g.id and " ENDS_WITH("lock_ends", "key", "g.ends") "\n"
/* A lock without an end, which somebody else made: ask again in an hour. One that ends in more than a hundred years:
 * ask again then. */
"local left = lock_ends == -1 and 3600000 or math.max(0, math.min(lock_ends - now, 3153600000000))\n"
"local function save()\n"
"  local tail = ''\n"
"  if next ~= '' or standby ~= '@@' then\n"
"    tail = " TAIL "\n"
"  end\n"
"  local text = format('%016d %s %015d %s %015d %d@@%s@@%s', g.token, g.nonce, g.ends, g.revoked,\n"
"    g.acquired, g.transition, g.id, tail)\n"
/* A lock that is not ours must not end when the grant does, not even nearly. */
"  local kept = now + (ours and left or -1000)\n"
PUT_GRANT("(grant or '')", "text", "kept")
"  return text\n"
"end\n"
"local function shown(id) return sub(id, 1, 256) end\n"
"local function answer(outcome)\n"
"  if not owner then return {outcome, now, '', 0, 0, 0, 0} end\n"
"  if not ours then return {outcome, now, shown(owner), 0, 0, now + left, now + left} end\n"
"  local ends = CLUSTER and now + left or g.ends\n"
"  return {outcome, now, owner, g.token, g.acquired, math.max(ends - g.transition, 0), ends}\n"
"end\n"
"local function mine(id, nonce, token)\n"
"  return ours and owner == id and g.nonce == nonce and (token == '0' or g.token == tonumber(token))\n"
"end\n"
"local reserved = not owner and next ~= ''\n"
"local function stands_by(id) return find(standby, '@@' .. id .. '@@', 1, true) end\n"
"local function stand_down(id)\n"
"  if stands_by(id) then standby = '@@' return true end\n"
"end\n";

/* Functions that only some of the scripts need. */
static const char scoring[] =
"local function score() return format('%.6f', us / 1000000 - 0.5) end\n";

static const char holding[] =
"local function hold(id, total, transition)\n"
"  ours, left, g.transition = true, tonumber(total), tonumber(transition)\n"
"  g.ends = now + left\n"
"  local ends = num(g.ends)\n"
"  if MODERN then\n"
"    call('SET', lock, id, 'PXAT', ends)\n"
"  else\n"
"    call('SET', lock, id)\n"
"    call('PEXPIREAT', lock, ends)\n"
"  end\n"
"  return save()\n"
"end\n";

/* Answer a holder that holds no longer: was its grant forced away, or does another contender have the mutex? */
static const char not_holding[] =
"local function not_held(token)\n"
"  return answer(token ~= '0' and g.revoked == token and 2 or 0)\n"
"end\n";

static const char waking[] =
"local function wake(from)\n"
INVITE("from")
"  if next ~= '' or grant then save() end\n"
"end\n"
"local function vacate()\n"
"  local from = owner\n"
"  call('DEL', lock)\n"
"  g.nonce = NOBODY\n"
"  owner, ours = false, false\n"
"  wake(from)\n"
"end\n";

static const char acquire[] =
"local invited = sub(here, 3)\n"
"if mine(id, nonce, '0') then\n"
"  local text = hold(id, total, transition)\n"
"  call('ZREM', queue, id)\n"
"  return text\n"
"end\n"
"if not owner and (not reserved or next == id or next == invited) then\n"
"  local token = math.max(g.token + 1, us)\n"
"  if token >= TOKEN_END then return damaged(key, 'the tokens of this mutex have reached 2^53, see') end\n"
"  local was_next = next == id\n"
"  owner, g.token, g.nonce, g.acquired, g.id, next = id, token, nonce, now, id, ''\n"
"  stand_down(id)\n"
/* The first write of the script: a server that has run out of memory refuses only that one. */
"  local text = hold(id, total, transition)\n"
"  if not was_next then call('ZREM', queue, id) end\n" /* who is invited was taken out */
/* Another contender of the same client was quicker than the invited one, which still waits. */
"  if invited ~= '' and invited ~= id then\n"
"    call('ZADD', queue, 'NX', score(), invited)\n"
"  end\n"
TELL_GRANT
"  return text\n"
"end\n"
"local told = answer(0)\n"
"if reserved then told = {0, now, shown(next), 0, 0, next_until, next_until} end\n"
"if waits ~= '1' then return told end\n"
/* An owner does not wait. A JVM contender that won by its timer still stands in the queue, and would swallow the
 * message of its own release. */
"if owner and not ours then call('ZREM', queue, owner) end\n"
/* Move a waiter that still asks after half a day back in the queue, so that nobody drops it as one that never came
 * back. */
"if call('ZADD', queue, 'NX', score(), id) == 0 and tonumber(call('ZSCORE', queue, id)) < time[1] - QUEUE_KEPT / 2 then\n"
"  call('ZADD', queue, score(), id)\n"
"end\n"
"local before = call('ZRANK', queue, id)\n"
/* Some of the contenders that join the queue tidy it up. There is no hurry with that, and a hand-over has no time to
 * lose. No waiter needs to ask before the lease that it was told of has ended. */
"if before == 0 or time[2] % 16 == 0 then\n"
"  local kept = QUEUE_KEPT + math.ceil(math.max(left, total) / 1000)\n"
"  call('ZREMRANGEBYSCORE', queue, '-inf', num(time[1] - kept))\n"
"  call('EXPIRE', queue, num(kept))\n"
"end\n"
"told[8] = stands_by(id) and 1 or before + 1\n"
"return told\n";

static const char renew[] =
"return not_held(sub(head, 1, -22))\n";

/* A contender that leaves without having been in the queue has just been invited: its invitation goes on to the next. */
static const char release[] =
"local nonce, token = sub(head, -20), sub(head, 1, -22)\n"
"local was_queued = call('ZREM', queue, id) == 1\n"
"local stood_by = stand_down(id)\n"
"if mine(id, nonce, token) then\n"
"  vacate()\n"
"  return 1\n"
"end\n"
"if not owner and (next == id or not (was_queued or reserved)) then\n"
"  wake(id)\n"
"elseif stood_by then\n"
"  save()\n"
"end\n"
"return not_held(token)\n";

/* A release may have taken a waiter for dead whose channel was not subscribed yet. */
static const char rejoin[] =
"if owner ~= args[1] then\n"
"  call('ZADD', queue, 'NX', score(), args[1])\n"
"  call('EXPIRE', queue, num(math.max(QUEUE_KEPT + math.ceil(left / 1000), call('TTL', queue))))\n"
"end\n"
"return answer(0)\n";

static const char read_owner[] =
"local told = answer(0)\n"
"told[8] = call('ZCARD', queue)\n"
"return told\n";

static const char force_release[] =
"if not owner then return answer(0) end\n"
"if ours then\n"
"  g.revoked = format('%016d', g.token)\n"
"  call('PUBLISH', 'simba:@@revoked', 'revoked' .. db .. ' ' .. string.gsub(g.nonce, '^0+', '') .. ' '\n"
"    .. sub(lock, 8, -2))\n"
"end\n"
"vacate()\n"
"return answer(1)\n";
/* The invited contender has left the queue; it comes next. */
static const char list_row[] =
"local told = answer(0)\n"
"told[8], told[9] = call('ZCARD', queue) + (reserved and 1 or 0), call('GET', keys[#keys]) or ''\n"
"told[10] = shown(reserved and next or call('ZRANGE', queue, 0, 0)[1] or '')\n"
"return told\n";

/* A write that the client gave up may arrive after the next write of the same grant, and must not undo it. */
static const char write_note[] =
"local id, nonce, token, number, bytes = unpack(args)\n"
"if token == '0' or not mine(id, nonce, token) then return not_held(token) end\n"
"local note = keys[#keys]\n"
"local had = call('GET', note)\n"
"if had and sub(had, 1, 37) > token .. ' ' .. number then return answer(0) end\n"
"local text = format('%s %s %015d ', token, number, now) .. bytes\n"
"if bytes == '' then call('SET', note, text, 'PX', num(GRANT_KEPT)) else call('SET', note, text) end\n"
"call(TELL, lock .. '@@@@', 'noted' .. db)\n"
"return answer(1)\n";

static const char read_note[] =
"local time = call('TIME')\n"
"return {time[1] * 1000 + math.floor(time[2] / 1000), call('GET', keys[#keys]) or ''}\n";

/* The waiters stay in the queue: they would sleep as long as the lease that they were told of. */
static const char forget[] =
"local note, fence = keys[#keys], CLUSTER and lock .. ':fence' or keys[4]\n"
"local noted = call('GET', note)\n"
"if owner or not (grant or noted or call('EXISTS', fence) == 1) then return answer(0) end\n"
"if g.token >= us then\n"
"  return redis.error_reply('ERR the clock of the server is behind the token of this mutex, so that later tokens would be'\n"
"    .. ' smaller if ' .. key .. ' were removed')\n"
"end\n"
"for _, name in ipairs({key, note, fence}) do call('DEL', name) end\n"
"if noted and #noted > 54 then call(TELL, lock .. '@@@@', 'noted' .. db) end\n"
"return answer(1)\n";
/* clang-format on */

/* The parts of each script, in their order. */
enum { PARTS_MOST = 10 };
static const char *const parts[REDIS_SCRIPTS][PARTS_MOST] = {
    [REDIS_ACQUIRE] = {first_of_all, look, take, wait_for_it, times, common, scoring, holding, acquire},
    [REDIS_RENEW] = {first_of_all, times, prolong, common, not_holding, renew},
    [REDIS_RELEASE] = {first_of_all, times, read_both, give_back, common, not_holding, waking, release},
    [REDIS_READ] = {first_of_all, times, read_both, common, read_owner},
    [REDIS_FORCE_RELEASE] = {first_of_all, times, read_both, common, waking, force_release},
    [REDIS_REJOIN] = {first_of_all, times, read_both, common, scoring, rejoin},
    [REDIS_LIST_ROW] = {first_of_all, times, read_both, common, list_row},
    [REDIS_WRITE_NOTE] = {first_of_all, times, read_both, common, not_holding, write_note},
    [REDIS_READ_NOTE] = {first_of_all, read_note},
    [REDIS_FORGET] = {first_of_all, times, read_both, common, forget},
};

static void name_key(char key[REDIS_KEY_SIZE], const char *mutex, const char *suffix)
{
    const size_t length = strnlen(mutex, SIMBA_MUTEX_BYTES);
    char *end = stpcpy(key, "simba:{");
    memcpy(end, mutex, length);
    strcpy(stpcpy(end + length, "}"), suffix);
}

size_t simba__redis_script_keys(redis_script script, bool cluster, const char *mutex,
                                char ret_keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE])
{
    static const char *const suffixes[] = {"", ":grant", ":contender", ":fence"};
    const size_t all = cluster ? 3 : 4;
    const size_t count = script == REDIS_RENEW ? 2 : all;
    for (size_t i = 0; i < count; i++)
        name_key(ret_keys[i], mutex, suffixes[i]);
    if (script < REDIS_LIST_ROW)
        return count;
    name_key(ret_keys[count], mutex, ":note");
    return count + 1;
}

char *simba__redis_script_text(redis_script script, const redis_options *options)
{
    char db[24] = "";
    if (options->login.db != 0)
        snprintf(db, sizeof db, "/%ld", options->login.db);
    /* How far apart the move of a slot may bring the ends of two keys, in ms. */
    const int ends_differ = options->kind == REDIS_CLUSTER ? 5 : 0;
    char first[96];
    const int length = snprintf(first, sizeof first, "local db, CLUSTER, ENDS_DIFFER = '%s', %s, %d\n", db,
                                ends_differ > 0 ? "true" : "false", ends_differ);
    assert(length > 0 && (size_t)length < sizeof first);
    size_t size = (size_t)length + 1;
    for (size_t i = 0; i < PARTS_MOST && parts[script][i]; i++)
        size += strlen(parts[script][i]);
    char *text = simba__malloc(size);
    if (text) {
        strcpy(text, first);
        for (size_t i = 0; i < PARTS_MOST && parts[script][i]; i++)
            strcat(text, parts[script][i]);
    }
    return text;
}

enum { NONCE_DIGITS = 20, TOKEN_DIGITS = 16 };

uint64_t simba__redis_nonce_read(const char *text, const char **ret_end)
{
    char digits[NONCE_DIGITS + 1] = "";
    size_t length = 0;
    while (length < NONCE_DIGITS && text[length] >= '0' && text[length] <= '9') {
        digits[length] = text[length];
        length++;
    }
    *ret_end = text + length;
    return strtoull(digits, NULL, 10);
}

redis_numbers simba__redis_numbers_of(const simba_request *request)
{
    redis_numbers numbers;
    simba__digits(numbers.nonce, request->nonce, NONCE_DIGITS);
    simba__digits(numbers.token, request->token, request->token ? TOKEN_DIGITS : 1);
    strcpy(stpcpy(stpcpy(numbers.head, numbers.token), " "), numbers.nonce);
    simba__digits(numbers.total, (uint64_t)(request->ttl_ms + request->transition_ms), 1);
    simba__digits(numbers.transition, (uint64_t)request->transition_ms, 1);
    return numbers;
}
