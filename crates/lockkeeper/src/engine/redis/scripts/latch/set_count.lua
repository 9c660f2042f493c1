-- latch/set_count: sets the count of a latch that has none, and tells waiters that it is closed.
--
-- KEYS[1]  the latch: a number, there only while it is above zero
-- KEYS[2]  the signal channel
-- KEYS[3]  where the answer is kept for a repeat
-- KEYS[4]  our own record: how it last ended, and when
--
-- ARGV[1]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[2]  response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[3]  how long the answer is kept, in milliseconds
-- ARGV[4]  how long the record is kept, in milliseconds
-- ARGV[5]  the count
--
-- Reply    {0, server time, answer}    1 if it was set, else 0; the same mark again gets the same answer
--          {2, server time}            too late, or the use-by is too far ahead
--          {3, server time, kind}      the key is something else
--
-- Cost     8 commands when set, O(1) and O(subscribers).
local wanted = ARGV[5] + 0
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
local count, other = count_at(KEYS[1])
if other then
  return {3, now, other}
end
local set = 0
if count == 0 and wanted > 0 then
  call('SET', KEYS[1], ARGV[5])
  -- Who waited for the last latch of this name may still have to learn how that ended.
  local record = pcall('GET', KEYS[4])
  call('SET', KEYS[4], type(record) == 'string' and record or 'none 0', 'PX', ARGV[4])
  set = 1
end
call('SET', KEYS[3], set, 'PX', ARGV[3])
if set == 1 then
  pcall('PUBLISH', KEYS[2], '1')
end
return {0, now, set}
