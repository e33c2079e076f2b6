-- ARGV: reply, owner; returns 1 if reasoning ends, 0 if it may not be asked to, -1 if there is none
local outcome = -1
for _, key in ipairs({ RUNNING, WAITING }) do
  for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local g = redis.call('HMGET', generation(id), 'reply', 'owner', 'thoughts')
    if g[1] == ARGV[4] and g[2] == ARGV[5] then
      outcome = math.max(outcome, 0)
      if g[3] == '1' or g[3] == '2' then
        redis.call('HSET', generation(id), 'thoughts', '2')
        outcome = 1
      end
    end
  end
end
if outcome == 1 then bump_control() end
return outcome
