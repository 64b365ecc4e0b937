-- The owner, the queue and the note; also a row of a list.
-- KEYS: lock, grant, queue, note
-- ARGV: -
-- {answer(0), how many wait, the first of them or '', the note's token, time and bytes}
-- include grant
local note = call('HMGET', KEYS[4], 'token', 'at', 'bytes')
local waiting, first = call('ZCARD', KEYS[3]), call('ZRANGE', KEYS[3], 0, 0)[1]
if not owner and g.next and tonumber(g.next_until) > now then waiting, first = waiting + 1, g.next end -- invited
return {answer(0), waiting, first or '', note[1] or '0', note[2] or '0', note[3] or ''}
