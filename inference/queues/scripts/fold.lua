-- ARGV: engine, id, epoch, snapshot, seq; returns 1 unless somebody else owns it
local id, seq = ARGV[5], tonumber(ARGV[8])
local held = lease(id, ARGV[4], ARGV[6])
if held ~= 'own' then return held == 'lost' and 1 or 0 end
local g = redis.call('HMGET', generation(id), 'last', 'incarnation', 'folded')
-- beyond the log: the server lost entries; the next append says so
if seq > tonumber(g[1]) or seq <= tonumber(g[3]) then return 1 end
redis.call('SET', snapshot(id), ARGV[7])
redis.call('XTRIM', stream(id), 'MINID', '=', g[2] .. '-' .. int(seq + 1))
local bytes = 0
for _, entry in ipairs(redis.call('XRANGE', stream(id), '-', '+')) do
  bytes = bytes + #entry[2][2]
end
redis.call('HSET', generation(id), 'folded', ARGV[8], 'bytes', int(bytes))
return 1
