-- Says that a node lives, forgets those that don't, and lists the others.
-- KEYS: 1 nodes, 2 their facts. ARGV: 1 incarnation, 2 how long the entry holds (ms), 3 facts ('' with a span of 0: leaves)
-- Reply: {now, incarnation, ms left, facts, …}
local clock = redis.call('TIME')
local now = math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)
local function text(number) return string.format('%.0f', number) end
local span = tonumber(ARGV[2])
-- Both keys are looked at before the first write, and somebody else's set isn't cleared of its dead: ours holds incarnations, with their facts.
redis.call('HLEN', KEYS[2])
local first = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'LIMIT', 0, 1)[1]
if first and not string.find(first, '^[a-z2-7]+$') and not redis.call('HGET', KEYS[2], first) then
  return redis.error_reply('FOREIGN the list of nodes is a set that is not a hub\'s')
end
if span > 0 then
  redis.call('ZADD', KEYS[1], text(now + span), ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end

local dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', 0, 100)
for i = 1, #dead do
  redis.call('ZREM', KEYS[1], dead[i])
  redis.call('HDEL', KEYS[2], dead[i])
end
redis.call('PEXPIRE', KEYS[1], 3600000)
redis.call('PEXPIRE', KEYS[2], 3600000)

local reply = {text(now)}
local live = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
for i = 1, #live, 2 do
  local left = tonumber(live[i + 1]) - now
  -- A clock that went back must not keep a dead node for longer than a living one.
  if span > 0 and left > span then
    left = span
    redis.call('ZADD', KEYS[1], text(now + span), live[i])
  end
  reply[#reply + 1] = live[i]
  reply[#reply + 1] = text(left)
  reply[#reply + 1] = redis.call('HGET', KEYS[2], live[i]) or ''
end
return reply
