-- End a grant, whoever has it.
-- KEYS: lock, grant, queue
-- ARGV: tell; db
-- answer(1): ended; answer(0): nobody had it
-- include grant
-- include invite
if not owner then return answer(0) end
call('DEL', lock)
if ours then
  call('HSET', grant, 'revoked', g.token)
  call('PUBLISH', 'simba:@@revoked', 'revoked' .. db .. ' ' .. g.nonce .. ' ' .. string.sub(lock, 8, -2))
end
invite(owner)
return {1, now}
