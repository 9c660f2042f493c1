-- latch/count: tells the count of a latch; 0 if it is open or was never set.
--
-- KEYS[1]  the latch: a number, there only while it is above zero
--
-- Reply    {0, server time, count}
--          {3, server time, kind}    the key is something else
--
-- Cost     3 commands, O(1).
local kind = kind_of(KEYS[1])
local count = 0
if kind ~= 'none' then
  local text = kind == 'string' and call('GET', KEYS[1]) or ''
  if not string.find(text, '^[1-9]%d*$') then
    return {3, now, kind}
  end
  count = tonumber(text)
end
return {0, now, count}
