-- plain/release: frees the mutex if this owner holds it, and signals (plain layout).
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
-- Cost     4 commands when freed, O(1) and O(subscribers). Works when the server is out of memory.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local holder = redis.pcall('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  -- A user who may not publish still frees: the others find out by their timers.
  local told = redis.pcall('PUBLISH', KEYS[2], '0')
  return {0, now, type(told) == 'number' and told or 0}
end
if holder and type(holder) ~= 'string' then
  if not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder
  end
  local kind = redis.call('TYPE', KEYS[1]).ok
  local mode = kind == 'hash' and redis.call('HGET', KEYS[1], 'mode')
  if mode then
    kind = mode == 'election' and mode or 'read-write lock'
  end
  return {3, now, kind}
end
return {1, now}
