-- semaphore/give_back: undoes an acquire of the plain semaphore whose caller does not want it any more, and lets no late copy
-- of it take anything.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  what a semaphore with leased permits has beside it
-- KEYS[3]  the signal channel
-- KEYS[4]  how many this owner was given, or 0 once it gave them back
--
-- ARGV[1]  how long that is remembered, in milliseconds
--
-- Reply    {0, server time, subscribers told}    given back
--          {1, server time}                      this owner had none
--          {3, server time, kind}                the key is something else
--
-- Cost     8 commands, each O(1), and O(subscribers). Works when the server is out of memory: its first write only removes.
local available, other = available_at(KEYS[1], KEYS[2], 'semaphore')
if other then
  return {3, now, other}
end
local given = call('GET', KEYS[4])
call('DEL', KEYS[4])
call('SET', KEYS[4], '0', 'PX', ARGV[1])
if not given or given == '0' then
  return {1, now}
end
if not available then
  return {0, now, 0}
end
return {0, now, tell(KEYS[3], call('INCRBY', KEYS[1], given))}
