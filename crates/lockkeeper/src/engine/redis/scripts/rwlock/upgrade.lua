-- rwlock/upgrade: makes the only reader the writer (Redisson's layout).
--
-- KEYS[1]  the lock: a hash of its mode and of each holder's number of holds
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token, an integer without expiry: a floor, raised where it exists, never made
-- KEYS[4]  what the keys of all read holds begin with
-- KEYS[5]  the reader's hold: a key that ends with it
--
-- ARGV[1]  owner: the writer that is to be
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  life of the token record in milliseconds
-- ARGV[4]  how many tokens to set aside
-- ARGV[5]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[6]  response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[7]  the reader
--
-- Reply    {0, server time, first token, tokens}    granted; the same again gets the same tokens
--          {1, server time, PTTL}                   there are other readers
--          {2, server time}                         too late, or the use-by is too far ahead
--          {3, server time, kind}                   the key is something else
--          {4, server time}                         the reader is not there
--          TOKENEXHAUSTED                           no token is left, or a token's key holds none
--
-- Cost     13 commands when granted, and one for each dead reader: O(readers).
local function look(owner)
  local mode, kind = mode_of(KEYS[1])
  if kind then
    return false, {false, kind}
  end
  if mode == 'write' and redis.call('HEXISTS', KEYS[1], owner) == 1 then
    return true
  end
  local reader = ARGV[7]
  if mode ~= 'read' or redis.call('HEXISTS', KEYS[1], reader) == 0 or redis.call('PTTL', KEYS[5]) <= 0 then
    return false, {gone = true}
  end
  if longest_hold(KEYS[1], KEYS[4], reader, true) > 0 then
    return false, {redis.call('PTTL', KEYS[1])}
  end
  return false
end

local function take(owner)
  redis.call('DEL', KEYS[1], KEYS[5])
  redis.call('HSET', KEYS[1], 'mode', 'write', owner, '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end

local call = redis.call
