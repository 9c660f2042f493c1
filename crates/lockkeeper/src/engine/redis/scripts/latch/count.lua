-- latch/count: tells the count of a latch; 0 if it is open or was never set.
--
-- KEYS[1]  the latch: a number, there only while it is above zero
--
-- Reply    {0, server time, count}
--          {3, server time, kind}    the key is something else
--
-- Cost     3 commands, O(1).
local count, other = count_at(KEYS[1])
if other then
  return {3, now, other}
end
return {0, now, count}
