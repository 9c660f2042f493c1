-- election/force_release: ends the term whoever leads, and tells so.
--
-- KEYS[1]  the election
-- KEYS[2]  the channel that tells when terms begin (1) and end (0)
--
-- Reply    {0, server time, subscribers told}    ended
--          {1, server time}                      nobody led
--          {3, server time, kind}                the key is something else
--
-- Cost     5 commands, O(1) and O(subscribers). The token record stays, so terms go on rising.
local kind = kind_of(KEYS[1])
if kind == 'none' then
  return {1, now}
end
if kind ~= 'election' then
  return {3, now, kind}
end
call('DEL', KEYS[1])
local told = pcall('PUBLISH', KEYS[2], '0')
return {0, now, type(told) == 'number' and told or 0}
