-- fair/release: frees the fair mutex if this owner holds it, takes it out of the line if it waits there, and calls the head if
-- the lock is free.
--
-- KEYS[1]  the lock
-- KEYS[2]  the line: a list of those who wait, head first
-- KEYS[3]  when each of them counts as dead, in milliseconds of the server's time
-- KEYS[4]  the beginning of the channels on which they wait
--
-- ARGV[1]  owner
--
-- Reply    {0, server time, subscribers told}    freed
--          {1, server time}                      this owner does not hold it; it waits no more
--          {3, server time, kind}                a key is something else
--
-- Cost     about 12 commands, and 1 or 2 for each that waits behind one that leaves the line.
local kind = kind_of(KEYS[1])
if kind ~= 'none' and kind ~= 'hash' then
  return {3, now, kind}
end
kind = stray_kind(KEYS[2], KEYS[3])
if kind then
  return {3, now, kind}
end
local milliseconds = math.floor(now / 1000)
head_of(KEYS[2], KEYS[3], milliseconds)
local ours = call('HDEL', KEYS[1], ARGV[1]) == 1
local left = call('PTTL', KEYS[1])
step_out(KEYS[2], KEYS[3], ARGV[1], nil, math.max(0, left), milliseconds)
local told = 0
if left == -2 then
  told = call_next(KEYS[4], KEYS[2])
end
if ours then
  return {0, now, told}
end
return {1, now}
