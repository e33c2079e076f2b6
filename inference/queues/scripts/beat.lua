-- ARGV: engine, heartbeat, then id and epoch of each running generation
-- returns {lost ids, {id, by, …} to be stopped}
local engine, lost, cancelled = ARGV[4], {}, {}
awake()
redis.call('HSET', ENGINES, engine, ARGV[5])
redis.call('ZADD', SEEN, NOW, engine)
for i = 6, #ARGV, 2 do
  local id = ARGV[i]
  local held = lease(id, engine, ARGV[i + 1])
  if held == 'stale' then
    lost[#lost + 1] = id
  elseif held == 'own' then
    redis.call('ZADD', RUNNING, lease_till(), id)
    local by = redis.call('HGET', generation(id), 'cancel')
    if by == '' and readers_gone(id) then
      by = 'reader_gone'
      redis.call('HSET', generation(id), 'cancel', by)
    end
    if by ~= '' then
      cancelled[#cancelled + 1] = id
      cancelled[#cancelled + 1] = by
    end
  end
end
return { lost, cancelled }
