-- ARGV: engine, "1" for a death; returns the ids it held
local engine, out = ARGV[4], {}
awake()
for _, id in ipairs(redis.call('ZRANGE', RUNNING, 0, -1)) do
  if redis.call('HGET', generation(id), 'engine') == engine then
    take_back(id, ARGV[5] == '1')
    out[#out + 1] = id
  end
end
redis.call('HDEL', ENGINES, engine)
redis.call('ZREM', SEEN, engine)
if #out > 0 then
  bump_control()
  bump_places()
end
return out
