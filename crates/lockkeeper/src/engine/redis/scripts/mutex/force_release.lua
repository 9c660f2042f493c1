-- mutex/force_release: frees the mutex whoever holds it, and signals (Redisson's layout).
--
-- KEYS[1]  the lock
-- KEYS[2]  the signal channel
--
-- Reply    {0, server time, subscribers told}    freed
--          {1, server time}                      there was nothing to free
--          {3, server time, kind}                the key is something else
--
-- Cost     5 commands, O(1) and O(subscribers). The token record stays, so tokens go on rising.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return {1, now}
end
if kind ~= 'hash' then
  return {3, now, kind}
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode then
  return {3, now, mode == 'election' and mode or 'read-write lock'}
end
redis.call('DEL', KEYS[1])
local told = redis.pcall('PUBLISH', KEYS[2], '0')
return {0, now, type(told) == 'number' and told or 0}
