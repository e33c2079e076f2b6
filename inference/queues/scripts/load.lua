-- returns {waiting, of these background, running, {owner, count, …}, ms since the oldest that isn't
-- background was submitted, 0 without one}
local oldest = 0
for _, id in ipairs(redis.call('ZRANGE', WAITING, 0, -1)) do
  local g = redis.call('HMGET', generation(id), 'lane', 'submitted')
  if g[1] ~= 'background' then
    oldest = math.max(0, NOW - tonumber(g[2]))
    break
  end
end
return {
  redis.call('ZCARD', WAITING),
  tonumber(redis.call('HGET', META, 'background') or '0'),
  redis.call('ZCARD', RUNNING),
  redis.call('HGETALL', OWNED),
  oldest,
}
