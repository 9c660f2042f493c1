-- rwlock/release_read: ends a read hold (Redisson's layout). The hash lives on for the longest hold that is left, and ends, with a
-- signal, if none lives, whatever dead readers left in it.
--
-- KEYS[1]  the lock: a hash of its mode and of each holder's number of holds
-- KEYS[2]  this owner's hold: a key that ends with it
-- KEYS[3]  what the keys of all read holds begin with
-- KEYS[4]  the signal channel
--
-- ARGV[1]  owner
--
-- Reply    {0, server time, subscribers told}    ended
--          {1, server time}                      this owner has no hold; what it had left in the hash is gone
--          {3, server time, kind}                the key is something else
--
-- Cost     about 9 commands and one for each other hold, O(readers) and O(subscribers). Works when the server is out of memory.
local mode, kind = mode_of(KEYS[1])
if kind then
  return {3, now, kind}
end
if not mode or call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return {1, now}
end
local lived = call('PTTL', KEYS[2]) > 0
call('DEL', KEYS[2])
local told = 0
if mode == 'read' or call('HLEN', KEYS[1]) == 1 then
  local left = longest_hold(KEYS[1], KEYS[3])
  if left > 0 then
    call('PEXPIRE', KEYS[1], left)
  else
    call('DEL', KEYS[1])
    told = pcall('PUBLISH', KEYS[4], '0')
  end
end
if lived then
  return {0, now, type(told) == 'number' and told or 0}
end
return {1, now}
