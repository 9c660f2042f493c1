-- rwlock/renew_read: lengthens read holds in one batch (Redisson's layout), each by its own key alone, and the hashes as far as that
-- needs it. It never comes in again.
--
-- KEYS[1..n]      the locks
-- KEYS[n+1..2n]   the owners' holds: keys that end with them
--
-- ARGV[1]         use-by: the server time in microseconds after which this copy does nothing
-- ARGV[2]         response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[3]         lease in milliseconds: the life wanted from now on; a longer one is kept
-- ARGV[4]         the longest lease that these holds ever asked for: a longer life is cut to it
-- ARGV[5..n+4]    the owners
--
-- Reply           {0, server time, i, j, ..}    all are held but those with these numbers
--                 {2, server time}              too late, or the use-by is too far ahead
--
-- Cost            5 commands a hold, each O(1). Only PEXPIRE writes, so it works when the server is out of memory.
local lease, longest = ARGV[3] + 0, ARGV[4] + 0
if lease < 1 or longest < lease then
  return redis.error_reply('ERR bad arguments')
end
if is_late(ARGV[1], ARGV[2]) then
  return {2, now}
end

local reply = {0, now}
local count = #ARGV - 4
for i = 1, count do
  local key, key_hold = KEYS[i], KEYS[count + i]
  local seen = pcall('HMGET', key, 'mode', ARGV[i + 4])
  if seen.err and not string.find(seen.err, 'WRONGTYPE', 1, true) then
    return seen
  end
  -- A key that stays has no life to lengthen, but one to be given.
  local left = seen[1] == 'read' and seen[2] and call('PTTL', key_hold) or -2
  if left == -2 then
    reply[#reply + 1] = i
  else
    local life = math.min(math.max(left, lease), longest)
    if life ~= left then
      call('PEXPIRE', key_hold, life)
    end
    if call('PTTL', key) < life then
      call('PEXPIRE', key, life)
    end
  end
end
return reply
