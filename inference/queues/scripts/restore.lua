-- ARGV: engine, id, epoch, incarnation, snapshot, seq, prompt, cached, completion tokens,
--       "1" if it has ended, deaths, request, lane, owner, on_finish, deadline, submitted_at,
--       "1" if it ends without a reader, reply, "1" if its reasoning may be ended,
--       account, its terminal event or ""
-- returns 1 unless somebody else owns it
local engine, id, epoch = ARGV[4], ARGV[5], ARGV[6]
local held = lease(id, engine, epoch)
if held == 'stale' then return 0 end
local key = generation(id)
local state = redis.call('HGET', key, 'state')
if state == 'queued' then dequeue(id) end
if not state then
  redis.call('HSET', key,
    'request', ARGV[15], 'lane', ARGV[16], 'owner', ARGV[17], 'on_finish', ARGV[18],
    'deadline', ARGV[19], 'submitted', ARGV[20], 'number', redis.call('HINCRBY', META, 'number', 1),
    'transient', ARGV[21], 'deaths', ARGV[14], 'cancel', '', 'queued', '0',
    'reply', ARGV[22], 'thoughts', ARGV[23], 'account', ARGV[24],
    'alone', tonumber(ARGV[14]) >= CFG.max_deaths and '1' or '0')
  if ARGV[21] == '1' then redis.call('ZADD', READERS, NOW + CFG.reader_lease, id) end
end
redis.call('HSET', key, 'state', 'running', 'engine', engine, 'epoch', epoch,
  'incarnation', ARGV[7], 'last', ARGV[9], 'folded', ARGV[9], 'bytes', '0', 'run', (server()),
  'prompt', ARGV[10], 'cached', ARGV[11], 'completion', ARGV[12])
redis.call('ZADD', RUNNING, lease_till(), id)
redis.call('DEL', stream(id))
redis.call('SET', snapshot(id), ARGV[8])
if ARGV[13] == '1' then close(id, ARGV[25]) end
return 1
