-- ARGV: ids; returns {ahead, waiting} for each, {-1, -1} if it doesn't wait
promote()
local out = {}
for i = 4, #ARGV do
  local ahead, waiting = -1, -1
  if redis.call('HGET', generation(ARGV[i]), 'state') == 'queued' then
    ahead, waiting = place(ARGV[i])
  end
  out[#out + 1] = { ahead, waiting }
end
return out
