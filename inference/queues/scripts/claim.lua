-- ARGV: engine, slots, "1" if idle, nonce, most utility requests
-- returns {{id, request, epoch, incarnation, last seq, "1" to be numbered anew, "1" alone,
--           queued ms, "2" if its reasoning is to end, snapshot or "", entries}, …}
local engine, slots, idle, nonce = ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7]
local CLAIMED = BASE .. 'claimed:' .. engine
local CLAIMED_KEPT_MS = 60000
awake()

local function answer(id)
  local g = redis.call('HMGET', generation(id), 'request', 'epoch', 'incarnation', 'last', 'run',
    'alone', 'queued', 'thoughts')
  local anew, text, entries = '0', '', {}
  if tonumber(g[4]) >= 0 then
    if g[5] ~= (server()) then anew = '1' end
    text = redis.call('GET', snapshot(id)) or ''
    entries = redis.call('XRANGE', stream(id), '-', '+')
  end
  return { id, g[1], g[2], g[3], g[4], anew, g[6], g[7], g[8] or '0', text, entries }
end

-- the answer to the last call got lost on its way: give it again
local given = redis.call('LRANGE', CLAIMED, 0, -1)
if given[1] == nonce then
  local out = {}
  for i = 2, #given, 2 do
    if lease(given[i], engine, given[i + 1]) == 'own' then out[#out + 1] = answer(given[i]) end
  end
  if #out > 0 then return out end
end

promote()
sweep_waiting({}, {})
local out, record = {}, { nonce }

-- how long it takes from claim to claim while others wait: what a full queue tells who comes
local function note_claim()
  local g = redis.call('HMGET', META, 'claimed_at', 'claim_gap')
  if g[1] then
    local gap = math.max(0, NOW - g[1])
    if g[2] then gap = g[2] + (gap - g[2]) / 4 end
    redis.call('HSET', META, 'claim_gap', int(gap))
  end
  if redis.call('ZCARD', WAITING) > 0 then
    redis.call('HSET', META, 'claimed_at', int(NOW))
  else
    redis.call('HDEL', META, 'claimed_at')
  end
end

local function give(id, alone)
  dequeue(id)
  note_claim()
  local g = redis.call('HMGET', generation(id), 'epoch', 'submitted')
  local epoch = int(math.max(NOW, g[1] + 1))
  redis.call('HSET', generation(id), 'state', 'running', 'engine', engine, 'epoch', epoch,
    'alone', alone and '1' or '0', 'queued', int(NOW - g[2]))
  redis.call('ZADD', RUNNING, lease_till(), id)
  out[#out + 1] = answer(id)
  record[#record + 1] = id
  record[#record + 1] = epoch
end

local function give_from(lane)
  local id, owner = lane_next(lane)
  if not id then return false end
  give(id, false)
  lane_turn(lane, owner)
  return true
end

local function suspect(id)
  return tonumber(redis.call('HGET', generation(id), 'deaths')) >= CFG.max_deaths
end

local holds_answers = false
for _, id in ipairs(redis.call('ZRANGE', RUNNING, 0, -1)) do
  local g = redis.call('HMGET', generation(id), 'engine', 'alone', 'lane')
  if g[1] == engine then
    if g[2] == '1' then slots = 0 end
    if g[3] ~= 'utility' then holds_answers = true end
  end
end

local first = redis.call('ZRANGE', FRONT, 0, 0)[1]
local is_suspect_next = first and slots > 0 and suspect(first)
if is_suspect_next and idle then
  give(first, true)
else
  -- While answers are written the engine won't be idle anyhow; then what needs no slot has to run
  -- dry, or whoever asks for vectors all the time keeps the suspect out.
  local utilities = tonumber(ARGV[8])
  if is_suspect_next and not holds_answers then utilities = 0 end
  for _ = 1, utilities do
    if not give_from('utility') then break end
  end
  while slots > 0 do
    first = redis.call('ZRANGE', FRONT, 0, 0)[1]
    -- A suspect waits for an idle engine, and everything behind it waits with it: else a busy
    -- engine would never be idle.
    if first and suspect(first) then break end
    if first then
      give(first, false)
    elseif not (give_from('interactive') or give_from('background')) then
      break
    end
    slots = slots - 1
  end
end

if #out > 0 then
  redis.call('DEL', CLAIMED)
  redis.call('RPUSH', CLAIMED, unpack(record))
  redis.call('PEXPIRE', CLAIMED, CLAIMED_KEPT_MS)
  bump_places()
end
return out
