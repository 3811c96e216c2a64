-- How many devices users have in a channel on one node now. Saying it again changes nothing.
-- ARGV: 1 node, 2 lease, 3 ttl (ms each), 4 rules of hooks, 5 the channel, 6 step, 7 start within it (ms), 8 the largest sequence that the
--       node was told, 9 its last call that was answered (0: none), 10 this call, 11 where it mustn't be late, what this clock said when
--       it was made, as the node reckons (or ''), then for each user: devices, user. Either all have devices, or none has: those
--       leave. A second late is late: this Redis stood still, and nobody could say elsewhere meanwhile that they're back.
-- Reply: {sequence, begun, occupancy, 1 if what the node said before doesn't stand there: it must say all again}
local node, lease, ttl = ARGV[1], tonumber(ARGV[2]), ARGV[3]
hookRules(ARGV[4], KEYS[6], KEYS[7])
CHANNEL, LEASE, STEP, START = ARGV[5], lease, tonumber(ARGV[6]), tonumber(ARGV[7])
KNOWN, MINE = tonumber(ARGV[8]), tonumber(ARGV[9])
local number = tonumber(ARGV[10])
local isJoin = tonumber(ARGV[12]) > 0
local sent = tonumber(ARGV[11])
if sent and now - sent > 1000 then return redis.error_reply('LATE this Redis stood still') end
local score = redis.call('ZSCORE', LEASES, node)
local before, sums = {}, {}
-- A later call of the node was here before this one.
if q and said == begun and call > number then return {text(q), begun, occupancy, 1} end
-- One of the keys is gone without the others; or there's what the node knows nothing of, or less than it knows.
local isLost = q and ((score and not said) or (said == begun and (occupancy == 0 or MINE == 0)) or isBehind())
local isNew = not q or isLost or said ~= begun
-- Others have begun to take it out (memberreap), or an earlier call's answer was lost: whatever it was, the node doesn't know.
local isUnsure = isNew or (score and tonumber(score) == 0) or call ~= MINE
for i = 12, #ARGV, 2 do
  local user = ARGV[i + 1]
  local value, sum = redis.call('HGET', SAID, user), redis.call('HGET', USERS, user)
  if (value and not tonumber(value)) or (sum and not tonumber(sum)) then
    return redis.error_reply('FOREIGN a key of members holds a hash that is not a hub\'s')
  end
  before[i], sums[i] = isNew and 0 or tonumber(value or '0'), (isLost or not q) and 0 or tonumber(sum or '0')
end
if isLost or (not q and isJoin) then
  anew(ttl, node)
elseif not isJoin and isNew then
  return {text(q or 0), begun or '0', occupancy, 1}
end
-- The first write: refused when memory is full, for those who come; for those who leave it's the HDEL, which isn't.
-- (A lease that ends before this one is still to be looked after: among the occupied the channel stays where it is.)
if isJoin then redis.call('ZADD', LEASES, text(now + lease), node) end
local last = begun .. ':' .. text(number)
if isJoin then
  if isNew then redis.call('DEL', SAID) end
  redis.call('HSET', SAID, '', last)
end
for i = 12, #ARGV, 2 do set(ARGV[i + 1], before[i], tonumber(ARGV[i]), sums[i]) end
if redis.call('HLEN', SAID) <= 1 then
  redis.call('DEL', SAID)
  redis.call('ZREM', LEASES, node)
end
redis.call('PEXPIRE', LEASES, ttl)
redis.call('PEXPIRE', USERS, ttl)
-- (A write that's allowed when memory is full, in front of one that isn't.)
if redis.call('PEXPIRE', SAID, ttl) == 1 and not isJoin then redis.call('HSET', SAID, '', last) end
tell('J', joined)
tell('L', left)
tell('U', updated)
redis.call('PEXPIRE', META, ttl)
return {text(q), begun, occupancy, isUnsure and 1 or 0}
