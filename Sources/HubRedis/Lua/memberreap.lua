-- Takes out what a dead node left in a channel, some users at a time, whoever does it.
-- ARGV: 1 the dead node (KEYS[5] is what it said), 2 ttl, 3 hold (ms each), 4 users of one step, 5 where the step begins ('0': the first),
--       6 rules of hooks, 7 the channel, 8 step, 9 start within it, 10 gap max (ms)
-- Reply: {users who left with it, where the next step begins ('': nothing is left)}
local node, ttl, hold = ARGV[1], ARGV[2], tonumber(ARGV[3])
hookRules(ARGV[6], KEYS[6], KEYS[7])
-- Within a hold every node that lives has said again who it has.
CHANNEL, LEASE, STEP, START = ARGV[7], hold, tonumber(ARGV[8]), tonumber(ARGV[9])
local score = redis.call('ZSCORE', LEASES, node)
-- Whoever found it dead may have done so long ago, and the call waited for a store that stood still.
if not q or not score or tonumber(score) > now or blindUntil(tonumber(ARGV[10]), hold) > 0 then return {0, ''} end
if said ~= begun and (said or occupancy == 0) then
  -- Nothing of it is counted.
  redis.call('DEL', SAID)
  redis.call('ZREM', LEASES, node)
  return {0, ''}
end
if not said then
  anew(ttl, '-')
  return {0, ''}
end
-- The first write is refused when memory is full: then nobody is declared gone. A score of 0 tells the node, should it live after all, to
-- say all again.
redis.call('ZADD', LEASES, '0', node)
-- Each step goes on where the last one ended: from the beginning it would only find the room that those have left.
local step = redis.call('HSCAN', SAID, ARGV[5], 'COUNT', ARGV[4])
local fields = step[2]
for i = 1, #fields, 2 do
  if fields[i] ~= '' then
    local sum = tonumber(redis.call('HGET', USERS, fields[i]) or '0') or 0
    set(fields[i], tonumber(fields[i + 1]) or 0, 0, sum)
  end
end
local hasMore = redis.call('HLEN', SAID) > 1
if not hasMore then
  redis.call('DEL', SAID)
  redis.call('ZREM', LEASES, node)
end
tell('L', left)
tell('U', updated)
return {#left, hasMore and step[1] or ''}
