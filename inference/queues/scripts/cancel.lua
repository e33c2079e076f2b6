-- ARGV: id, by; returns 1 if it ends now or its engine is told
local id, by = ARGV[4], ARGV[5]
local state = redis.call('HGET', generation(id), 'state')
if not state or state == 'ended' then return 0 end
if state == 'queued' then
  dequeue(id)
  finish(id, terminal(by))
  bump_places()
elseif redis.call('HGET', generation(id), 'cancel') == '' then
  redis.call('HSET', generation(id), 'cancel', by)
end
bump_control()
return 1
