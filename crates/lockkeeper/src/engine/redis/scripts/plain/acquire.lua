-- plain/acquire: takes the mutex for an owner, or tells how long the present hold has left (plain layout).
--
-- KEYS[1]  the lock: a string, the owner
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token, an integer without expiry: a floor, raised where it exists, never made
--
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  life of the token record in milliseconds
-- ARGV[4]  how many tokens to set aside
-- ARGV[5]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[6]  response limit in microseconds: no honest use-by is further ahead than twice that
--
-- Reply    {0, server time, first token, tokens}     granted; the same owner asking again gets the same tokens
--          {1, server time, PTTL}                    held by somebody else
--          {2, server time}                          too late, or the use-by is too far ahead
--          {3, server time, kind}                    the key is something else
--          TOKENEXHAUSTED                            no token is left, or a token's key holds none
--
-- Cost     6 commands when granted (7 where KEYS[3] exists), 3 when busy, each O(1).
--          Nothing is written before everything is checked, and the first write is one that is refused when the
--          server is out of memory.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
-- Arithmetic turns texts into numbers, and raises an error where there is none.
local lease, life, size, use_by, limit = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
if lease < 1 or life < 1 or size < 1 then
  return redis.error_reply('ERR bad arguments')
end
if now > use_by or use_by > now + 2 * limit then
  return {2, now}
end

local owner = ARGV[1]
local holder_now = redis.pcall('GET', KEYS[1])
local ours = holder_now == owner
if holder_now and not ours then
  if type(holder_now) == 'string' then
    return {1, now, call('PTTL', KEYS[1])}
  end
  if not string.find(holder_now.err, 'WRONGTYPE', 1, true) then
    return holder_now
  end
  local kind = call('TYPE', KEYS[1]).ok
  if kind == 'hash' and call('HEXISTS', KEYS[1], 'mode') == 1 then
    kind = 'read-write lock'
  end
  return {3, now, kind}
end

local exhausted = 'TOKENEXHAUSTED the tokens of this name have reached 2^53, or their key holds no token'
local last = 0
local record = redis.pcall('GET', KEYS[2])
if record then
  if type(record) ~= 'string' and not string.find(record.err, 'WRONGTYPE', 1, true) then
    return record
  end
  local known, first, count, holder
  if type(record) == 'string' then
    known, first, count, holder = string.match(record, '^(%d+) (%d+) (%d+) (.*)$')
  end
  if not known then
    return redis.error_reply(exhausted)
  end
  if ours and holder == owner then
    if call('PTTL', KEYS[1]) < lease then
      call('PEXPIRE', KEYS[1], ARGV[2])
    end
    if call('PTTL', KEYS[2]) < life then
      call('PEXPIRE', KEYS[2], ARGV[3])
    end
    return {0, now, tonumber(first), tonumber(count)}
  end
  last = tonumber(known)
end
local peer = redis.pcall('GET', KEYS[3])
if peer then
  if type(peer) ~= 'string' and not string.find(peer.err, 'WRONGTYPE', 1, true) then
    return peer
  end
  if type(peer) ~= 'string' or not string.find(peer, '^%d+$') then
    return redis.error_reply(exhausted)
  end
  last = math.max(last, tonumber(peer))
end
local first = math.max(last + 1, now)
-- Grouped so that every number on the way is exact.
last = first + (size - 1)
if last >= 9007199254740992 then
  return redis.error_reply(exhausted)
end

local last_text = string.format('%.0f', last)
local first_text = size == 1 and last_text or string.format('%.0f', first)
call('SET', KEYS[2], last_text .. ' ' .. first_text .. ' ' .. ARGV[4] .. ' ' .. owner, 'PX', ARGV[3])
if peer then
  call('SET', KEYS[3], last_text, 'KEEPTTL')
end
if not ours then
  call('SET', KEYS[1], owner, 'PX', ARGV[2])
elseif call('PTTL', KEYS[1]) < lease then
  call('PEXPIRE', KEYS[1], ARGV[2])
end
return {0, now, first, size}
