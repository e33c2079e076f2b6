-- returns {{age in ms, heartbeat}, …} by engine id
local old = redis.call('ZRANGEBYSCORE', SEEN, '-inf', NOW - CFG.engine_shown)
for _, engine in ipairs(old) do
  redis.call('ZREM', SEEN, engine)
  redis.call('HDEL', ENGINES, engine)
end
local out = {}
local seen = redis.call('ZRANGE', SEEN, 0, -1, 'WITHSCORES')
for i = 1, #seen, 2 do
  out[#out + 1] = { NOW - tonumber(seen[i + 1]), redis.call('HGET', ENGINES, seen[i]) }
end
return out
