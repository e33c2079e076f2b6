-- What one caller has asked for lately, and whether there is room for more.
--
-- KEYS[1] the rate of requests: when the next one would be due (ms), a string
-- KEYS[2] tokens of the user, KEYS[3] of the key: hashes, m<bucket> of ten seconds, h<bucket> of an
--         hour; `known` once they hold what the usage ledger says
-- KEYS[4] what is open: a hash, id -> "tokens:until ms:1 if an answer:key"
-- KEYS[5] what was settled though nothing was reserved: a sorted set, id by ms until it is forgotten
-- ARGV[1] what to do; ARGV[2] bounds as JSON; ARGV[3] milliseconds added to the server's clock (tests)
-- ARGV[4…] its own
--
-- A token counts for a minute, to ten seconds, and for a day, to an hour. What is open counts with
-- what was reserved for it, until it is settled or its time is over.

local CFG = cjson.decode(ARGV[2])
local RATE, USER, KEY, OPEN, SETTLED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local WINDOWS = {
  minute = { letter = 'm', size = 10000, count = 6 },
  day = { letter = 'h', size = 3600000, count = 24 },
}
local KEPT_MS = 26 * 3600000
local MOST_FIELDS = 64
local MOST_SETTLED = 1024 -- the latest; who settles again does it at once, or after a restart
local SOON_MS = 2000 -- until something that is open may have ended

local time = redis.call('TIME')
local NOW = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[3])

local function int(n) return string.format('%.0f', n) end

-- Requests: a bucket of `burst` that fills up by `rate` a minute ---------------------------------

-- returns allowed, left, ms until it is full again, ms until the next one
local function take_request()
  if CFG.rate == 0 then return 1, -1, 0, 0 end
  local gap = 60000 / CFG.rate
  local room = CFG.burst * gap
  local due = math.max(tonumber(redis.call('GET', RATE) or '0'), NOW)
  local next_due = due + gap
  if next_due - NOW > room + 0.5 then
    return 0, 0, math.ceil(due - NOW), math.ceil(next_due - NOW - room)
  end
  redis.call('SET', RATE, string.format('%.3f', next_due), 'PX', math.ceil(next_due - NOW) + 1)
  return 1, math.floor((room - (next_due - NOW)) / gap + 0.001), math.ceil(next_due - NOW), 0
end

-- Tokens -----------------------------------------------------------------------------------------

