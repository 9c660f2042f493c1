-- plain/renew: lengthens holds in one batch (plain layout). It never takes a lock again.
--
-- KEYS[1..n]      the locks
-- KEYS[n+1..n+m]  the token records of the first m locks, whose life is refreshed too
--
-- ARGV[1]         use-by: the server time in microseconds after which this copy does nothing
-- ARGV[2]         response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[3]         lease in milliseconds: the life wanted from now on; a longer one is kept
-- ARGV[4]         the longest lease that these holds ever asked for: a longer life is cut to it
-- ARGV[5]         life of the token records in milliseconds; a longer one is kept
-- ARGV[6..n+5]    the owners
--
-- Reply           {0, server time, i, j, ..}    all are held but those with these numbers
--                 {2, server time}              too late, or the use-by is too far ahead
--
-- Cost            1 command for all locks and 1 each (2 where the longest lease is not the present one), and 2 a
--                 refreshed record, each O(1). Only PEXPIRE and PEXPIREAT write, so it works when the server is out of
--                 memory.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
-- Arithmetic turns texts into numbers, and raises an error where there is none.
local use_by, limit, lease, longest, life = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
if lease < 1 or longest < lease or life < 1 then
  return redis.error_reply('ERR bad arguments')
end
if now > use_by or use_by > now + 2 * limit then
  return {2, now}
end

local reply = {0, now}
-- An end told as a moment costs the server less than one told as a span, and one text does for all.
local due = string.format('%.0f', math.floor(now / 1000) + lease)
local count = #ARGV - 5
local records = #KEYS - count
-- A key of another kind shows as none.
local holders = call('MGET', unpack(KEYS, 1, count))
for i = 1, count do
  if holders[i] == ARGV[i + 5] then
    local key = KEYS[i]
    if lease == longest then
      -- No honest life is longer than the one that begins now.
      call('PEXPIREAT', key, due)
    else
      local left = call('PTTL', key)
      if left < lease then
        call('PEXPIREAT', key, due)
      elseif left > longest then
        call('PEXPIRE', key, ARGV[4])
      end
    end
    if i <= records and call('PTTL', KEYS[count + i]) < life then
      call('PEXPIRE', KEYS[count + i], ARGV[5])
    end
  else
    reply[#reply + 1] = i
  end
end
return reply
