-- A node is still there: prolongs what it said, and tells whose lease has ended.
-- ARGV: 1 node, 2 the longest that a lease may hold, 3 ttl, 4 hold (ms each), 5 '1': it has no members there, and only looks, 6 the channel,
--       7 the largest sequence that it was told, 8 its last call that was answered (0: none), 9 step, 10 start within it (ms), 11 gap max (ms),
--       12 how long what it said holds from now on (ms): the lease, or what's left of it where the node stops
-- Reply: {1 or 0: it must say all again, sequence, begun, occupancy, ms until the first of the others ends, or may be told as dead (-1: none),
--         dead node, …}
local node, lease, ttl, hold, isObserver = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
if not q then return {isObserver and 1 or 0, '0', '0', 0, '-1'} end
CHANNEL, LEASE, STEP, START = ARGV[6], lease, tonumber(ARGV[9]), tonumber(ARGV[10])
KNOWN, MINE = tonumber(ARGV[7]), tonumber(ARGV[8])
if isBehind() then
  -- The first write works when memory is full.
  redis.call('PEXPIRE', META, ttl)
  anew(ttl, node)
  return {0, text(q), begun, 0, '-1'}
end
local score = redis.call('ZSCORE', LEASES, node)
-- A score of 0: others have begun to take it out.
if not isObserver and not (score and tonumber(score) > 0 and said == begun and occupancy > 0) then
  return {0, text(q), begun, occupancy, '-1'}
end
-- PEXPIRE is the first write: it works when memory is full.
redis.call('PEXPIRE', META, ttl)
redis.call('PEXPIRE', USERS, ttl)
redis.call('PEXPIRE', LEASES, ttl)
local due = now + tonumber(ARGV[12])
if not isObserver then
  redis.call('PEXPIRE', SAID, ttl)
  if tonumber(score) <= now then
    -- It comes late itself: perhaps all were cut off, so nobody is taken for dead for a while.
    held = now + hold
    redis.call('HSET', META, 'ho', text(held))
  end
  redis.call('ZADD', LEASES, text(due), node)
end
local reply, first, blind = {1, text(q), begun, occupancy, '-1'}, -1, nil
local others = redis.call('ZRANGEBYSCORE', LEASES, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
for i = 1, #others, 2 do
  local ends = tonumber(others[i + 1])
  if others[i] ~= node then
    if ends > now + lease + 5000 then
      ends = now + lease
      redis.call('ZADD', LEASES, text(ends), others[i])
    end
    if ends <= now then
      blind = blind or blindUntil(tonumber(ARGV[11]), hold)
      ends = blind
    end
    if ends > now then
      if first < 0 or ends - now < first then first = ends - now end
      due = math.min(due, ends)
    elseif #reply < 15 then
      reply[#reply + 1] = others[i]
    end
  end
end
-- Whoever's ends first is looked after by a sweep, also when no node is left there that would: so too the dead, if this node doesn't come to it.
if #reply > 5 then due = math.min(due, now + tonumber(ARGV[11])) end
if not isObserver then redis.call('ZADD', OCCUPIED, text(due), ARGV[6]) end
reply[5] = text(first)
return reply
