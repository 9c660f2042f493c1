-- election/release: ends the term if this owner leads, and tells so.
--
-- KEYS[1]  the election
-- KEYS[2]  the channel that tells when terms begin (1) and end (0)
--
-- ARGV[1]  owner
--
-- Reply    {0, server time, subscribers told}    ended
--          {1, server time}                      this owner does not lead
--          {3, server time, kind}                the key is something else
--
-- Cost     6 commands when ended, O(1) and O(subscribers). Works when the server is out of memory.
local kind = kind_of(KEYS[1])
if kind == 'none' then
  return {1, now}
end
if kind ~= 'election' then
  return {3, now, kind}
end
if call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {1, now}
end
call('DEL', KEYS[1])
local told = pcall('PUBLISH', KEYS[2], '0')
return {0, now, type(told) == 'number' and told or 0}
