-- The log goes on under a new incarnation, from one snapshot.
-- ARGV: engine, id, epoch, incarnation, snapshot, seq; returns 1 if it was done
local id = ARGV[5]
if lease(id, ARGV[4], ARGV[6]) ~= 'own' then return 0 end
redis.call('DEL', stream(id))
redis.call('SET', snapshot(id), ARGV[8])
redis.call('HSET', generation(id), 'incarnation', ARGV[7], 'last', ARGV[9], 'folded', ARGV[9],
  'bytes', '0', 'run', (server()))
return 1
