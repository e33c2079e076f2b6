-- ARGV: id; returns nil or {state, incarnation, last, deaths, epoch, cancel, ahead, waiting, ended}
local id = ARGV[4]
local g = redis.call('HMGET', generation(id), 'state', 'incarnation', 'last', 'deaths', 'epoch', 'cancel', 'ended')
if not g[1] then return false end
promote()
local ahead, waiting = -1, -1
if g[1] == 'queued' then ahead, waiting = place(id) end
return { g[1], g[2], g[3], g[4], g[5], g[6], ahead, waiting, g[7] or '' }
