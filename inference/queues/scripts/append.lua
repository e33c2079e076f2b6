-- ARGV: engine, then for each generation: id, epoch, incarnation, first seq, number of events,
-- and for each event: "started" | "delta" | "terminal" | "other", two counts, its text
-- returns one outcome a generation
local engine, out, i = ARGV[4], {}, 5
local run = server()

local function write(id, last, incarnation, first, count, at)
  local key, bytes = generation(id), 0
  for n = 0, count - 1 do
    local kind, a, b, text = ARGV[at + 4 * n], ARGV[at + 4 * n + 1], ARGV[at + 4 * n + 2], ARGV[at + 4 * n + 3]
    local seq = first + n
    if seq > last then
      redis.call('XADD', stream(id), incarnation .. '-' .. int(seq), 'e', text)
      last, bytes = seq, bytes + #text
      if kind == 'delta' then
        redis.call('HINCRBY', key, 'completion', a)
      elseif kind == 'started' and redis.call('HGET', key, 'prompt') == '0' then
        redis.call('HSET', key, 'prompt', a, 'cached', b)
      elseif kind == 'terminal' then
        redis.call('HSET', key, 'last', int(last), 'run', run)
        close(id, text)
        return 'ok'
      end
    end
  end
  redis.call('HSET', key, 'last', int(last), 'run', run)
  return redis.call('HINCRBY', key, 'bytes', bytes) > CFG.stream_bytes and 'full' or 'ok'
end

while ARGV[i] do
  local id, epoch, incarnation = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local first, count = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local outcome = lease(id, engine, epoch)
  if outcome == 'own' then
    local g = redis.call('HMGET', generation(id), 'last', 'incarnation')
    if g[2] ~= incarnation or first > g[1] + 1 then
      outcome = 'gap'
    else
      outcome = write(id, tonumber(g[1]), incarnation, first, count, i + 5)
    end
  elseif outcome == 'lost' then
    outcome = 'gap'
  end
  out[#out + 1] = outcome
  i = i + 5 + 4 * count
end
return out
