-- ARGV: ids; returns those that are unknown or ended
local out = {}
for i = 4, #ARGV do
  local state = redis.call('HGET', generation(ARGV[i]), 'state')
  if not state or state == 'ended' then
    out[#out + 1] = ARGV[i]
  else
    redis.call('ZADD', READERS, NOW + CFG.reader_lease, ARGV[i])
  end
end
return out
