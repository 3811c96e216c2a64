-- Second step of a sweep of members: what is to be done about a channel that nobody was heard of in for a lease.
-- ARGV: 1 when find will look for it again: if that has moved, somebody was heard of, 2 the longest that a lease may hold, 3 ttl, 4 hold
--       (ms each), 5 rules of hooks, 6 the channel, 7 step, 8 start within it, 9 gap max (ms)
-- Reply: {1: it's vacated and 0: not so, dead node, …}
local mark, lease, hold = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
hookRules(ARGV[5], KEYS[6], KEYS[7])
CHANNEL, LEASE, STEP, START = ARGV[6], lease, tonumber(ARGV[7]), tonumber(ARGV[8])
if redis.call('ZSCORE', OCCUPIED, CHANNEL) ~= mark then return {0} end
-- The first write, which changes nothing, is refused when memory is full.
redis.call('ZADD', OCCUPIED, 'XX', mark, CHANNEL)
local others = redis.call('ZRANGEBYSCORE', LEASES, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
-- Find said that somebody may be dead, but the call may have waited for a store that stood still.
local blind = blindUntil(tonumber(ARGV[9]), hold)
if blind == 0 and (not q or occupancy == 0 or #others == 0) then
  -- What the nodes said has ended with its time to live, or was lost, and nobody has said it again.
  if q and occupancy > 0 then anew(ARGV[3], '-') end
  vacated()
  return {1}
end
local reply, again, first = {0}, math.max(blind, now), nil
for i = 1, #others, 2 do
  local ends = math.min(tonumber(others[i + 1]), now + lease)
  if ends > now then
    again = again > now and math.min(again, ends) or ends
    first = first and math.min(first, ends) or ends
  elseif blind == 0 and #reply < 11 then
    reply[#reply + 1] = others[i]
  elseif blind == 0 then
    -- One call takes ten out: the next sweep looks again for the rest.
    first = now
  end
end
-- Those whose time isn't over, or who are held.
if #reply == 1 then
  redis.call('ZADD', OCCUPIED, text(again), CHANNEL)
elseif first and first < tonumber(mark) then
  -- The next one that may be dead is looked for in time, however long the whole of this one takes.
  redis.call('ZADD', OCCUPIED, 'XX', text(first), CHANNEL)
end
return reply
