-- fair/acquire: takes the fair mutex for whoever is first in line, or gives the caller a place behind the others.
--
-- KEYS[1]  the lock: a hash of one field, the owner, whose value is 1
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token, an integer without expiry: a floor, raised where it exists, never made
-- KEYS[4]  the line: a list of those who wait, head first
-- KEYS[5]  when each of them counts as dead, in milliseconds of the server's time
-- KEYS[6]  the beginning of the channels on which they wait
--
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  life of the token record in milliseconds
-- ARGV[4]  how many tokens to set aside
-- ARGV[5]  use-by: the server time in microseconds after which this copy does nothing
-- ARGV[6]  response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[7]  how long the place of a caller that waits is kept if nothing is heard of it, in milliseconds; 0 for one that does
--          not wait, which gets no place, and does not overtake anybody either
--
-- Reply    {0, server time, first token, tokens}     granted; the same owner asking again gets the same tokens
--          {1, server time, left}                    not free, or not its turn: so much is left of the lock or of the
--                                                    head's time
--          {1, server time, left, again}             the same, and it must look again after so many milliseconds
--          {2, server time}                          too late, or the use-by is too far ahead
--          {3, server time, kind}                    a key is something else
--          TOKENEXHAUSTED                            no token is left, or a token's key holds none
--
-- Cost     15 commands when granted, and 1 or 2 for each that waits behind; about 12 when busy, and the length of the line in
--          the server's own search for a place.
local call = redis.call

local function turn(owner, now)
  local grace = ARGV[7] + 0
  local held = call('EXISTS', KEYS[1]) == 1
  local stray = stray_kind(KEYS[4], KEYS[5])
  if stray then
    return {false, stray}
  end
  local head = head_of(KEYS[4], KEYS[5], now)
  if not held then
    if not head or head == owner then
      return nil
    end
    if grace == 0 then
      return {0}
    end
    stand_in(KEYS[4], KEYS[5], owner, grace, 0, now)
    return {hurry(KEYS[6], KEYS[5], head, grace, now)}
  end
  local left = call('PTTL', KEYS[1])
  if grace == 0 then
    return {left}
  end
  local position, dead_at, peers = stand_in(KEYS[4], KEYS[5], owner, grace, math.max(0, left), now)
  -- Behind a peer every second, since that goes without a word; else the nearer the head the sooner, since a head may be
  -- deaf; and always in time to be heard of.
  local again = math.max(1, math.floor((dead_at - now) / 2))
  if peers > 0 then
    again = math.min(again, CLOSE_LOOK)
  elseif position > 0 then
    again = math.min(again, position * CLOSE_LOOK)
  end
  return {left, nil, again}
end

local function look(owner, microseconds)
  local kind = call('TYPE', KEYS[1]).ok
  if kind ~= 'none' then
    if kind ~= 'hash' then
      return false, {false, kind}
    end
    local seen = call('HMGET', KEYS[1], 'mode', owner)
    if seen[1] then
      return false, {false, seen[1] == 'election' and seen[1] or 'read-write lock'}
    end
    if seen[2] then
      return true
    end
  end
  return false, turn(owner, math.floor(microseconds / 1000))
end

local function take(owner, microseconds)
  local grace = ARGV[7] + 0
  step_out(KEYS[4], KEYS[5], owner, grace > 0 and grace or nil, 0, math.floor(microseconds / 1000))
  call('HSET', KEYS[1], owner, '1')
  call('PEXPIRE', KEYS[1], ARGV[2])
end

