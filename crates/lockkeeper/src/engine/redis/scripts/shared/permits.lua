-- shared/permits: what the steps of both semaphores begin with. It stands behind shared/opening.

-- What has an end up to this moment has ended.
local ms = math.floor(now / 1000)

-- How many permits are available, those that have ended not counted; nil if there is no semaphore. Then the word for what
-- else is there. The plain semaphore has no ids beside it.
local function available_at(key, key_of_ids, word)
  local available
  local kind = kind_of(key)
  if kind ~= 'none' then
    local text = kind == 'string' and call('GET', key) or ''
    if text ~= '0' and not string.find(text, '^%-?[1-9]%d*$') then
      return nil, kind
    end
    available = tonumber(text)
    if math.abs(available) >= 9007199254740992 then
      return nil, kind
    end
  end
  local ids = call('TYPE', key_of_ids).ok
  if ids ~= 'none' and (ids ~= 'zset' or word == 'semaphore') then
    return nil, ids == 'zset' and 'permits' or ids
  end
  return available
end

-- Tells how many permits are available, if there are any; answers how many subscribers heard it.
local function tell(key_of_channel, available)
  if available <= 0 then
    return 0
  end
  local told = pcall('PUBLISH', key_of_channel, available)
  return type(told) == 'number' and told or 0
end

-- Makes available again what has ended, and tells how many are available then. Its first write is one that is refused when
-- the server is out of memory.
local function reclaim(key, key_of_ids, key_of_channel, available)
  local ended = call('ZCOUNT', key_of_ids, 0, ms)
  if ended == 0 then
    return available
  end
  available = call('INCRBY', key, ended)
  call('ZREMRANGEBYSCORE', key_of_ids, 0, ms)
  tell(key_of_channel, available)
  return available
end

-- The ids in a text of 32 hex digits each, as the bytes that are stored.
local function ids_in(text)
  local ids = {}
  for digits in string.gmatch(text, string.rep('%x', 32)) do
    ids[#ids + 1] = string.gsub(digits, '%x%x', function(pair)
      return string.char(tonumber(pair, 16))
    end)
  end
  if #ids == 0 or #text ~= 32 * #ids then
    return nil
  end
  return ids
end
