-- First phase of a sweep: what's due in a partition, unless another node just swept it, or everybody was blind lately.
-- Follows partition.lua. KEYS: 1 leases, 2 grace, 3 partition meta. ARGV: 1 limit, 2 interval, 3 gap max, 4 hold, 5 lease, 6 grace (ms each)
-- Reply: {until when the partition was warming after its first sweep, now, {member, score, …} leases, {user, score, …} grace}; the first two alone
-- when there's nothing to do. The first is another one where all was lost: that's how nodes whose links stayed up hear of it.
local clock = redis.call('TIME')
local now = math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)
local function text(number) return string.format('%.0f', number) end

local limit, interval, gapMax = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local hold, lease, grace = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local marks = partitionMarks(KEYS[3])
local swept = tonumber(marks[4] or '')
local holdUntil = tonumber(marks[5] or '') or 0
local warm = marks[6] or ''
if swept and now >= swept and now - swept < interval then return {warm, text(now)} end

-- Deadlines that only a clock which went back explains: of leases, and of connections that are awaited for the grace, which may be longer. Read
-- first: keys that hold something else are errors before anything is written.
local far = '(' .. text(now + math.max(lease, grace) + 5000)
local ahead = {}
for i = 1, 2 do ahead[i] = redis.call('ZRANGEBYSCORE', KEYS[i], far, '+inf', 'LIMIT', 0, limit) end
-- HSET is the first write: refused when memory is full, so that then nobody is ever declared offline.
redis.call('HSET', KEYS[3], 'sw', text(now))
-- Where the versions of new records begin that tell no moment of their own (presence.lua): above whatever was before this partition's data.
if not marks[8] then redis.call('HSET', KEYS[3], 'v', text(tonumber(clock[1]) * 1000000 + tonumber(clock[2]))) end
if not swept then
  warm = text(now + hold)
  redis.call('HSET', KEYS[3], 'wa', warm)
elseif now < swept or now - swept > gapMax then
  holdUntil = now + hold
  redis.call('HSET', KEYS[3], 'ho', text(holdUntil))
  -- The clock may have gone back: nothing is warm, or held, for longer than a hold.
  if (tonumber(warm) or 0) > now + hold then
    warm = text(now + hold)
    redis.call('HSET', KEYS[3], 'wa', warm)
  end
end

for i = 1, 2 do
  for j = 1, #ahead[i] do
    local isAwaited = i == 1 and string.find(ahead[i][j], '|~[^|]*$')
    redis.call('ZADD', KEYS[i], 'XX', text(now + (isAwaited and grace or lease)), ahead[i][j])
  end
end

if now < holdUntil then return {warm, text(now)} end
local leases = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, limit)
local left = limit - #leases / 2
local over = {}
if left > 0 then over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, left) end
if #leases == 0 and #over == 0 then return {warm, text(now)} end
return {warm, text(now), leases, over}
