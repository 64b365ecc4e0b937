-- Bring the grant and the note of an earlier version, which were strings, into the form of this one.
-- KEYS: lock, grant, note
-- ARGV: KEPT
-- 1: done, or nothing to do; 0: somebody has the mutex
local call, grant, note = redis.call, KEYS[2], KEYS[3]
local function is_string(key) return call('TYPE', key).ok == 'string' end
local old_grant, old_note = is_string(grant) and call('GET', grant), is_string(note) and call('GET', note)
if not old_grant and not old_note then return 1 end
if call('EXISTS', KEYS[1]) == 1 then return 0 end
if old_grant then
  local token, revoked = string.match(old_grant, '^(%d+) %d+ %d+ (%d+) ')
  if not token then return redis.error_reply('BADGRANT nobody can read ' .. grant .. ': delete that key') end
  call('DEL', grant)
  call('HSET', grant, 'token', string.format('%d', tonumber(token)), 'nonce', '', 'revoked', string.format('%d', tonumber(revoked)))
  call('PEXPIRE', grant, ARGV[1])
end
if old_note then
  local token, number, at, bytes = string.match(old_note, '^(%d+) (%d+) (%d+) (.*)$')
  if not token then return redis.error_reply('BADGRANT nobody can read ' .. note .. ': delete that key') end
  call('DEL', note)
  call('HSET', note, 'token', string.format('%d', tonumber(token)), 'number', string.format('%d', tonumber(number)),
    'at', string.format('%d', tonumber(at)), 'bytes', bytes)
  if bytes == '' then call('PEXPIRE', note, ARGV[1]) end
end
return 1
