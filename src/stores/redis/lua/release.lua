-- Give a mutex back, or leave its queue.
-- KEYS: lock, grant, queue
-- ARGV: id; nonce; token ('0': any of this nonce); queued (1: it may be in the queue); tell; db
-- answer(1): given back; answer(2): it was forced away; answer(0): it was not mine
-- include grant
-- include invite
local id, nonce, number, queued = unpack(ARGV)
if queued == '1' then call('ZREM', queue, id) end
if mine(id, nonce, number) then
  call('DEL', lock)
  invite(id)
  return {1, now}
end
if not owner and g.next == id and tonumber(g.next_until) > now then invite(id) end -- was invited, and leaves
return answer(g.revoked == number and 2 or 0)
