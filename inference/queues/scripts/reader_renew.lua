-- ARGV: ids; returns those that are unknown or ended
local out = {}
awake()
for i = 4, #ARGV do
  local g = redis.call('HMGET', generation(ARGV[i]), 'state', 'transient')
  if not g[1] or g[1] == 'ended' then
    out[#out + 1] = ARGV[i]
  elseif g[2] == '1' then
    redis.call('ZADD', READERS, NOW + CFG.reader_lease, ARGV[i])
  end
end
return out
