-- permits/release: gives leased permits back, and tells how many are available then. What had ended is given back as well.
--
-- KEYS[1]  the semaphore: how many permits are available
-- KEYS[2]  the ids of those that are held, with their ends in milliseconds
-- KEYS[3]  the signal channel
--
-- ARGV[1]  the ids: 32 hex digits each
--
-- Reply    {0, server time, subscribers told}    given back, and all had been held
--          {1, server time}                      not all of them were held; those that were there are given back
--          {3, server time, kind}                the key is something else
--
-- Cost     8 commands and 2 an id, each O(log(held)), and O(subscribers). Works when the server is out of memory: its first
--          write only removes.
local ids = ids_in(ARGV[1])
if not ids then
  return redis.error_reply('ERR bad arguments')
end
local available, other = available_at(KEYS[1], KEYS[2], 'permits')
if other then
  return {3, now, other}
end
local removed, held = 0, 0
for _, id in ipairs(ids) do
  local due = call('ZSCORE', KEYS[2], id)
  if due then
    call('ZREM', KEYS[2], id)
    removed = removed + 1
    if tonumber(due) > ms then
      held = held + 1
    end
  end
end
if removed == 0 then
  return {1, now}
end
removed = removed + call('ZREMRANGEBYSCORE', KEYS[2], 0, ms)
if not available then
  -- The semaphore was removed, and its permits with it.
  return {1, now}
end
local told = tell(KEYS[3], call('INCRBY', KEYS[1], removed))
if held < #ids then
  return {1, now}
end
return {0, now, told}
