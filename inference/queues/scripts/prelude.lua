#!lua flags=allow-oom
-- Put before every script: names of keys, time, the waiting lanes, and how a generation ends.
-- The rules are told in plain Python in memory.py and fairness.py; keep both alike.
--
-- KEYS[1]  {prefix}{model}:meta; every other key has the same prefix and hash tag
-- ARGV[1]  bounds and times as JSON (milliseconds, bytes)
-- ARGV[2]  milliseconds added to the server's clock (tests)
-- ARGV[3]  terminal events the queue itself writes, as JSON {name: event text}
-- ARGV[4…] the script's own
--
-- allow-oom: an end, a cancel or a heartbeat must work on a full server; submit has its own bound.

local META = KEYS[1]
local BASE = string.sub(META, 1, -5)
local CFG = cjson.decode(ARGV[1])
local WAITING, FRONT, RUNNING = BASE .. 'waiting', BASE .. 'front', BASE .. 'running'
local OWNED, AGING, DEADLINES = BASE .. 'owned', BASE .. 'aging', BASE .. 'deadlines'
local OWNED_BYTES = BASE .. 'owned_bytes'
local READERS, FINISHED = BASE .. 'readers', BASE .. 'finished'
local ENGINES, SEEN = BASE .. 'engines', BASE .. 'seen'
local PURGES = BASE .. 'purges'
local USAGE = BASE .. 'usage'
local CONTROL, PLACES = BASE .. 'control', BASE .. 'places'
local MARKS_KEPT = 16

local function generation(id) return BASE .. 'g:' .. id end
local function stream(id) return BASE .. 's:' .. id end
local function snapshot(id) return BASE .. 'n:' .. id end

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[2])
end
local NOW = now()

-- Run id of the server process, and a time (ms, its own clock) that isn't before its start. Both
-- figures behind it are whole seconds, so it may be up to two seconds late.
local function server()
  local info = redis.call('INFO', 'server')
  local up = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  return string.match(info, 'run_id:(%w+)'), (redis.call('TIME')[1] - up + 1) * 1000
end

local function int(n) return string.format('%.0f', n) end

local function terminal(name) return cjson.decode(ARGV[3])[name] end

local function bump_control() redis.call('XADD', CONTROL, 'MAXLEN', '=', MARKS_KEPT, '*', 'k', '1') end
local function bump_places() redis.call('XADD', PLACES, 'MAXLEN', '=', MARKS_KEPT, '*', 'k', '1') end

-- Lanes: owners take turns; of one owner the earliest submit comes first -----------------------

local function owners(lane) return BASE .. 'owners:' .. lane end
local function queue(lane, owner) return BASE .. 'q:' .. lane .. ':' .. owner end
local function lane_len(lane) return tonumber(redis.call('HGET', META, 'len:' .. lane) or '0') end

local function lane_push(lane, owner, id, number)
  redis.call('ZADD', queue(lane, owner), number, id)
  redis.call('HINCRBY', META, 'len:' .. lane, 1)
  if not redis.call('ZSCORE', owners(lane), owner) then
    redis.call('ZADD', owners(lane), redis.call('HINCRBY', META, 'turn', 1), owner)
  end
end

local function lane_remove(lane, owner, id)
  if redis.call('ZREM', queue(lane, owner), id) == 0 then return end
  redis.call('HINCRBY', META, 'len:' .. lane, -1)
  if redis.call('EXISTS', queue(lane, owner)) == 0 then redis.call('ZREM', owners(lane), owner) end
end

local function lane_next(lane)
  local owner = redis.call('ZRANGE', owners(lane), 0, 0)[1]
  if not owner then return nil end
  return redis.call('ZRANGE', queue(lane, owner), 0, 0)[1], owner
end

local function lane_turn(lane, owner)
  if redis.call('ZSCORE', owners(lane), owner) then
    redis.call('ZADD', owners(lane), redis.call('HINCRBY', META, 'turn', 1), owner)
  end
end

-- Waiting --------------------------------------------------------------------------------------

