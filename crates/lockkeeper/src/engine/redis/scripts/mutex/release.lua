-- mutex/release: frees the mutex if this owner holds it, and signals (Redisson's layout).
--
-- KEYS[1]  the lock
-- KEYS[2]  the signal channel
--
-- ARGV[1]  owner
--
-- Reply    {0, server time, subscribers told}    freed
--          {1, server time}                      this owner does not hold it
--          {3, server time, kind}                the key is something else
--
-- Cost     3 commands when freed, O(1) and O(subscribers). Works when the server is out of memory.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- One command checks the type, finds the owner and frees the lock: a hash ends with its last field.
local removed = redis.pcall('HDEL', KEYS[1], ARGV[1])
if removed == 1 then
  -- A user who may not publish still frees: the others find out by their timers.
  local told = redis.pcall('PUBLISH', KEYS[2], '0')
  return {0, now, type(told) == 'number' and told or 0}
end
if removed ~= 0 then
  if not string.find(removed.err, 'WRONGTYPE', 1, true) then
    return removed
  end
  return {3, now, redis.call('TYPE', KEYS[1]).ok}
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode then
  return {3, now, mode == 'election' and mode or 'read-write lock'}
end
return {1, now}
