-- shared/opening: what many steps begin with. It stands between the header and the body of a script.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whether a copy may not run any more; arithmetic raises an error where there is no number.
local function is_late(use_by, limit)
  use_by, limit = use_by + 0, limit + 0
  return now > use_by or use_by > now + 2 * limit
end

-- The word for what a key holds.
local function kind_of(key)
  local kind = call('TYPE', key).ok
  local mode = kind == 'hash' and call('HGET', key, 'mode')
  if mode then
    return mode == 'election' and mode or 'read-write lock'
  end
  return kind
end
