-- plain/renew: lengthens holds in one batch (plain layout). It never takes a lock again.
--
-- KEYS[1..n]      the locks
-- KEYS[n+1..n+m]  the token records of the first m locks, whose life is refreshed too
--
-- ARGV[1]         use-by: the server time in microseconds after which this copy does nothing
-- ARGV[2]         response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[3]         1 if the server knows PEXPIRE .. GT (from 7.0), else 0
-- ARGV[4]         lease in milliseconds: the life wanted from now on; a longer one is kept
-- ARGV[5]         the longest lease that these holds ever asked for: a longer life is cut to it
-- ARGV[6]         life of the token records in milliseconds
-- ARGV[7..n+6]    the owners
--
-- Reply           {0, server time, i, j, ..}    all are held but those with these numbers
--                 {2, server time}              too late, or the use-by is too far ahead
--
-- Cost            2 commands a lock, one more for each refreshed record (from 7.0), each O(1).
--                 Only PEXPIRE writes, so it works when the server is out of memory.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local use_by, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local lease, longest, life = ARGV[4], ARGV[5], ARGV[6]
local lease_number, longest_number, life_number = tonumber(lease), tonumber(longest), tonumber(life)
if not (use_by and limit and lease_number and longest_number and life_number)
  or lease_number < 1 or longest_number < lease_number or life_number < 1 then
  return redis.error_reply('ERR bad arguments')
end
if now > use_by or use_by > now + 2 * limit then
  return {2, now}
end

local reply = {0, now}
local count = #ARGV - 6
local records = #KEYS - count
local conditional = ARGV[3] == '1'
for i = 1, count do
  local key = KEYS[i]
  local held = pcall('GET', key)
  if held == ARGV[i + 6] then
    if not conditional or call('PEXPIRE', key, lease, 'GT') == 0 then
      local left = call('PTTL', key)
      if left < lease_number then
        call('PEXPIRE', key, lease)
      elseif left > longest_number then
        call('PEXPIRE', key, longest)
      end
    end
    if i <= records then
      local record = KEYS[count + i]
      if conditional then
        call('PEXPIRE', record, life, 'GT')
      elseif call('PTTL', record) < life_number then
        call('PEXPIRE', record, life)
      end
    end
  else
    if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
      return held
    end
    reply[#reply + 1] = i
  end
end
return reply
