-- election/acquire: begins a term for an owner, or tells how long the present one has left.
--
-- KEYS[1]  the election: a hash of mode ('election'), term, and the leader's owner text, whose value is the candidate's text
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token, an integer without expiry: a floor, raised where it exists, never made
-- KEYS[4]  the channel that tells when terms begin (1) and end (0)
--
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  life of the token record in milliseconds
-- ARGV[4]  how many tokens to set aside
-- ARGV[5]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[6]  response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[7]  the candidate's text
--
-- Reply    {0, server time, first token, tokens}     leads; the same owner asking again gets the same tokens
--          {1, server time, PTTL}                    somebody else leads
--          {2, server time}                          too late, or the use-by is too far ahead
--          {3, server time, kind}                    the key is something else
--          TOKENEXHAUSTED                            no token is left, or a token's key holds none
--
-- Cost     9 commands when a term begins (10 where KEYS[3] exists), 4 when somebody else leads, each O(1) and O(subscribers).
--          Nothing is written before everything is checked, and the first write is one that is refused when the server is out
--          of memory.
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
  if seen[1] ~= 'election' then
    return false, {false, seen[1] and 'read-write lock' or kind}
  end
  if not seen[2] then
    return false, {call('PTTL', KEYS[1])}
  end
  return true
end

local function take(owner)
  -- The record was written just before, with the first token of this owner.
  local term = string.match(call('GET', KEYS[2]), '^%d+ (%d+)')
  call('HSET', KEYS[1], 'mode', 'election', 'term', term, owner, ARGV[7])
  call('PEXPIRE', KEYS[1], ARGV[2])
  -- A user who may not publish leads all the same: the others find out by their timers.
  redis.pcall('PUBLISH', KEYS[4], '1')
end

