-- ARGV: engine, heartbeat, mark of the last reply, then id and epoch of each running generation
-- returns {lost ids, {id, by, …} to be stopped, what to forget ('': everything), mark, ids whose
--          reasoning is to end}
local engine, lost, cancelled, ended = ARGV[4], {}, {}, {}
awake()
redis.call('HSET', ENGINES, engine, ARGV[5])
redis.call('ZADD', SEEN, NOW, engine)
for i = 7, #ARGV, 2 do
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
    if redis.call('HGET', generation(id), 'thoughts') == '2' then ended[#ended + 1] = id end
  end
end

-- A mark is the server's run and the number of the last purge. Another run may have lost some, and
-- of those that aren't kept any more nobody knows what they were.
local purges, run = {}, (server())
local num = tonumber(redis.call('HGET', META, 'purges') or '0')
if ARGV[6] ~= '' then
  local its_run, seen = string.match(ARGV[6], '^(%w+):(%d+)$')
  local num_new = its_run == run and num - tonumber(seen) or -1
  if num_new > 0 then purges = redis.call('LRANGE', PURGES, -num_new, -1) end
  if num_new < 0 or #purges < num_new then purges = { '' } end
end
return { lost, cancelled, purges, run .. ':' .. int(num), ended }
