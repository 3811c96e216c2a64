-- Whether this user may do all that the scripts do: asked once a link, since a right that's missing would be found in the middle of one, with half of
-- it done. Redis before 7 can't be asked. Writes nothing.
-- ARGV: 1 a key of ours, 2 a channel of ours
-- Reply: 1, or the error NOPERM with the first command that's missing
if not redis.acl_check_cmd then return 1 end
for _, command in ipairs({
  'GET', 'SET', 'DEL', 'EXISTS', 'HGET', 'HMGET', 'HGETALL', 'HSET', 'HDEL', 'HLEN', 'HSCAN', 'HINCRBY', 'PEXPIRE', 'PTTL', 'XADD', 'XRANGE',
  'XREVRANGE', 'XLEN', 'XTRIM', 'XDEL', 'ZADD', 'ZREM', 'ZSCORE', 'ZRANGEBYSCORE', 'RPUSH', 'LTRIM', 'LRANGE',
}) do
  if not redis.acl_check_cmd(command, ARGV[1]) then return redis.error_reply('NOPERM the user may not do ' .. command .. ' on keys like ' .. ARGV[1]) end
end
if not redis.acl_check_cmd('TIME') then return redis.error_reply('NOPERM the user may not do TIME') end
if not redis.acl_check_cmd('PUBLISH', ARGV[2]) then return redis.error_reply('NOPERM the user may not do PUBLISH on channels like ' .. ARGV[2]) end
return 1
