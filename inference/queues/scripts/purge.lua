-- ARGV: what to forget; the list's last entry is number `purges` of the counters
redis.call('HINCRBY', META, 'purges', 1)
redis.call('RPUSH', PURGES, ARGV[4])
redis.call('LTRIM', PURGES, -CFG.max_purges, -1)
redis.call('PEXPIRE', PURGES, CFG.purge_keep)
bump_control()
return 1
