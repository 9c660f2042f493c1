-- Reads the stock under a fencing token, and bars all lower ones from now on.
-- KEYS[1]  the stock: a hash of left, fence, and for each buyer the number of the last sale
-- ARGV[1]  the token     ARGV[2]  the buyer
-- Reply    {left, number of the buyer's last sale}; {} if a higher token was here; nil if there is no stock
local stock = redis.call('HMGET', KEYS[1], 'left', 'fence', ARGV[2])
if not stock[1] then return nil end
local fence, token = tonumber(stock[2] or '0'), tonumber(ARGV[1])
if token < fence then return {} end
if token > fence then redis.call('HSET', KEYS[1], 'fence', ARGV[1]) end
return {stock[1], stock[3] or '0'}