local function enqueue(id, at)
  local g = redis.call('HMGET', generation(id), 'number', 'owner', 'lane', 'submitted', 'deadline')
  redis.call('HSET', generation(id), 'state', 'queued', 'at', at, 'engine', '', 'alone', '0')
  redis.call('ZADD', WAITING, g[1], id)
  redis.call('ZADD', DEADLINES, g[5], id)
  redis.call('HINCRBY', OWNED, g[2], 1)
  redis.call('HINCRBY', OWNED_BYTES, g[2], redis.call('HSTRLEN', generation(id), 'request'))
  if g[3] == 'background' then redis.call('HINCRBY', META, 'background', 1) end
  if at == 'front' then redis.call('ZADD', FRONT, g[1], id) else lane_push(at, g[2], id, g[1]) end
  if at == 'background' then redis.call('ZADD', AGING, g[4], id) end
end

local function dequeue(id)
  local g = redis.call('HMGET', generation(id), 'at', 'owner', 'lane')
  redis.call('ZREM', WAITING, id)
  redis.call('ZREM', DEADLINES, id)
  redis.call('ZREM', AGING, id)
  redis.call('HINCRBY', OWNED_BYTES, g[2], -redis.call('HSTRLEN', generation(id), 'request'))
  if redis.call('HINCRBY', OWNED, g[2], -1) <= 0 then
    redis.call('HDEL', OWNED, g[2])
    redis.call('HDEL', OWNED_BYTES, g[2])
  end
  if g[3] == 'background' then redis.call('HINCRBY', META, 'background', -1) end
  if g[1] == 'front' then redis.call('ZREM', FRONT, id) else lane_remove(g[1], g[2], id) end
end

-- background requests that waited long enough go on as interactive ones, in order of submits
local function promote()
  local aged = {}
  for i, id in ipairs(redis.call('ZRANGEBYSCORE', AGING, '-inf', NOW - CFG.background_age)) do
    local g = redis.call('HMGET', generation(id), 'number', 'owner')
    aged[i] = { tonumber(g[1]), g[2], id }
  end
  table.sort(aged, function(one, other) return one[1] < other[1] end)
  for _, item in ipairs(aged) do
    local number, owner, id = item[1], item[2], item[3]
    redis.call('ZREM', AGING, id)
    lane_remove('background', owner, id)
    lane_push('interactive', owner, id, number)
    redis.call('HSET', generation(id), 'at', 'interactive')
  end
end

-- claims before `id`, and how many wait in its line; places.lua tells it of many at once
local function place(id)
  local g = redis.call('HMGET', generation(id), 'at', 'owner')
  local at, owner = g[1], g[2]
  local waiting = redis.call('ZCARD', FRONT) + lane_len('interactive') + lane_len('background')
  if at == 'front' then return redis.call('ZRANK', FRONT, id), waiting end
  local ahead = 0
  if at == 'utility' then waiting = lane_len('utility') else ahead = redis.call('ZCARD', FRONT) end
  if at == 'background' then ahead = ahead + lane_len('interactive') end
  local own = redis.call('ZRANK', queue(at, owner), id)
  local before = true
  for _, other in ipairs(redis.call('ZRANGE', owners(at), 0, -1)) do
    if other == owner then
      ahead = ahead + own
      before = false
    else
      local len = redis.call('ZCARD', queue(at, other))
      ahead = ahead + math.min(len, before and own + 1 or own)
    end
  end
  return ahead, waiting
end

-- Ends -----------------------------------------------------------------------------------------

local function keep_for(id, ms)
  redis.call('PEXPIRE', generation(id), ms)
  redis.call('PEXPIRE', stream(id), ms)
  redis.call('PEXPIRE', snapshot(id), ms)
end

-- `event`, the terminal one, is written already; the usage ledger learns of it if somebody has to
-- answer for it
local function close(id, event)
  local account = redis.call('HGET', generation(id), 'account')
  if account and account ~= '' then
    redis.call('XADD', USAGE, 'MAXLEN', '~', CFG.max_usage, '*', 'id', id, 'account', account,
      'end', event, 'at', int(NOW))
  end
  redis.call('HSET', generation(id), 'state', 'ended', 'engine', '', 'ended', int(NOW))
  redis.call('HDEL', generation(id), 'request')
  redis.call('ZREM', RUNNING, id)
  redis.call('ZREM', READERS, id)
  if redis.call('HGET', generation(id), 'on_finish') ~= '' then
    redis.call('ZADD', FINISHED, NOW, id)
    keep_for(id, CFG.unfinalised_keep)
  elseif redis.call('HGET', generation(id), 'lane') == 'utility' then
    keep_for(id, CFG.utility_keep)
  else
    keep_for(id, CFG.ended_keep)
  end
