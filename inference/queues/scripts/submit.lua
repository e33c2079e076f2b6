-- ARGV: id, request, lane, owner, on_finish, deadline, submitted_at, "1" if it ends without a
-- reader, "1" if it has one, reply, "1" if its reasoning may be ended ("2": it is to end),
-- account
-- returns {"ok", ahead, waiting} or {reason, ms between two claims lately (0: unknown), how many wait}
local id, request, lane, owner, on_finish = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
awake()
promote()
local known = redis.call('HGET', generation(id), 'state')
if known == 'queued' then
  local ahead, waiting = place(id)
  return { 'ok', ahead, waiting }
elseif known then
  return { 'ok', 0, redis.call('ZCARD', WAITING) - lane_len('utility') }
end

local function refuse(reason)
  return { reason, redis.call('HGET', META, 'claim_gap') or '0', redis.call('ZCARD', WAITING) }
end
if redis.call('ZCARD', WAITING) >= CFG.max_queued then return refuse('queue_full') end
local owned = tonumber(redis.call('HGET', OWNED, owner) or '0')
if owned >= CFG.max_queued_per_owner then return refuse('owner_queue_full') end
local owned_bytes = tonumber(redis.call('HGET', OWNED_BYTES, owner) or '0')
if owned_bytes + #request > CFG.max_queued_bytes_per_owner then return refuse('owner_queue_bytes') end
local info = redis.call('INFO', 'memory')
local limit = tonumber(string.match(info, 'maxmemory:(%d+)'))
local used = tonumber(string.match(info, 'used_memory:(%d+)'))
if limit > 0 and used > limit * CFG.memory_refuse_ratio then return refuse('memory') end

-- Asked before this server started: it may have been here and lost, with readers left that know
-- its old entries. They are told apart by an incarnation that no earlier server gave.
local run, started = server()
local incarnation = 1
if tonumber(ARGV[10]) < started then incarnation = NOW end

redis.call('HSET', generation(id),
  'request', request, 'lane', lane, 'owner', owner, 'on_finish', on_finish,
  'deadline', ARGV[9], 'submitted', int(NOW), 'number', redis.call('HINCRBY', META, 'number', 1),
  'incarnation', int(incarnation), 'last', '-1', 'folded', '-1', 'bytes', '0', 'epoch', '0',
  'deaths', '0', 'transient', ARGV[11], 'cancel', '', 'run', run, 'prompt', '0', 'cached', '0', 'completion', '0',
  'reply', ARGV[13], 'thoughts', ARGV[14], 'account', ARGV[15])
enqueue(id, lane)
if ARGV[11] == '1' and ARGV[12] == '1' then redis.call('ZADD', READERS, NOW + CFG.reader_lease, id) end
bump_control()
bump_places()
local ahead, waiting = place(id)
return { 'ok', ahead, waiting }
