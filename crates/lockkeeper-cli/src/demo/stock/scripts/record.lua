-- Writes a sale once, however often it is sent, unless a higher token was here.
-- KEYS[1]  the stock: a hash of left, fence, and for each buyer the number of the last sale
-- ARGV[1]  tickets left after it     ARGV[2]  the buyer     ARGV[3]  the number of this sale
-- ARGV[4]  the number of the buyer's last sale as the writer saw it     ARGV[5]  the token, or 0
-- Reply    1 if the sale is recorded, now or before; 0 if it is not and never will be; nil if there is no stock
local stock = redis.call('HMGET', KEYS[1], 'left', 'fence', ARGV[2])
if not stock[1] then return nil end
if stock[3] == ARGV[3] then return 1 end
if (stock[3] or '0') ~= ARGV[4] or tonumber(ARGV[5]) < tonumber(stock[2] or '0') then return 0 end
redis.call('HSET', KEYS[1], 'left', ARGV[1], ARGV[2], ARGV[3])
return 1
