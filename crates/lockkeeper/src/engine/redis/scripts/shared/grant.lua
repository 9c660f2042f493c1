-- shared/grant: the part of every acquire that does not depend on the layout. It stands behind a script that declares
-- the keys and arguments, and that defines
--   look(owner, now)  tells whether the owner holds the lock, and what else is there: {milliseconds left}, {milliseconds left, nil,
--                milliseconds until it must look again}, {false, kind}, {gone = true} if the hold that is to be converted is not there,
--                or an error of the server's
--   take(owner, now)  writes the lock
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
local ours, other = look(owner, now)
if other then
  if other.err then
    return other
  end
  if other.gone then
    return {4, now}
  end
  if other[1] then
    return {1, now, other[1], other[3]}
  end
  return {3, now, other[2]}
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
  take(owner, now)
elseif call('PTTL', KEYS[1]) < lease then
  call('PEXPIRE', KEYS[1], ARGV[2])
end
return {0, now, first, size}
