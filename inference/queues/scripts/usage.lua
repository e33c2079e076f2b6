-- ARGV: limit; returns {{mark, id, account, end, ended at ms}, …}, oldest first
local out = {}
for i, entry in ipairs(redis.call('XRANGE', USAGE, '-', '+', 'COUNT', ARGV[4])) do
  local fields = entry[2]
  out[i] = { entry[1], fields[2], fields[4], fields[6], fields[8] }
end
return out
