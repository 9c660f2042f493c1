-- semaphore/count: tells how many permits are available, and how many are held. It changes nothing.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  the ids of those that are held, with their ends in milliseconds
--
-- ARGV[1]  the word for this semaphore: "permits" if they are leased, else "semaphore"
--
-- Reply    {0, server time, available, held}    what has ended counts as available
--          {3, server time, kind}               the key is something else
--
-- Cost     6 commands, each O(log(held)).
local available, other = available_at(KEYS[1], KEYS[2], ARGV[1])
if other then
  return {3, now, other}
end
if not available then
  return {0, now, 0, 0}
end
local ended = call('ZCOUNT', KEYS[2], 0, ms)
return {0, now, available + ended, call('ZCARD', KEYS[2]) - ended}
