-- Shared by the members' scripts, put in front of each: time, where a channel's members stand, telling of changes.
-- In front of it: hookqueue. KEYS: 1 leases, 2 meta, 3 users, 4 live channel, 5 what one node said, 6 queue of hooks, 7 its counts, 8 the
-- partition's occupied channels: each with when the last lease in it ends, so that a sweep finds those whose nodes are all gone; where somebody
-- may be taken for dead also 9 the partition's sweeps.
-- A key of another type is an error here, before any write.
local LEASES, META, USERS, LIVE, SAID, OCCUPIED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[8]

-- `..` and tostring keep 14 digits only.
local function text(number) return string.format('%.0f', number) end

local clock = redis.call('TIME')
local now = math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)

-- The sequence, and the one it began at: what a node said counts only for the beginning that it was said in.
local meta = redis.call('HMGET', META, 'q', 'b', 'ho')
local q, begun, held = tonumber(meta[1] or ''), meta[2], tonumber(meta[3] or '') or 0
if (not q or not begun) and redis.call('EXISTS', META) == 1 then
  return redis.error_reply('FOREIGN the key of members holds a hash that is not a hub\'s')
end
local occupancy = redis.call('HLEN', USERS)
-- Under the empty name: the beginning that the node said it for, and the number of its last call.
local said, call = string.match(redis.call('HGET', SAID, '') or '', '^(%d+):?(%d*)$')
call = tonumber(call or '') or 0
redis.call('ZSCORE', LEASES, '')
redis.call('ZSCORE', OCCUPIED, '')

-- What the channel is called, and how long its entry holds (by scripts that change members). Backends are told when the first member comes and
-- the last one goes. While the channel is among the occupied they know of it: beginning anew tells nothing.
-- STEP, START (ms): what clients are told says no more of the time than STEP: a channel begins START, which is anywhere within it, behind its
-- beginning.
-- KNOWN, MINE (by a node's own scripts): the largest sequence that it was told, and its last call that was answered.
local CHANNEL, LEASE, STEP, START, KNOWN, MINE = '', 0, 1, 0, 0, 0
local function occupied()
  if redis.call('ZADD', OCCUPIED, text(now + LEASE), CHANNEL) == 1 then hook('o', text(occupancy), text(q + 1), text(now), CHANNEL) end
end
local function vacated()
  redis.call('ZREM', OCCUPIED, CHANNEL)
  hook('v', '0', text((q or now + STEP) + 1), text(now), CHANNEL)
end

-- One message of one kind: J joined, L left, U updated, each entry devices:length:user.
local function tell(kind, entries)
  if #entries == 0 then return end
  q = q + 1
  redis.call('HSET', META, 'q', text(q))
  redis.call('PUBLISH', LIVE, kind .. ':' .. text(q) .. ':' .. text(occupancy) .. ':' .. table.concat(entries))
end

-- The store went back: a restart with older data, a failover to a replica that was behind. (Of a call that's still under way MINE knows nothing:
-- that the node said more is no wonder.)
local function isBehind() return q and (q < KNOWN or (said and call < MINE)) end

-- Until when nobody may be taken for dead, as far as that's known; 0: the dead are dead. Where no node has swept the partition for so long that
-- all may have been cut off, nobody is, whoever asks: the next sweep begins a hold (memberfind), by the end of which the living have said that
-- they're there. So it is where the sweeps' key is lost, or somebody else's. Asked only where somebody seems to be dead.
local function blindUntil(gapMax, hold)
  local marks = redis.pcall('HMGET', KEYS[9], 'sw', 'ho')
  if marks.err then return now + hold end
  local swept, holdUntil = tonumber(marks[1] or ''), tonumber(marks[2] or '') or 0
  if not swept or now < swept or now - swept > gapMax then return now + hold end
  -- Redis's clock went back.
  if holdUntil > now + hold + 5000 then holdUntil = 0 end
  if held > now + hold + 5000 then held = 0 end
  local ends = math.max(holdUntil, held)
  return now < ends and ends or 0
end

-- Begins anew, because what nodes had said can't be counted any more (or never was said): all of them say it again. HSET is the first
-- write, so that it's refused when memory is full.
local function anew(ttl, node)
  q = math.max((q or 0) + 1, KNOWN + 1, now - now % STEP + START)
  begun = text(q)
  redis.call('HSET', META, 'q', begun, 'b', begun)
  redis.call('PEXPIRE', META, ttl)
  redis.call('DEL', USERS, LEASES, SAID)
  -- If nobody says so again, a sweep finds the channel.
  redis.call('ZADD', OCCUPIED, 'XX', text(now + LEASE), CHANNEL)
  occupancy, said, call = 0, nil, 0
  redis.call('PUBLISH', LIVE, 'R:' .. begun .. ':0:' .. node)
end

local joined, left, updated = {}, {}, {}

-- One user of one node: `before` and `devices` are that node's, `sum` that of all nodes.
local function set(user, before, devices, sum)
  if before == devices then return end
  if devices > 0 then redis.call('HSET', SAID, user, text(devices)) else redis.call('HDEL', SAID, user) end
  local total = sum - math.min(before, sum) + devices
  local entry = text(total) .. ':' .. #user .. ':' .. user
  if total > 0 then redis.call('HSET', USERS, user, text(total)) else redis.call('HDEL', USERS, user) end
  if sum == 0 and total > 0 then
    occupancy = occupancy + 1
    if occupancy == 1 then occupied() end
    joined[#joined + 1] = entry
  elseif sum > 0 and total == 0 then
    occupancy = occupancy - 1
    if occupancy == 0 then vacated() end
    left[#left + 1] = entry
  elseif sum ~= total then
    updated[#updated + 1] = entry
  end
end
