-- spin/release: frees the spin mutex if this owner holds it. It sends no message: who waits asks again.
--
-- KEYS[1]  the lock
--
-- ARGV[1]  owner
--
-- Reply    {0, server time, 0}       freed
--          {1, server time}          this owner does not hold it
--          {3, server time, kind}    the key is something else
--
-- Cost     2 commands when freed, O(1). Works when the server is out of memory.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local removed = redis.pcall('HDEL', KEYS[1], ARGV[1])
if removed == 1 then
  return {0, now, 0}
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
