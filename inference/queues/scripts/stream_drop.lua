-- Not after prelude.lua: it touches no queue.
-- KEYS[1]  hash of an owner's streams
-- ARGV     a name, and the first generation of the record that is meant
-- returns 1 if it was there
local text = redis.call('HGET', KEYS[1], ARGV[1])
if not text or cjson.decode(text).ids[1] ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
