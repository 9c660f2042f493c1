-- permits/set: sets the permits of a semaphore whose permits are leased, those that are held counted in.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  the ids of those that are held, with their ends in milliseconds
-- KEYS[3]  the signal channel
-- KEYS[4]  where the answer is kept for a repeat
-- KEYS[5]  our own record of which semaphore it is
--
-- ARGV[1]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[2]  response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[3]  how long the answer is kept, in milliseconds
-- ARGV[4]  the word for this semaphore: "permits" if they are leased, else "semaphore"
-- ARGV[5]  how long the record is kept, in milliseconds
-- ARGV[6]  the permits
--
-- Reply    {0, server time, 1}         set; the same mark again changes nothing
--          {2, server time}            too late, or the use-by is too far ahead
--          {3, server time, kind}      the key is something else
--
-- Cost     12 commands, 3 more if some have ended, each O(log(held)), and O(subscribers).
local wanted = ARGV[6] + 0
if available then
  local difference = wanted - available - call('ZCOUNT', KEYS[2], 0, '+inf')
  available = call('INCRBY', KEYS[1], difference)
  note()
  if difference > 0 then
    tell(KEYS[3], available)
  end
else
  call('SET', KEYS[1], ARGV[6])
  note()
  tell(KEYS[3], wanted)
end
return answer(1)
