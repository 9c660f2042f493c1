-- permits/renew: moves the ends of leased permits on, in one batch. It never takes a permit again.
--
-- KEYS[1..n]    the ids that are held, with their ends in milliseconds
--
-- ARGV[1]       use-by: the server time in microseconds after which this copy does nothing
-- ARGV[2]       response limit in microseconds: no honest use-by is further ahead than twice that
-- ARGV[3]       lease in milliseconds: the life wanted from now on; a longer one is kept
-- ARGV[4]       the longest lease that these holds ever asked for: a longer life is cut to it
-- ARGV[5..n+4]  the ids of each hold: 32 hex digits each
--
-- Reply         {0, server time, i, j, ..}    all are held but those with these numbers
--               {2, server time}              too late, or the use-by is too far ahead
--
-- Cost          1 command a hold and 2 an id, each O(log(held)). It works when the server is out of memory.
local lease, longest = ARGV[3] + 0, ARGV[4] + 0
if lease < 1 or longest < lease then
  return redis.error_reply('ERR bad arguments')
end
if is_late(ARGV[1], ARGV[2]) then
  return {2, now}
end
local reply = {0, now}
for i, key in ipairs(KEYS) do
  local ids = ids_in(ARGV[i + 4]) or {}
  local ends = {}
  for place, id in ipairs(ids) do
    local due = pcall('ZSCORE', key, id)
    if type(due) == 'table' and due.err then
      if not string.find(due.err, 'WRONGTYPE', 1, true) then
        return due
      end
      due = nil
    end
    if not due or tonumber(due) <= ms then
      break
    end
    ends[place] = tonumber(due)
  end
  if #ids == 0 or #ends < #ids then
    reply[#reply + 1] = i
  else
    -- It removes nothing. A script that has begun to write goes on when the server is out of memory, and a new end takes none.
    call('ZREM', key, '')
    for place, id in ipairs(ids) do
      local due = math.min(math.max(ends[place], ms + lease), ms + longest)
      if due ~= ends[place] then
        call('ZADD', key, 'XX', due, id)
      end
    end
  end
end
return reply
