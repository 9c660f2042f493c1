-- latch/await: tells who waits for a latch its count, or how it has ended since the last look.
--
-- KEYS[1]  the latch: a number, there only while it is above zero
-- KEYS[2]  our own record: how it last ended, and when
--
-- ARGV[1]  the server time in microseconds at which the waiter saw it closed; 0 if it never did
--
-- Reply    {0, server time, answer}    the count; 0 also if it was opened since, even if it was set again; -1 if it was
--                                      removed since; -2 if it is gone and no step of ours ended it
--          {3, server time, kind}      the key is something else
--
-- Cost     4 commands, O(1).
local since = ARGV[1] + 0
local count, other = count_at(KEYS[1])
if other then
  return {3, now, other}
end
if since > 0 then
  local record = pcall('GET', KEYS[2])
  local ended, at = string.match(type(record) == 'string' and record or '', '^(%a+) (%d+)$')
  if ended and tonumber(at) > since then
    if ended == 'open' then
      return {0, now, 0}
    elseif ended == 'removed' then
      return {0, now, -1}
    end
  end
  if count == 0 then
    count = -2
  end
end
return {0, now, count}
