-- mutex/acquire: takes the mutex for an owner, or tells how long the present hold has left (Redisson's layout).
--
-- KEYS[1]  the lock: a hash of one field, the owner, whose value is 1
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token, an integer without expiry: a floor, raised where it exists, never made
--
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  life of the token record in milliseconds
-- ARGV[4]  how many tokens to set aside
-- ARGV[5]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[6]  response limit in microseconds: no honest use-by is further ahead than twice that
--
-- Reply    {0, server time, first token, tokens}     granted; the same owner asking again gets the same tokens
--          {1, server time, PTTL}                    held by somebody else
--          {2, server time}                          too late, or the use-by is too far ahead
--          {3, server time, kind}                    the key is something else
--          TOKENEXHAUSTED                            no token is left, or a token's key holds none
--
-- Cost     7 commands when granted (8 where KEYS[3] exists), 4 when busy, each O(1).
--          Nothing is written before everything is checked, and the first write is one that is refused when the
--          server is out of memory.
local call = redis.call

local function look(owner)
  local kind = call('TYPE', KEYS[1]).ok
  if kind == 'none' then
    return false
  end
  if kind ~= 'hash' then
    return false, {false, kind}
  end
  local seen = call('HMGET', KEYS[1], 'mode', owner)
  if seen[1] then
    return false, {false, seen[1] == 'election' and seen[1] or 'read-write lock'}
  end
  if not seen[2] then
    return false, {call('PTTL', KEYS[1])}
  end
  return true
end

local function take(owner)
  call('HSET', KEYS[1], owner, '1')
  call('PEXPIRE', KEYS[1], ARGV[2])
end

