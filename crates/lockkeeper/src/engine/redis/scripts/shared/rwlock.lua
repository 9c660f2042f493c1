-- shared/rwlock: a read-write lock, and the turns that readers and writers take. It stands between the header and the body of a
-- script. All times are milliseconds; `now` is the server's.
local NOTICE, LOOK_AGAIN, LONG_WAIT, ROUND, MARK_BEYOND, MOST_HOLDS = 2000, 1000, 1000, 50, 1000, 1000

-- The mode of the lock, none if it is free; or a word for what else the key holds.
local function mode_of(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then
    return nil
  end
  local mode = kind == 'hash' and redis.call('HGET', key, 'mode')
  if mode == 'read' or mode == 'write' then
    return mode
  end
  return nil, kind
end

-- How long the longest of one owner's read holds has left, or the first that is found; 0 if none lives.
local function longest_of(key_base, owner, holds, first)
  local longest = 0
  for number = 1, math.min(tonumber(holds), MOST_HOLDS) do
    local key_hold = key_base .. owner .. ':rwlock_timeout:' .. number
    longest = math.max(longest, redis.call('PTTL', key_hold))
    if first and longest > 0 then
      break
    end
  end
  return longest
end

-- How long the longest read hold has left, of all owners but one, or of the first that is found; 0 if none lives. What a dead
-- reader left in the hash does not count.
local function longest_hold(key, key_base, but, first)
  local longest = 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local owner, holds = fields[i], fields[i + 1]
    if owner ~= 'mode' and owner ~= but and string.find(holds, '^%d+$') then
      longest = math.max(longest, longest_of(key_base, owner, holds, first))
      if first and longest > 0 then
        break
      end
    end
  end
  return longest
end

-- Lets a key live for at least so long.
local function live_for(key, life)
  if redis.call('PTTL', key) < life then
    redis.call('PEXPIRE', key, life)
  end
end

-- How long the last notice of a writer still stands; 0 if none does.
local function notice_left(key, now)
  local last = redis.pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  if last.err or not last[2] then
    return 0
  end
  return math.max(0, tonumber(last[2]) - now)
end

-- What somebody else put under that key is left alone, and a server that is out of memory keeps no notice.
local function leave_notice(key, owner, now)
  local left = redis.pcall('ZADD', key, string.format('%.0f', now + NOTICE), owner)
  if type(left) == 'number' then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
    redis.call('PEXPIRE', key, NOTICE)
  end
end

-- Takes a writer's notice back, and tells whether there was one.
local function take_notice(key, owner)
  return redis.pcall('ZREM', key, owner) == 1
end

local function leave_mark(key, life)
  if redis.call('PTTL', key) < life then
    redis.pcall('SET', key, '1', 'PX', life)
  end
end

-- The lock is not written under: a mark stands for one round more. Tells how long, 0 if there is none.
local function cut_mark(key)
  local left = redis.call('PTTL', key)
  if left > ROUND then
    redis.call('PEXPIRE', key, ROUND)
  end
  return math.max(0, math.min(left, ROUND))
end

