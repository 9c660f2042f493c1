-- semaphore/drain: takes away all permits that are available.
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
--
-- Reply    {0, server time, answer}    how many; the same mark again gets the same answer
--          {2, server time}            too late, or the use-by is too far ahead
--          {3, server time, kind}      the key is something else
--
-- Cost     7 commands, 3 more if some have ended, each O(log(held)).
local taken = math.max(available or 0, 0)
if taken > 0 then
  call('DECRBY', KEYS[1], taken)
end
return answer(taken)
