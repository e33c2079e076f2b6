-- ARGV: limit; returns {ended at ms, id, on_finish, …}, oldest first
local out = {}
local found = redis.call('ZRANGE', FINISHED, 0, ARGV[4] - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local on_finish = redis.call('HGET', generation(found[i]), 'on_finish')
  if on_finish then
    out[#out + 1] = int(found[i + 1])
    out[#out + 1] = found[i]
    out[#out + 1] = on_finish
  else
    redis.call('ZREM', FINISHED, found[i]) -- outlived its log
  end
end
return out
