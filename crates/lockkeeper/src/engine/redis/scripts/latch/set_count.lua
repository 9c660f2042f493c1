-- latch/set_count: sets the count of a latch that has none, and tells waiters that it is closed.
--
-- KEYS[1]  the latch: a number, there only while it is above zero
-- KEYS[2]  the signal channel
-- KEYS[3]  where the answer is kept for a repeat
--
-- ARGV[1]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[2]  response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[3]  how long the answer is kept, in milliseconds
-- ARGV[4]  the count
--
-- Reply    {0, server time, answer}    1 if it was set, else 0; the same mark again gets the same answer
--          {2, server time}            too late, or the use-by is too far ahead
--          {3, server time, kind}      the key is something else
--
-- Cost     7 commands when set, O(1) and O(subscribers).
local wanted = ARGV[4] + 0
if wanted < 0 then
  return redis.error_reply('ERR bad arguments')
end
if is_late(ARGV[1], ARGV[2]) then
  return {2, now}
end
local known = call('GET', KEYS[3])
if known then
  return {0, now, tonumber(known)}
end
local kind = kind_of(KEYS[1])
local count = 0
if kind ~= 'none' then
  local text = kind == 'string' and call('GET', KEYS[1]) or ''
  if not string.find(text, '^[1-9]%d*$') then
    return {3, now, kind}
  end
  count = tonumber(text)
end
local set = 0
if count == 0 and wanted > 0 then
  call('SET', KEYS[1], ARGV[4])
  set = 1
end
call('SET', KEYS[3], set, 'PX', ARGV[3])
if set == 1 then
  pcall('PUBLISH', KEYS[2], '1')
end
return {0, now, set}
