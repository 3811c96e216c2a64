-- Second phase of a sweep: ends the leases and the grace that find saw due, if they still are.
-- ARGV: 1 find's now, 2 gap max, 3 lease, 4 tombstone ttl (ms each), 5 new epoch, 6 tag, 7 rules of hooks, then for each entry (its user's record in KEYS):
--       kind 'l' or 'g', score as find gave it, connection ('' for grace), user
-- Reply: how many users went offline. Nothing happens when the sweeper was away too long since its find: what it saw is old.
local age = now - tonumber(ARGV[1])
if age < 0 or age > tonumber(ARGV[2]) then return 0 end
local lease, tombstoneTTL = tonumber(ARGV[3]), ARGV[4]
local offline = 0
hookRules(ARGV[7], KEYS[6], KEYS[7])

-- `connection` has ended; '': it's the grace that has. A record that's somebody else's is left as it is, and its user is offline.
local function settle(key, user, connection, at)
  local fields, connections, state, isKnown = record(key, connection, nil)
  local isOurs = fields ~= nil
  if not isOurs then fields, connections, state = {}, 0, 'offline' end
  if isKnown then redis.call('HDEL', key, 'c:' .. connection) end
  if connection == '' then at = tonumber(fields.l or '') or at end
  if connections == 0 then
    redis.call('ZREM', GRACE, user)
    if fields.s == 'offline' then
      redis.call('PEXPIRE', key, tombstoneTTL)
      return
    end
    -- A record that was lost comes here too: watchers still show the user as online, so they're told.
    local v = version(fields, 0)
    if isOurs then
      redis.call('HSET', key, 's', 'offline', 'v', text(v), 't', text(at))
      redis.call('HDEL', key, 'l')
      redis.call('PEXPIRE', key, tombstoneTTL)
    end
    event(user, fields.s, 'offline', v, at)
    offline = offline + 1
  elseif fields.s ~= state then
    local v = version(fields, 0)
    redis.call('HSET', key, 's', state, 'v', text(v), 't', text(now))
    event(user, fields.s, state, v, now)
  end
end

local at = 8
for i = 8, #KEYS do
  local kind, score, connection, user = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local key = KEYS[i]
  if kind == 'l' then
    local member = user .. '|' .. connection
    if redis.call('ZSCORE', LEASES, member) == score and tonumber(score) <= now then
      redis.call('ZREM', LEASES, member)
      -- Last proven alive when it was last refreshed.
      settle(key, user, connection, tonumber(score) - lease)
    end
  elseif redis.call('ZSCORE', GRACE, user) == score and tonumber(score) <= now then
    redis.call('ZREM', GRACE, user)
    settle(key, user, '', tonumber(score))
  end
  at = at + 4
end
emit(ARGV[5], ARGV[6])
return offline
