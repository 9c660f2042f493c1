-- permits/acquire: takes leased permits, all of them or none, or tells how long the first that is held has left.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  the ids of those that are held, with their ends in milliseconds
-- KEYS[3]  the signal channel
--
-- ARGV[1]  the ids wanted: 32 hex digits each
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[4]  response limit in microseconds: no honest use-by is further ahead than twice that
--
-- Reply    {0, server time}                  granted; the same ids asked for again are granted again
--          {1, server time, milliseconds}    too few are available; the first end of one that is held, or -1 if none ends
--          {2, server time}                  too late, or the use-by is too far ahead
--          {3, server time, kind}            the key is something else
--
-- Cost     7 commands and 2 an id when granted, 7 and 1 an id when busy, 3 more if some have ended; each O(log(held)), but
--          for those that have ended.
local lease, ids = ARGV[2] + 0, ids_in(ARGV[1])
if lease < 1 or not ids then
  return redis.error_reply('ERR bad arguments')
end
if is_late(ARGV[3], ARGV[4]) then
  return {2, now}
end
local available, other = available_at(KEYS[1], KEYS[2], 'permits')
if other then
  return {3, now, other}
end
if not available then
  return {1, now, -1}
end
available = reclaim(KEYS[1], KEYS[2], KEYS[3], available)
local missing = 0
for _, id in ipairs(ids) do
  if not call('ZSCORE', KEYS[2], id) then
    missing = missing + 1
  end
end
if missing > 0 and available < missing then
  local first = call('ZRANGEBYSCORE', KEYS[2], string.format('(%.0f', ms), '(922337203685477', 'WITHSCORES', 'LIMIT', 0, 1)
  return {1, now, first[2] and first[2] - ms or -1}
end
if missing > 0 then
  call('DECRBY', KEYS[1], missing)
end
for _, id in ipairs(ids) do
  call('ZADD', KEYS[2], 'GT', ms + lease, id)
end
-- Both keys end together.
local left = call('PTTL', KEYS[1])
if left >= 0 then
  call('PEXPIRE', KEYS[2], left)
else
  call('PERSIST', KEYS[2])
end
return {0, now}
