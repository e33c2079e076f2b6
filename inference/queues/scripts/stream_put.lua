-- Not after prelude.lua: it touches no queue.
-- KEYS[1]  hash of an owner's streams: name -> record as JSON
-- ARGV     now and the new record's expiry (seconds), its name, its text, its number of answers,
--          and how many answers the owner may have in all
-- returns {"ok", text of the record that it replaces or ""} or {"full"}
local NOW, number, most = tonumber(ARGV[1]), tonumber(ARGV[5]), tonumber(ARGV[6])
local till, replaced = tonumber(ARGV[2]), ''
local found = redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  local record = cjson.decode(found[i + 1])
  if record.expires_at <= NOW then
    redis.call('HDEL', KEYS[1], found[i])
  elseif found[i] == ARGV[3] then
    replaced = found[i + 1]
  else
    number = number + #record.ids
    till = math.max(till, record.expires_at)
  end
end
if number > most then return { 'full' } end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
redis.call('EXPIREAT', KEYS[1], string.format('%.0f', till + 1))
return { 'ok', replaced }
