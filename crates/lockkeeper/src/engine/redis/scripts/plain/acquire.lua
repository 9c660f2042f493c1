-- plain/acquire: takes the mutex for an owner, or tells how long the present hold has left (plain layout).
--
-- KEYS[1]  the lock: a string, the owner
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
-- Cost     6 commands when granted (7 where KEYS[3] exists), 3 when busy, each O(1).
--          Nothing is written before everything is checked, and the first write is one that is refused when the
--          server is out of memory.
local call = redis.call

local function look(owner)
  local holder = redis.pcall('GET', KEYS[1])
  if not holder then
    return false
  end
  if type(holder) == 'string' then
    if holder == owner then
      return true
    end
    return false, {call('PTTL', KEYS[1])}
  end
  if not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return false, holder
  end
  local kind = call('TYPE', KEYS[1]).ok
  local mode = kind == 'hash' and call('HGET', KEYS[1], 'mode')
  if mode then
    kind = mode == 'election' and mode or 'read-write lock'
  end
  return false, {false, kind}
end

local function take(owner)
  call('SET', KEYS[1], owner, 'PX', ARGV[2])
end