-- what counts in `window`: the sum, and its buckets {number, tokens}, the oldest first
local function counted(hash, window)
  local newest = math.floor(NOW / window.size)
  local names = {}
  for bucket = newest - window.count, newest do names[#names + 1] = window.letter .. int(bucket) end
  local sum, filled = 0, {}
  for i, value in ipairs(redis.call('HMGET', hash, unpack(names))) do
    if value then
      sum = sum + tonumber(value)
      filled[#filled + 1] = { newest - window.count + i - 1, tonumber(value) }
    end
  end
  return sum, filled
end

-- ms until a bucket counts no more
local function leaves_in(bucket, window) return (bucket + window.count + 1) * window.size - NOW end

-- what is open: tokens of the user, of this key, and how many answers
local function open()
  local user, key, answers = 0, 0, 0
  local found = redis.call('HGETALL', OPEN)
  for i = 1, #found, 2 do
    local tokens, till, answer, of = string.match(found[i + 1], '^(%d+):(%d+):(%d):(%d+)$')
    if not till or tonumber(till) <= NOW then
      redis.call('HDEL', OPEN, found[i])
    else
      user = user + tonumber(tokens)
      if of == CFG.key then key = key + tonumber(tokens) end
      answers = answers + tonumber(answer)
    end
  end
  return user, key, answers
end

-- the limits that are set: {name, most, hash, window, open tokens}
local function limits(open_user, open_key)
  local found = {}
  for _, one in ipairs({
    { 'user_minute', USER, WINDOWS.minute, open_user },
    { 'user_day', USER, WINDOWS.day, open_user },
    { 'key_minute', KEY, WINDOWS.minute, open_key },
    { 'key_day', KEY, WINDOWS.day, open_key },
  }) do
    local most = CFG[one[1]]
    if most > 0 and (one[2] == USER or CFG.key ~= '0') then
      found[#found + 1] = { one[1], most, one[2], one[3], one[4] }
    end
  end
  return found
end

-- the limit that leaves least: most, left, ms until nothing counts any more; -1 without one
local function least(open_user, open_key)
  local most, left, reset, share = -1, -1, 0, 2
  for _, limit in ipairs(limits(open_user, open_key)) do
    local sum, filled = counted(limit[3], limit[4])
    local rest = math.max(0, limit[2] - sum - limit[5])
    if rest / limit[2] < share then
      share, most, left = rest / limit[2], limit[2], rest
      reset = #filled > 0 and leaves_in(filled[#filled][1], limit[4]) or 0
      if limit[5] > 0 then reset = math.max(reset, limit[4].size * limit[4].count) end
    end
  end
  return int(most), int(left), int(reset)
end

-- ms until `tokens` fit, 0 if they do now
local function wait_for(limit, tokens)
  local sum, filled = counted(limit[3], limit[4])
  local over = sum + limit[5] + math.min(tokens, limit[2]) - limit[2]
  if over <= 0 then return 0 end
  for _, bucket in ipairs(filled) do
    over = over - bucket[2]
    if over <= 0 then return leaves_in(bucket[1], limit[4]) end
  end
  return SOON_MS -- the rest is open, and may be settled for less
end

-- where nobody has asked the ledger yet, it will tell of these, too
local function add(hash, tokens)
  if tokens <= 0 or redis.call('HEXISTS', hash, 'known') == 0 then return end
  for _, window in pairs(WINDOWS) do
    redis.call('HINCRBY', hash, window.letter .. int(math.floor(NOW / window.size)), int(tokens))
  end
  redis.call('PEXPIRE', hash, KEPT_MS)
  if redis.call('HLEN', hash) <= MOST_FIELDS then return end
  for _, name in ipairs(redis.call('HKEYS', hash)) do
    for _, window in pairs(WINDOWS) do
      local bucket = tonumber(string.match(name, '^' .. window.letter .. '(%d+)$') or '')
      if bucket and leaves_in(bucket, window) <= 0 then redis.call('HDEL', hash, name) end
    end
  end
end

-- Acts -------------------------------------------------------------------------------------------

local act = {}

-- one more request: allowed, left, reset ms, wait ms, then as `least`
function act.ask()
  local allowed, left, reset, wait = take_request()
  local user, key = open()
  return { allowed, left, int(reset), int(wait), least(user, key) }
end

-- ARGV: id, tokens, until ms, "1" if it is an answer
-- returns {"ok" | the limit's name | "unknown", wait ms, then as `least`}
function act.reserve()
  local id, tokens, till, answer = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
  local user, key, answers = open()
  if redis.call('HEXISTS', OPEN, id) == 1 then return { 'ok', 0, least(user, key) } end
  if answer == '1' and CFG.streams > 0 and answers >= CFG.streams then
    return { 'streams', SOON_MS, least(user, key) }
  end
  for _, limit in ipairs(limits(user, key)) do
    if redis.call('HEXISTS', limit[3], 'known') == 0 then return { 'unknown', 0, -1, -1, 0 } end
    local wait = wait_for(limit, tokens)
    if wait > 0 then return { limit[1], int(wait), least(user, key) } end
    tokens = math.min(tokens, limit[2])
  end
  redis.call('HSET', OPEN, id, int(tokens) .. ':' .. till .. ':' .. answer .. ':' .. CFG.key)
  redis.call('PEXPIRE', OPEN, KEPT_MS)
  return { 'ok', 0, least(user + tokens, key + tokens) }
end

-- whether `id` is settled for the first time
local function settle_first(id)
  redis.call('ZREMRANGEBYSCORE', SETTLED, '-inf', int(NOW))
  if redis.call('ZADD', SETTLED, 'NX', int(NOW + KEPT_MS), id) == 0 then return false end
  redis.call('ZREMRANGEBYRANK', SETTLED, 0, -MOST_SETTLED - 1)
  redis.call('PEXPIRE', SETTLED, KEPT_MS)
  return true
end

-- ARGV: id, tokens, "1" if they count though nothing was reserved for them
-- returns 1 if they were counted now
function act.settle()
  local was_open = redis.call('HDEL', OPEN, ARGV[4])
  if was_open == 0 and not (ARGV[6] == '1' and settle_first(ARGV[4])) then return 0 end
  add(USER, tonumber(ARGV[5]))
  if CFG.key ~= '0' then add(KEY, tonumber(ARGV[5])) end
  return 1
end

-- ARGV: "user" | "key", then for each hour: its number, tokens. What the ledger says, once.
function act.seed()
  local hash = ARGV[4] == 'user' and USER or KEY
  if redis.call('HSETNX', hash, 'known', '1') == 0 then return 0 end
  for i = 5, #ARGV, 2 do redis.call('HINCRBY', hash, 'h' .. ARGV[i], ARGV[i + 1]) end
  redis.call('PEXPIRE', hash, KEPT_MS)
  return 1
end

return act[ARGV[1]]()
