-- shared/change_permits: what those steps begin with that change the number of permits. It stands behind shared/permits.
if is_late(ARGV[1], ARGV[2]) then
  return {2, now}
end
local known = call('GET', KEYS[4])
if known then
  return {0, now, tonumber(known)}
end
local available, other = available_at(KEYS[1], KEYS[2], ARGV[4])
if other then
  return {3, now, other}
end
available = available and reclaim(KEYS[1], KEYS[2], KEYS[3], available)

-- Remembers which semaphore it is, for no longer than it lives.
local function note()
  local left = call('PTTL', KEYS[1])
  local life = ARGV[5] + 0
  call('SET', KEYS[5], ARGV[4], 'PX', left >= 0 and math.max(math.min(left, life), 1) or life)
end

-- Keeps the answer for a repeat.
local function answer(number)
  call('SET', KEYS[4], number, 'PX', ARGV[3])
  return {0, now, number}
end

