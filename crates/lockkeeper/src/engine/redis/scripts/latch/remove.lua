-- latch/remove: removes a latch whatever its count; those who wait for it are told that it is not open.
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
--
-- Reply    {0, server time, answer}    1 if there was one, else 0; the same mark again gets the same answer
--          {2, server time}            too late, or the use-by is too far ahead
--          {3, server time, kind}      the key is something else
--
-- Cost     6 commands, 8 when there was one, O(1) and O(subscribers).
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
local removed = call('DEL', KEYS[1])
if removed == 1 then
  call('SET', KEYS[4], string.format('removed %.0f', now), 'PX', ARGV[4])
end
call('SET', KEYS[3], removed, 'PX', ARGV[3])
if removed == 1 then
  pcall('PUBLISH', KEYS[2], '1')
end
return {0, now, removed}
