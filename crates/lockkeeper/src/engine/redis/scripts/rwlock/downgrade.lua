-- rwlock/downgrade: makes the writer a reader, and wakes everybody: other readers may come in now (Redisson's layout).
--
-- KEYS[1]  the lock: a hash of its mode and of each holder's number of holds
-- KEYS[2]  the reader's hold: a key that ends with it
-- KEYS[3]  the signal channel
-- KEYS[4]  the mark of readers who have waited for long
--
-- ARGV[1]  owner: the reader that is to be
-- ARGV[2]  lease in milliseconds: the hold lasts so long, or as long as the write hold would have
-- ARGV[3]  the writer
-- ARGV[4]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[5]  response limit in microseconds: no honest use-by is further ahead than twice that
--
-- Reply    {0, server time}          granted; the same again gets the same
--          {2, server time}          too late, or the use-by is too far ahead
--          {3, server time, kind}    the key is something else
--          {4, server time}          the writer is not there
--
-- Cost     12 commands, O(1) and O(subscribers).
local lease = ARGV[2] + 0
if lease < 1 then
  return redis.error_reply('ERR bad arguments')
end
if is_late(ARGV[4], ARGV[5]) then
  return {2, now}
end
local mode, kind = mode_of(KEYS[1])
if kind then
  return {3, now, kind}
end
if mode == 'write' and call('HEXISTS', KEYS[1], ARGV[3]) == 1 then
  -- What comes behind a removal is not refused when the server is out of memory.
  call('HDEL', KEYS[1], ARGV[3])
  call('HSET', KEYS[1], 'mode', 'read', ARGV[1], '1')
  local life = math.max(lease, call('PTTL', KEYS[1]))
  live_for(KEYS[1], lease)
  call('SET', KEYS[2], '1', 'PX', life)
  cut_mark(KEYS[4])
  pcall('PUBLISH', KEYS[3], '1')
  return {0, now}
end
if mode == 'read' and call('HEXISTS', KEYS[1], ARGV[1]) == 1 and call('PTTL', KEYS[2]) > 0 then
  live_for(KEYS[1], lease)
  live_for(KEYS[2], lease)
  return {0, now}
end
return {4, now}
