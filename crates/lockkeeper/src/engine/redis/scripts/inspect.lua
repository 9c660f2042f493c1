-- inspect: tells what is known of a name, of whatever kind it is. It changes nothing.
--
-- KEYS[1]  the name
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token
-- KEYS[4]  the line of a fair mutex
-- KEYS[5]  when each that waits in it counts as dead, in milliseconds of the server's time
--
-- ARGV[1]  how many fields of a hash, and waiters of a line, are listed at most; a larger hash is told without its fields
--
-- Reply    {0, server time, type, PTTL, token record or '', Redisson's token or '', content, line}
--          content: the text of a string; fields and values of a hash, in turn; else ''
--          line: each that waits with the moment at which it counts as dead or '', in turn
--
-- Cost     8 commands, O(1) but for the fields and waiters that are listed.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
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
return reply
