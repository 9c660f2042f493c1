-- rwlock/acquire_read: comes in beside other readers, or tells how long the writer has left (Redisson's layout). While a writer
-- waits no new reader comes in, but one that has waited for long, once the lock is free.
--
-- KEYS[1]  the lock: a hash of its mode and of each holder's number of holds
-- KEYS[2]  this owner's hold: a key that ends with it
-- KEYS[3]  the notices of writers that wait: each with the moment at which it falls
-- KEYS[4]  the mark of readers who have waited for long
--
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  how long the caller has waited, in milliseconds; -1 for one that does not wait
-- ARGV[4]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[5]  response limit in microseconds: no honest use-by is further ahead than twice that
--
-- Reply    {0, server time}                 granted; the same owner asking again gets the same
--          {1, server time, left}           a writer is in, or waits: so much is left of the hash or of the notice
--          {1, server time, left, again}    the same, and it must look again after so many milliseconds
--          {2, server time}                 too late, or the use-by is too far ahead
--          {3, server time, kind}           the key is something else
--
-- Cost     11 commands when granted, 4 to 6 when busy, each O(1).
local lease, waited = ARGV[2] + 0, ARGV[3] + 0
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
local is_patient = waited > LONG_WAIT
if mode == 'write' then
  local left = call('PTTL', KEYS[1])
  if is_patient then
    leave_mark(KEYS[4], math.max(0, left) + MARK_BEYOND)
  end
  return {1, now, left}
end
local is_in = mode and call('HEXISTS', KEYS[1], ARGV[1]) == 1
local notice = is_in and 0 or notice_left(KEYS[3], math.floor(now / 1000))
if notice > 0 and not (is_patient and (not mode or call('PTTL', KEYS[4]) > 0)) then
  local left = mode and call('PTTL', KEYS[1]) or notice
  if waited < 0 then
    return {1, now, left}
  end
  local again = notice + 1
  if not mode then
    again = math.min(again, math.max(0, LONG_WAIT + 1 - waited))
  end
  return {1, now, left, again}
end
if not mode then
  call('HSET', KEYS[1], 'mode', 'read', ARGV[1], '1')
elseif not is_in then
  call('HSET', KEYS[1], ARGV[1], '1')
end
live_for(KEYS[1], lease)
if call('PTTL', KEYS[2]) < lease then
  call('SET', KEYS[2], '1', 'PX', ARGV[2])
end
cut_mark(KEYS[4])
return {0, now}
