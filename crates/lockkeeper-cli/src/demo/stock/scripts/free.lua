-- Frees a hand-written lock: compare and delete.
-- KEYS[1]  the lock: a string     ARGV[1]  the holder's value
-- Reply    1 if it was deleted, else 0
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
