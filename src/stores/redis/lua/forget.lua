-- Remove a mutex that nobody owns. Its waiters stay; later tokens come from the clock.
-- KEYS: lock, grant, note
-- ARGV: tell; db
-- answer(1): removed; answer(0): somebody owns it, or there is none
-- include grant
if owner or call('EXISTS', grant, KEYS[3]) == 0 then return answer(0) end
if token >= us then
  return redis.error_reply('ERR the clock of the server is behind the token of this mutex, so that later tokens would be'
    .. ' smaller if ' .. grant .. ' were removed')
end
call('DEL', grant, KEYS[3])
call(ARGV[1], lock .. '@@', 'noted' .. ARGV[2])
return answer(1)
