-- rwlock/release_write: ends a write hold, or takes back the notice of a writer that waits no more, and wakes everybody who may come
-- in then (Redisson's layout).
--
-- KEYS[1]  the lock: a hash of its mode and of each holder's number of holds
-- KEYS[2]  what the keys of all read holds begin with
-- KEYS[3]  the signal channel
-- KEYS[4]  the notices of writers that wait: each with the moment at which it falls
--
-- ARGV[1]  owner
--
-- Reply    {0, server time, subscribers told}    ended
--          {1, server time}                      this owner does not write; it waits no more
--          {3, server time, kind}                the key is something else
--
-- Cost     about 9 commands, O(1) and O(subscribers). Works when the server is out of memory.
local mode, kind = mode_of(KEYS[1])
if kind then
  return {3, now, kind}
end
local had_notice = take_notice(KEYS[4], ARGV[1])
if mode ~= 'write' or call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if had_notice and mode ~= 'write' and notice_left(KEYS[4], math.floor(now / 1000)) == 0 then
    pcall('PUBLISH', KEYS[3], '1')
  end
  return {1, now}
end
-- Only a peer reads beside its own write hold.
local left = call('HLEN', KEYS[1]) > 2 and longest_hold(KEYS[1], KEYS[2], ARGV[1]) or 0
if left > 0 then
  call('HSET', KEYS[1], 'mode', 'read')
  call('HDEL', KEYS[1], ARGV[1])
  call('PEXPIRE', KEYS[1], left)
else
  call('DEL', KEYS[1])
end
local told = pcall('PUBLISH', KEYS[3], '1')
return {0, now, type(told) == 'number' and told or 0}
