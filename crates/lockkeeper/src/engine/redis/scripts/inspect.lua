-- inspect: tells what is known of a name, of whatever kind it is. It changes nothing.
--
-- KEYS[1]  the name
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token
-- KEYS[4]  the line of a fair mutex
-- KEYS[5]  when each that waits in it counts as dead, in milliseconds of the server's time
-- KEYS[6]  the notices of writers that wait for a read-write lock: each with the moment at which it falls
-- KEYS[7]  what the keys of all read holds begin with
-- KEYS[8]  the ids of the permits that are held of a semaphore, with their ends in milliseconds
-- KEYS[9]  our record of a latch
-- KEYS[10] our record of which semaphore it is
--
-- ARGV[1]  how many fields of a hash, waiters of a line, and permits are listed at most; a larger hash is told without its fields
--
-- Reply    {0, server time, type, PTTL, token record or '', Redisson's token or '', content, line, writers, ends,
--           latch record or '', semaphore record or '', held, ended, permits}
--          content: the text of a string; fields and values of a hash, in turn; else ''
--          line: each that waits with the moment at which it counts as dead or '', in turn
--          writers: the same for writers that wait for a read-write lock
--          ends: for each holder of a read-write lock, in the order of the fields, how long its longest read hold has left
--          held, ended: how many permits are held, and how many have ended, or -1 each where there are no ids at all
--          permits: the ids of those that are held and their ends, in turn
--
-- Cost     12 commands, 3 more where permits are held, O(log(held)) but for the fields, waiters, read holds and permits that
--          are listed.
local kind = call('TYPE', KEYS[1]).ok
local function text_of(key)
  local text = redis.pcall('GET', key)
  return type(text) == 'string' and text or ''
end
local reply = {0, now, kind, call('PTTL', KEYS[1]), text_of(KEYS[2]), text_of(KEYS[3])}
reply[7] = ''
if kind == 'string' then
  reply[7] = call('GETRANGE', KEYS[1], 0, 1023)
elseif kind == 'hash' and call('HLEN', KEYS[1]) <= tonumber(ARGV[1]) then
  reply[7] = call('HGETALL', KEYS[1])
end
local line = {}
local waiters = redis.pcall('LRANGE', KEYS[4], 0, ARGV[1] - 1)
if not waiters.err and #waiters > 0 then
  for _, waiter in ipairs(waiters) do
    local dead_at = redis.pcall('ZSCORE', KEYS[5], waiter)
    line[#line + 1] = waiter
    line[#line + 1] = type(dead_at) == 'string' and dead_at or ''
  end
end
reply[8] = line
local writers = pcall('ZRANGEBYSCORE', KEYS[6], '(' .. string.format('%.0f', math.floor(now / 1000)), '+inf', 'WITHSCORES')
reply[9] = writers.err and {} or writers
local ends = {}
if kind == 'hash' and reply[7] ~= '' and call('HEXISTS', KEYS[1], 'mode') == 1 then
  for i = 1, #reply[7], 2 do
    local owner, holds = reply[7][i], reply[7][i + 1]
    local longest = 0
    if owner ~= 'mode' and string.find(holds, '^%d+$') then
      longest = longest_of(KEYS[7], owner, holds)
    end
    ends[#ends + 1] = longest
  end
end
reply[10] = ends
reply[11], reply[12] = text_of(KEYS[9]), text_of(KEYS[10])
reply[13], reply[14], reply[15] = -1, -1, {}
if call('TYPE', KEYS[8]).ok == 'zset' then
  local ms = math.floor(now / 1000)
  local ended = call('ZCOUNT', KEYS[8], 0, ms)
  reply[13], reply[14] = call('ZCARD', KEYS[8]) - ended, ended
  reply[15] =
    call('ZRANGEBYSCORE', KEYS[8], string.format('(%.0f', ms), '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
end
return reply
