-- Take a mutex, or enter its queue.
-- KEYS: lock, grant, queue (simba:{M}:contender)
-- ARGV: id; nonce; lease (ttl + transition, in ms); lease + KEPT; transition; hears (1: of its invitation, so it may queue; 2: no
-- more, but it may be in the queue; 0); young (until when, in ms, the server may have forgotten leases; 0); tell (PUBLISH or SPUBLISH)
-- answer(1): granted; answer(0, place): somebody else has it, or is invited (place 0: not in the queue); answer(3): too young
-- include grant
local id, nonce, lease, kept, transition, hears, young, tell = unpack(ARGV)
local queue, again = KEYS[3], mine(id, nonce, '0') -- again: the answer to an earlier request was lost
local reserved = not owner and g.next and g.next ~= id and g.next_until - now
if again or not (owner or reserved and reserved > 0) then
  if young ~= '0' and now < tonumber(young) and not again then return answer(3) end
  if not again then token = math.max(token + 1, us) end
  call('SET', lock, id, 'PX', lease)
  call('HSET', grant, 'token', string.format('%d', token), 'nonce', nonce, 'id', id, 'transition', transition)
  call('PEXPIRE', grant, kept)
  if g.next then call('HDEL', grant, 'next') end
  if hears ~= '0' then call('ZREM', queue, id) end
  if tell == 'SPUBLISH' then call(tell, lock, 'acquired@@' .. id) end -- our observers; JVM contenders hear PUBLISH alone
  if tell == 'PUBLISH' or call('EXISTS', queue) == 1 then call('PUBLISH', lock, 'acquired@@' .. id) end
  owner, ours, left, g.transition = id, true, lease, transition
  return answer(1)
end
if reserved then owner, left = g.next, reserved end -- shown as the owner until then, so that the client asks again then
if hears ~= '1' then return answer(0, 0) end
if not ours and not reserved then call('ZREM', queue, owner) end -- a JVM owner that won by its timer still stands in the queue
call('ZADD', queue, 'NX', us / 1000000 - 0.5, id) -- JVM scores are whole seconds: half a second too early on average
call('EXPIRE', queue, 86400 + math.ceil(math.max(left, lease) / 1000))
return answer(0, call('ZRANK', queue, id) + 1)
