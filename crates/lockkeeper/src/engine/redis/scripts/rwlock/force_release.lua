-- rwlock/force_release: frees one side of the lock whoever holds it, and signals (Redisson's layout). The other side is left alone.
--
-- KEYS[1]  the lock: a hash of its mode and of each holder's number of holds
-- KEYS[2]  the signal channel
--
-- ARGV[1]  the side: read or write
-- ARGV[2]  the message: 0 wakes one waiter in each process, 1 wakes all
--
-- Reply    {0, server time, subscribers told}    freed
--          {1, server time}                      nobody holds that side
--          {3, server time, kind}                the key is something else
--
-- Cost     5 commands, O(readers) and O(subscribers). The keys of read holds stay until they end.
local mode, kind = mode_of(KEYS[1])
if kind then
  return {3, now, kind}
end
if mode ~= ARGV[1] then
  return {1, now}
end
call('DEL', KEYS[1])
local told = pcall('PUBLISH', KEYS[2], ARGV[2])
return {0, now, type(told) == 'number' and told or 0}
