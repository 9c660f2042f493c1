-- spin/force_release: frees the spin mutex whoever holds it. It sends no message: who waits asks again.
--
-- KEYS[1]  the lock
--
-- Reply    {0, server time, 0}       freed
--          {1, server time}          there was nothing to free
--          {3, server time, kind}    the key is something else
--
-- Cost     4 commands, O(1). The token record stays, so tokens go on rising.
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
return {0, now, 0}
