-- returns {waiting, of these background, running, {owner, count, …}}
return {
  redis.call('ZCARD', WAITING),
  tonumber(redis.call('HGET', META, 'background') or '0'),
  redis.call('ZCARD', RUNNING),
  redis.call('HGETALL', OWNED),
}
