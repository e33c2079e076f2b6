-- ARGV: id
if redis.call('ZREM', FINISHED, ARGV[4]) == 1 then keep_for(ARGV[4], CFG.ended_keep) end
return 1
