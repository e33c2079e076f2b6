-- returns {requeued, failed, cancelled} ids
local out = { requeued = {}, failed = {}, cancelled = {} }
awake()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', RUNNING, '-inf', NOW)) do
  local list = out[take_back(id, true)]
  list[#list + 1] = id
end
if #out.requeued > 0 then
  bump_control()
  bump_places()
end
sweep_waiting(out.failed, out.cancelled)
return { out.requeued, out.failed, out.cancelled }
