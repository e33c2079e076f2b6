-- ARGV: id, incarnation, seq, limit
-- returns nil or {incarnation, "1" with a reset, snapshot or "", entries}
local id, seq = ARGV[4], tonumber(ARGV[6])
local g = redis.call('HMGET', generation(id), 'incarnation', 'last', 'folded')
if not g[1] then return false end
local last, folded = tonumber(g[2]), tonumber(g[3])
-- ahead of what exists: the server lost entries that the reader has seen
local reset = folded > seq or seq > last or (seq >= 0 and ARGV[5] ~= g[1])
local text = ''
if reset then
  seq = folded
  if folded >= 0 then text = redis.call('GET', snapshot(id)) or '' end
end
local entries = redis.call('XRANGE', stream(id), g[1] .. '-' .. int(seq + 1), '+', 'COUNT', ARGV[7])
return { g[1], reset and '1' or '0', text, entries }
