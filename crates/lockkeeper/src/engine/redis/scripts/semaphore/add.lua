-- semaphore/add: adds permits, or takes some away; the number may fall below zero. A missing semaphore counts as none.
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
-- ARGV[6]  how many, negative to take away
-- ARGV[7]  1 if the semaphore must be there
--
-- Reply    {0, server time, answer}    1 if that was done, 0 if it is not there; the same mark again gets the same answer
--          {2, server time}            too late, or the use-by is too far ahead
--          {3, server time, kind}      the key is something else
--          PERMITSRANGE                the sum would leave the range of exact numbers; nothing is changed
--
-- Cost     9 commands, 3 more if some have ended, each O(log(held)), and O(subscribers).
local more = ARGV[6] + 0
if not available and ARGV[7] == '1' then
  return answer(0)
end
if math.abs((available or 0) + more) >= 9007199254740992 then
  return redis.error_reply('PERMITSRANGE the number of permits would leave the range of exact numbers')
end
available = call('INCRBY', KEYS[1], ARGV[6])
note()
if more > 0 then
  tell(KEYS[3], available)
end
return answer(1)