end

-- the queue's own end of a generation that no engine holds; `event` carries no usage yet
local function finish(id, event)
  local g = redis.call('HMGET', generation(id), 'last', 'incarnation', 'prompt', 'cached', 'completion')
  if tonumber(g[3]) + tonumber(g[5]) > 0 then
    event = string.sub(event, 1, -2) .. ',"usage":{"t":"Usage","prompt_tokens":' .. g[3]
      .. ',"completion_tokens":' .. g[5] .. ',"cached_tokens":' .. g[4] .. '}}'
  end
  local seq = int(g[1] + 1)
  redis.call('XADD', stream(id), g[2] .. '-' .. seq, 'e', event)
  redis.call('HSET', generation(id), 'last', seq, 'run', (server()))
  close(id, event)
end

local function readers_gone(id)
  local till = redis.call('ZSCORE', READERS, id)
  return till and tonumber(till) <= NOW
end

-- end what waits past its deadline or without a reader
local function sweep_waiting(failed, cancelled)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', NOW)) do
    dequeue(id)
    finish(id, terminal('deadline'))
    failed[#failed + 1] = id
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', READERS, '-inf', NOW)) do
    if redis.call('HGET', generation(id), 'state') == 'queued' then
      dequeue(id)
      finish(id, terminal('reader_gone'))
      cancelled[#cancelled + 1] = id
    end
  end
  if #failed + #cancelled > 0 then bump_places() end
end

-- a lease is over: back to the front, or the end; returns what became of it
local function take_back(id, died)
  redis.call('ZREM', RUNNING, id)
  if died then redis.call('HINCRBY', generation(id), 'deaths', 1) end
  local g = redis.call('HMGET', generation(id), 'cancel', 'deaths', 'deadline', 'lane')
  if g[1] ~= '' then finish(id, terminal(g[1])) return 'cancelled' end
  if readers_gone(id) then finish(id, terminal('reader_gone')) return 'cancelled' end
  if tonumber(g[2]) > CFG.max_deaths then finish(id, terminal('crashed')) return 'failed' end
  if tonumber(g[3]) <= NOW then finish(id, terminal('deadline')) return 'failed' end
  enqueue(id, g[4] == 'utility' and 'utility' or 'front')
  return 'requeued'
end

-- Leases ---------------------------------------------------------------------------------------

-- 'own', 'stale', or 'lost': what the engine was told is gone from the server. Epochs are claim
-- times and only rise, so a younger lease than the server knows of means that it lost writes.
local function lease(id, engine, epoch)
  epoch = tonumber(epoch)
  local g = redis.call('HMGET', generation(id), 'state', 'engine', 'epoch')
  if not g[1] then
    local _, started = server()
    return epoch < started and 'lost' or 'stale'
  end
  if g[1] == 'ended' then return 'stale' end
  if tonumber(g[3]) < epoch then return 'lost' end
  return g[1] == 'running' and g[2] == engine and tonumber(g[3]) == epoch and 'own' or 'stale'
end

local function lease_till() return NOW + CFG.lease end

-- Every script that renews or ends leases calls this first. After a silence in which leases may
-- have run out though their holders live (this server was away, or nobody could reach it) each
-- gets one lease more, once until its holder renews it: half a millisecond marks those.
local function awake()
  local active = tonumber(redis.call('HGET', META, 'active') or NOW)
  redis.call('HSET', META, 'active', int(NOW))
  if NOW - active <= CFG.away then return end
  for key, ms in pairs({ [RUNNING] = CFG.lease, [READERS] = CFG.reader_lease }) do
    local found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #found, 2 do
      if tonumber(found[i + 1]) % 1 == 0 then
        redis.call('ZADD', key, string.format('%.1f', NOW + ms + 0.5), found[i])
      end
    end
  end
end

