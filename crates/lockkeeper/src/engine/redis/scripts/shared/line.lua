-- shared/line: the line of a fair mutex. It stands between the header and the body of a script. All times are
-- milliseconds; `now` is the server's.
local FAR, CLOSE_LOOK, PEER_GRACE = 64, 1000, 300000

local function whole(number)
  return string.format('%.0f', number)
end

-- A word for the first of these keys that is of another kind, if one is.
local function stray_kind(key_queue, key_ends)
  local kind = redis.call('TYPE', key_queue).ok
  if kind ~= 'none' and kind ~= 'list' then
    return kind
  end
  kind = redis.call('TYPE', key_ends).ok
  if kind ~= 'none' and kind ~= 'zset' then
    return kind
  end
end

-- The head; those that count as dead lose their place before.
local function head_of(key_queue, key_ends, now)
  while true do
    local head = redis.call('LINDEX', key_queue, 0)
    local dead_at = head and redis.call('ZSCORE', key_ends, head)
    if not dead_at or tonumber(dead_at) > now then
      return head
    end
    redis.call('ZREM', key_ends, head)
    redis.call('LPOP', key_queue)
  end
end

-- How many peers stand before this place, as far as one looks: our owners end in a number of 19 digits, Java's in a small one.
local function peers_before(key_queue, position)
  local peers = 0
  if position > 0 then
    for _, waiter in ipairs(redis.call('LRANGE', key_queue, math.max(0, position - FAR), position - 1)) do
      local number = string.match(waiter, '([^:]*)$')
      if #number ~= 19 or string.find(number, '%D') then
        peers = peers + 1
      end
    end
  end
  return peers
end

-- Gives a waiter its place, or lets it keep the one it has. Tells the place, when it counts as dead, and the peers before.
local function stand_in(key_queue, key_ends, owner, grace, lock_left, now)
  local position = redis.call('LPOS', key_queue, owner)
  if position then
    local peers = peers_before(key_queue, position)
    local dead_at = now + lock_left + (position + 1) * grace + peers * PEER_GRACE
    local known = tonumber(redis.call('ZSCORE', key_ends, owner) or nil)
    if known and known >= dead_at then
      return position, known, peers
    end
    redis.call('ZADD', key_ends, whole(dead_at), owner)
    return position, dead_at, peers
  end
  local last = redis.call('LINDEX', key_queue, -1)
  local before = last and redis.call('ZSCORE', key_ends, last)
  local dead_at = math.max(before and tonumber(before) or 0, now + lock_left) + grace
  redis.call('ZADD', key_ends, whole(dead_at), owner)
  position = redis.call('RPUSH', key_queue, owner) - 1
  return position, dead_at, peers_before(key_queue, position)
end

-- Takes a waiter out. Those behind it move up by what its place counted for, which is its grace, or as far as is known the
-- distance to the place before; though none is dead by that alone.
local function step_out(key_queue, key_ends, owner, grace, lock_left, now)
  local position = redis.call('LPOS', key_queue, owner)
  local dead_at = redis.call('ZSCORE', key_ends, owner)
  redis.call('ZREM', key_ends, owner)
  if not position then
    return
  end
  if not grace then
    local before = now + lock_left
    if position > 0 then
      before = tonumber(redis.call('ZSCORE', key_ends, redis.call('LINDEX', key_queue, position - 1)) or nil)
    end
    grace = dead_at and before and math.max(0, tonumber(dead_at) - before) or 0
  end
  redis.call('LREM', key_queue, 0, owner)
  if grace == 0 then
    return
  end
  for _, waiter in ipairs(redis.call('LRANGE', key_queue, position, -1)) do
    local known = tonumber(redis.call('ZSCORE', key_ends, waiter) or nil)
    if known then
      local moved = math.max(known - grace, math.min(known, now + grace))
      if moved < known then
        redis.call('ZADD', key_ends, whole(moved), waiter)
      end
    end
  end
end

-- The lock is free and somebody who is not the head looks: the head has one grace from now on, and is told again when that
-- begins. Tells how long it has.
local function hurry(key_channel, key_ends, head, grace, now)
  local latest = now + math.max(grace - CLOSE_LOOK, math.floor(grace / 2))
  local dead_at = tonumber(redis.call('ZSCORE', key_ends, head) or nil)
  if dead_at and dead_at <= latest then
    return dead_at - now
  end
  redis.call('ZADD', key_ends, whole(latest), head)
  redis.pcall('PUBLISH', key_channel .. ':' .. head, '0')
  return latest - now
end

-- Tells the head that the lock is free, and whoever comes next if the head does not hear. Tells how many heard.
local function call_next(key_channel, key_queue)
  for _, waiter in ipairs(redis.call('LRANGE', key_queue, 0, FAR - 1)) do
    local heard = redis.pcall('PUBLISH', key_channel .. ':' .. waiter, '0')
    if type(heard) ~= 'number' then
      return 0
    end
    if heard > 0 then
      return heard
    end
  end
  return 0
end
