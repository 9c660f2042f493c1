-- semaphore/acquire: takes permits of the plain semaphore, all of them or none.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  what a semaphore with leased permits has beside it
-- KEYS[3]  how many this owner was given, or 0 once it gave them back
--
-- ARGV[1]  how many
-- ARGV[2]  how long that is remembered, in milliseconds
-- ARGV[3]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[4]  response limit in microseconds: no honest use-by is further ahead than twice that
--
-- Reply    {0, server time}          granted; the same owner asking again gets the same answer
--          {1, server time, -1}      too few are available
--          {2, server time}          too late, or the use-by is too far ahead
--          {3, server time, kind}    the key is something else
--
-- Cost     7 commands when granted, 5 when busy, each O(1).
local wanted = ARGV[1] + 0
if wanted < 1 then
  return redis.error_reply('ERR bad arguments')
end
if is_late(ARGV[3], ARGV[4]) then
  return {2, now}
end
local given = call('GET', KEYS[3])
if given then
  if given == '0' then
    return {1, now, -1}
  end
  return {0, now}
end
local available, other = available_at(KEYS[1], KEYS[2], 'semaphore')
if other then
  return {3, now, other}
end
if (available or 0) < wanted then
  return {1, now, -1}
end
call('DECRBY', KEYS[1], wanted)
call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
return {0, now}
