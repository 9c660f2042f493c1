-- semaphore/try_set: sets the permits of a semaphore that has none.
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
-- ARGV[7]  the life of the semaphore in milliseconds, or nothing if it stays
--
-- Reply    {0, server time, answer}    1 if they were set, else 0; the same mark again gets the same answer
--          {2, server time}            too late, or the use-by is too far ahead
--          {3, server time, kind}      the key is something else
--
-- Cost     9 commands when set, each O(1), and O(subscribers).
if available then
  return answer(0)
end
if ARGV[7] == '' then
  call('SET', KEYS[1], ARGV[6])
else
  call('SET', KEYS[1], ARGV[6], 'PX', ARGV[7])
end
note()
tell(KEYS[3], ARGV[6] + 0)
return answer(1)
