-- rwlock/acquire_write: comes in alone, or tells how long the present holds have left (Redisson's layout). A writer that goes on
-- waiting leaves a notice, which keeps new readers out.
--
-- KEYS[1]  the lock: a hash of its mode and of each holder's number of holds
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token, an integer without expiry: a floor, raised where it exists, never made
-- KEYS[4]  what the keys of all read holds begin with
-- KEYS[5]  the notices of writers that wait: each with the moment at which it falls
-- KEYS[6]  the mark of readers who have waited for long: while it stands, and the lock is free, it is their turn
--
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  life of the token record in milliseconds
-- ARGV[4]  how many tokens to set aside
-- ARGV[5]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[6]  response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[7]  1 if the caller goes on waiting when it is refused, else 0
--
-- Reply    {0, server time, first token, tokens}    granted; the same owner asking again gets the same tokens
--          {1, server time, left}                   others are in, or it is their turn: so much is left of the hash or the mark
--          {1, server time, left, again}            the same, and it must look again after so many milliseconds
--          {2, server time}                         too late, or the use-by is too far ahead
--          {3, server time, kind}                   the key is something else
--          TOKENEXHAUSTED                           no token is left, or a token's key holds none
--
-- Cost     11 commands when granted, about 10 when busy, and one for each dead reader: O(readers).
local function look(owner, microseconds)
  local mode, kind = mode_of(KEYS[1])
  if kind then
    return false, {false, kind}
  end
  if mode == 'write' and redis.call('HEXISTS', KEYS[1], owner) == 1 then
    return true
  end
  local left
  if mode == 'write' or mode and longest_hold(KEYS[1], KEYS[4], nil, true) > 0 then
    left = redis.call('PTTL', KEYS[1])
    if mode == 'read' then
      cut_mark(KEYS[6])
    end
  else
    left = cut_mark(KEYS[6])
    if left == 0 then
      return false
    end
  end
  if ARGV[7] + 0 == 0 then
    return false, {left}
  end
  leave_notice(KEYS[5], owner, math.floor(microseconds / 1000))
  return false, {left, nil, LOOK_AGAIN}
end

local function take(owner)
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'mode', 'write', owner, '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  take_notice(KEYS[5], owner)
end

local call = redis.call
