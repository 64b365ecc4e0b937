-- What is known of a mutex. Included first by all scripts.
-- KEYS: simba:{M} (the lock: the owner's id, shared with Simba on the JVM), simba:{M}:grant (our latest grant, a hash), and more
-- ARGV: of each script
-- A grant is ours if the lock names its id, and the grant's key ends KEPT after the lock. A JVM contender that takes or renews the
-- lock under the same id moves the end of the lock alone, to a later time. A server that pauses between two commands only widens
-- the gap, since every script sets the lock first and reads it last. No two readings of a clock are compared.
local call, lock, grant, RESERVED, KEPT = redis.call, KEYS[1], KEYS[2], 100, 2764800000 -- ms
local time, owner, fields, g = call('TIME'), call('GET', lock), call('HGETALL', grant), {}
for i = 1, #fields, 2 do g[fields[i]] = fields[i + 1] end
local us = time[1] * 1000000 + time[2]
local now, token, ours, left = math.floor(us / 1000), tonumber(g.token or 0), false, 0
if not token or token % 1 ~= 0 or token < 0 or token >= 2^53 - 1 then
  return redis.error_reply('BADGRANT no token below 2^53 in ' .. grant .. ': delete that key while nobody holds the mutex')
end
if owner then
  local kept = owner == g.id and call('PTTL', grant) or 0
  left = call('PTTL', lock)
  ours = kept - left - KEPT >= -5 and kept - left - KEPT <= 1000
  if left < 0 or left > 3153600000000 then left = 3600000 end -- no end, or none for a hundred years: ask again in an hour
end

local function mine(id, nonce, number)
  return ours and owner == id and g.nonce == nonce and (number == '0' or number == g.token)
end

-- {outcome, now}: nobody has it; else {outcome, now, owner, token, end, transition, place}. outcome: 0 not, 1 as asked, 2 forced
-- away, 3 too young to grant. A JVM contender's grant has the token 0.
local function answer(outcome, place)
  if not owner then return {outcome, now} end
  if not ours then return {outcome, now, string.sub(owner, 1, 256), 0, now + left, '0', place} end
  return {outcome, now, owner, token, now + left, g.transition, place}
end
