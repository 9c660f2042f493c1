-- inspect: tells what is known of a name, of whatever kind it is. It changes nothing.
--
-- KEYS[1]  the name
-- KEYS[2]  our token record: "last first size owner"
-- KEYS[3]  Redisson's token
--
-- ARGV[1]  how many fields of a hash are listed at most; a larger one is told as a hash without its fields
--
-- Reply    {0, server time, type, PTTL, token record or '', Redisson's token or '', content}
--          content: the text of a string; fields and values of a hash, in turn; else nothing
--
-- Cost     6 commands, O(1) but for the fields that are listed.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local kind = call('TYPE', KEYS[1]).ok
local function text_of(key)
  local text = redis.pcall('GET', key)
  return type(text) == 'string' and text or ''
end
local reply = {0, now, kind, call('PTTL', KEYS[1]), text_of(KEYS[2]), text_of(KEYS[3])}
if kind == 'string' then
  reply[7] = call('GETRANGE', KEYS[1], 0, 1023)
elseif kind == 'hash' and call('HLEN', KEYS[1]) <= tonumber(ARGV[1]) then
  reply[7] = call('HGETALL', KEYS[1])
end
return reply
