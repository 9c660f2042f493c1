-- fair/force_release: frees the fair mutex whoever holds it, and calls the head of the line.
--
-- KEYS[1]  the lock
-- KEYS[2]  the line: a list of those who wait, head first
-- KEYS[3]  when each of them counts as dead, in milliseconds of the server's time
-- KEYS[4]  the beginning of the channels on which they wait
--
-- Reply    {0, server time, subscribers told}    freed
--          {1, server time}                      there was nothing to free
--          {3, server time, kind}                a key is something else
--
-- Cost     about 8 commands, O(1) and O(subscribers). The token record stays, so tokens go on rising.
local kind = kind_of(KEYS[1])
if kind ~= 'none' and kind ~= 'hash' then
  return {3, now, kind}
end
kind = stray_kind(KEYS[2], KEYS[3])
if kind then
  return {3, now, kind}
end
head_of(KEYS[2], KEYS[3], math.floor(now / 1000))
if call('DEL', KEYS[1]) == 0 then
  return {1, now}
end
return {0, now, call_next(KEYS[4], KEYS[2])}
