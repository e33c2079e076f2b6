-- ARGV: terminal event without usage; returns the ids
local out = redis.call('ZRANGE', WAITING, 0, -1)
for _, id in ipairs(out) do
  dequeue(id)
  finish(id, ARGV[4])
end
if #out > 0 then bump_places() end
return out
