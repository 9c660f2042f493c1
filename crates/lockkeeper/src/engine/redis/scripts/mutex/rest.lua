-- mutex/rest: ends a hold whose name stays taken, by nobody, until its rest is over (Redisson's layout). It sends no message
-- unless the rest is over already.
--
-- KEYS[1]  the lock
-- KEYS[2]  the signal channel
--
-- ARGV[1]  owner
-- ARGV[2]  the field in the place of the owner while the name rests
-- ARGV[3]  until when it rests, in milliseconds of the server's time
-- ARGV[4]  how many milliseconds it rests at most
--
-- Reply    {0, server time, 0, milliseconds left}    it rests; a repeat gets the same answer
--          {0, server time, subscribers told}        its rest is over: freed
--          {1, server time}                          this owner does not hold it
--          {3, server time, kind}                    the key is something else
--
-- Cost     5 commands when it rests, 4 when freed, each O(1). The first write is refused when the server is out of memory:
--          the hold then stays as it was.
local rest = math.min(ARGV[3] - math.floor(now / 1000), ARGV[4] + 0)
local seen = pcall('HMGET', KEYS[1], 'mode', ARGV[1], ARGV[2])
if seen.err then
  if not string.find(seen.err, 'WRONGTYPE', 1, true) then
    return seen
  end
  return {3, now, kind_of(KEYS[1])}
end
if seen[1] then
  return {3, now, kind_of(KEYS[1])}
end
if seen[3] then
  return {0, now, 0, call('PTTL', KEYS[1])}
end
if not seen[2] then
  return {1, now}
end
if rest < 1 then
  call('HDEL', KEYS[1], ARGV[1])
  -- A user who may not publish still frees: the others find out by their timers.
  local told = pcall('PUBLISH', KEYS[2], '0')
  return {0, now, type(told) == 'number' and told or 0}
end
call('HSET', KEYS[1], ARGV[2], '1')
call('HDEL', KEYS[1], ARGV[1])
call('PEXPIRE', KEYS[1], string.format('%.0f', rest))
return {0, now, 0, rest}
