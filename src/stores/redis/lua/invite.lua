-- The first waiter that hears of it may take the mutex for RESERVED ms. Included by release and force.
-- KEYS: lock, grant, queue
-- ARGV: …; tell (PUBLISH or SPUBLISH); db ('' or '/N', behind our words: all databases share their channels)
local queue, tell, db = KEYS[3], ARGV[#ARGV - 1], ARGV[#ARGV]
local function reaches(channel, text)
  return tell == 'SPUBLISH' and call(tell, channel, text) > 0 or call('PUBLISH', channel, text) > 0
end

local function invite(from)
  local next
  for _ = 1, 1000 do
    next = call('ZPOPMIN', queue)[1]
    if not next or reaches(lock .. ':' .. next, 'released@@' .. from) then break end
  end
  call('HSET', grant, 'nonce', '')
  if #fields == 0 then call('PEXPIRE', grant, KEPT) end -- a JVM contender's, forced away
  call(tell, lock .. '@@', 'released' .. db)
  if not next then return g.next and call('HDEL', grant, 'next') end
  call('HSET', grant, 'next', next, 'next_until', now + RESERVED)
  -- One of ours is told for all hand-overs of that time: the last, which will wait the longest.
  if tonumber(g.standby_until or 0) > now then return end
  local last = call('ZREVRANGE', queue, 0, 3, 'WITHSCORES')
  for i = 1, #last, 2 do
    local told = last[i + 1] % 1 ~= 0 and reaches(lock .. ':' .. last[i], 'standby@@' .. next)
    if told then return call('HSET', grant, 'standby_until', now + RESERVED) end
  end
end
