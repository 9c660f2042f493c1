-- fenced/acquire: takes the fenced mutex for an owner, or tells how long the present hold has left. Its tokens are on
-- Redisson's own key, which never expires.
--
-- KEYS[1]  the lock: a hash of one field, the owner, whose value is 1
-- KEYS[2]  the token record of a plain mutex of this name: a floor, never changed here
-- KEYS[3]  Redisson's token, an integer without expiry
--
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[4]  response limit in microseconds: no honest use-by is further ahead than twice that
--
-- Reply    {0, server time, token, 1}    granted; the same owner asking again gets the same token
--          {1, server time, PTTL}        held by somebody else
--          {2, server time}              too late, or the use-by is too far ahead
--          {3, server time, kind}        the key is something else
--          TOKENEXHAUSTED                no token is left, or a token's key holds none
--
-- Cost     7 commands when granted, 4 when busy, each O(1). Nothing is written before everything is checked.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local lease, use_by, limit = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
if lease < 1 then
  return redis.error_reply('ERR bad arguments')
end
if now > use_by or use_by > now + 2 * limit then
  return {2, now}
end

local kind = call('TYPE', KEYS[1]).ok
local ours = false
if kind ~= 'none' then
  if kind ~= 'hash' then
    return {3, now, kind}
  end
  local seen = call('HMGET', KEYS[1], 'mode', ARGV[1])
  if seen[1] then
    return {3, now, seen[1] == 'election' and seen[1] or 'read-write lock'}
  end
  if not seen[2] then
    return {1, now, call('PTTL', KEYS[1])}
  end
  ours = true
end

local exhausted = 'TOKENEXHAUSTED the tokens of this name have reached 2^53, or their key holds no token'
local function number(key, pattern)
  local text = redis.pcall('GET', key)
  if not text then
    return 0
  end
  if type(text) ~= 'string' then
    return nil, string.find(text.err, 'WRONGTYPE', 1, true) and redis.error_reply(exhausted) or text
  end
  local found = string.match(text, pattern)
  if not found then
    return nil, redis.error_reply(exhausted)
  end
  return tonumber(found)
end
local last, trouble = number(KEYS[3], '^(%d+)$')
if trouble then
  return trouble
end
if ours and last > 0 and last < 9007199254740992 then
  -- Nobody was granted another token while this owner holds it.
  if call('PTTL', KEYS[1]) < lease then
    call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return {0, now, last, 1}
end
local floor
floor, trouble = number(KEYS[2], '^(%d+) %d+ %d+ ')
if trouble then
  return trouble
end
local token = math.max(last + 1, floor + 1, now)
if token >= 9007199254740992 then
  return redis.error_reply(exhausted)
end
call('SET', KEYS[3], string.format('%.0f', token))
if ours then
  if call('PTTL', KEYS[1]) < lease then
    call('PEXPIRE', KEYS[1], ARGV[2])
  end
else
  call('HSET', KEYS[1], ARGV[1], '1')
  call('PEXPIRE', KEYS[1], ARGV[2])
end
return {0, now, token, 1}
