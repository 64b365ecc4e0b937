-- Extend a live grant.
-- KEYS: lock, grant
-- ARGV: id; nonce; token; lease; lease + KEPT
-- answer(1): extended; answer(2): forced away; answer(0): no longer mine
-- include grant
local id, nonce, number, lease, kept = unpack(ARGV)
if number == '0' or not mine(id, nonce, number) then return answer(g.revoked == number and 2 or 0) end
call('PEXPIRE', lock, lease)
call('PEXPIRE', grant, kept)
left = lease
return answer(1)
