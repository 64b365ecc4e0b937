-- Write the note.
-- KEYS: lock, grant, note
-- ARGV: id; nonce; token; number of the write; bytes; KEPT; tell; db
-- answer(1): written; answer(2): forced away; answer(0): no longer mine, or a later write came before
-- include grant
local id, nonce, number, write, bytes, kept, tell, db = unpack(ARGV)
if number == '0' or not mine(id, nonce, number) then return answer(g.revoked == number and 2 or 0) end
local note, had = KEYS[3], call('HMGET', KEYS[3], 'token', 'number')
local before = tonumber(had[1] or 0)
if before > token or before == token and tonumber(had[2]) > tonumber(write) then return answer(0) end
call('HSET', note, 'token', number, 'number', write, 'at', now, 'bytes', bytes)
if bytes == '' then call('PEXPIRE', note, kept) else call('PERSIST', note) end -- no bytes: it only says which writes come late
call(tell, lock .. '@@', 'noted' .. db)
return answer(1)
