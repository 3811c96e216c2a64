-- First step of a sweep of members: a partition's occupied channels that no node was heard of in for a lease, unless another node just swept,
-- or nobody did for so long that all may have been cut off.
-- KEYS: 1 occupied channels, 2 the sweeps. ARGV: 1 limit, 2 interval, 3 gap max, 4 hold, 5 the longest that a lease may hold, 6 ttl (ms each)
-- Reply: {when they're looked for again unless somebody is heard of, channel, …}; {} when there's nothing to do.
local clock = redis.call('TIME')
local now = math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)
local function text(number) return string.format('%.0f', number) end

local interval, gapMax, hold, lease = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local meta = redis.call('HMGET', KEYS[2], 'sw', 'ho')
local swept, holdUntil = tonumber(meta[1] or ''), tonumber(meta[2] or '') or 0
if not swept and redis.call('EXISTS', KEYS[2]) == 1 then
  return redis.error_reply('FOREIGN the key of the members\' sweeps holds a hash that is not a hub\'s')
end
if swept and now >= swept and now - swept < interval then return {} end
redis.call('ZSCORE', KEYS[1], '')
-- HSET is the first write: refused when memory is full, so that then no channel is declared vacated.
redis.call('HSET', KEYS[2], 'sw', text(now))
redis.call('PEXPIRE', KEYS[2], ARGV[6])
if not swept or now < swept or now - swept > gapMax then
  holdUntil = now + hold
  redis.call('HSET', KEYS[2], 'ho', text(holdUntil))
end
-- Deadlines that only a clock which went back explains.
local far = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now + lease + hold + 5000), '+inf', 'LIMIT', 0, ARGV[1])
for i = 1, #far do redis.call('ZADD', KEYS[1], 'XX', text(now + lease), far[i]) end
if now < holdUntil and holdUntil <= now + hold + 5000 then return {} end

local reply = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', 0, ARGV[1])
if #reply == 0 then return {} end
-- Who finds a channel has so long to end it; if it dies itself, another one finds the channel then. One that can't be ended holds up no other.
local again = text(now + gapMax)
for i = 1, #reply do redis.call('ZADD', KEYS[1], again, reply[i]) end
table.insert(reply, 1, again)
return reply
