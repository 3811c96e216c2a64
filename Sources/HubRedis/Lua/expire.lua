-- Second phase of a sweep: ends the leases and the grace that find saw due, if they still are.
-- ARGV: 1 find's now, 2 gap max, 3 lease, 4 tombstone ttl (ms each), 5 new epoch, 6 tag, 7 trail ttl (ms; 0: no trail), 8 the sweeper's name,
--       9 step of versions (µs), then for each entry (its user's record and trail in KEYS): kind 'l', 'n' (a lease whose node no longer announces itself) or 'g',
--       score as find gave it, connection ('' for grace), user
-- Reply: how many users went offline. Nothing happens when the sweeper was away too long since its find: what it saw is old.
local age = now - tonumber(ARGV[1])
if age < 0 or age > tonumber(ARGV[2]) then return 0 end
local lease, tombstoneTTL, trailTTL, sweeper, step = tonumber(ARGV[3]), ARGV[4], ARGV[7], ARGV[8], tonumber(ARGV[9])
local offline = 0

-- `at`: when an offline user was last seen.
local function settle(key, trail, user, at, cause, where, fields, connections, state)
  if connections == 0 then
    redis.call('ZREM', GRACE, user)
    if fields.s == 'offline' then
      redis.call('PEXPIRE', key, tombstoneTTL)
      return
    end
    -- A record that was lost comes here too: watchers still show the user as online, so they're told.
    local v = version(fields, 0, step)
    redis.call('HSET', key, 's', 'offline', 'v', text(v), 't', text(at))
    redis.call('HDEL', key, 'l')
    redis.call('PEXPIRE', key, tombstoneTTL)
    note(trail, trailTTL, cause, 'offline', v, now, sweeper, where)
    event(user, 'offline', v, at)
    offline = offline + 1
  elseif fields.s ~= state then
    local v = version(fields, 0, step)
    redis.call('HSET', key, 's', state, 'v', text(v), 't', text(now))
    note(trail, trailTTL, cause, state, v, now, sweeper, where)
    event(user, state, v, now)
  end
end

local at = 10
for i = FIRST, #KEYS, 2 do
  local kind, score, connection, user = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local key, trail = KEYS[i], KEYS[i + 1]
  if kind ~= 'g' then
    local member = user .. '|' .. connection
    if redis.call('ZSCORE', LEASES, member) == score and tonumber(score) <= now then
      redis.call('ZREM', LEASES, member)
      local fields, connections, state, value = record(key, 'c:' .. connection)
      redis.call('HDEL', key, 'c:' .. connection)
      -- Last proven alive when it was last refreshed.
      settle(key, trail, user, tonumber(score) - lease, kind == 'n' and 'n' or 'e', place(connection, value), fields, connections, state)
    end
  elseif redis.call('ZSCORE', GRACE, user) == score and tonumber(score) <= now then
    redis.call('ZREM', GRACE, user)
    local fields, connections, state = record(key)
    -- What the close that began it left: ms;cause and place.
    local moment, cause, where = string.match(fields.l or '', '^(%d+);([lx])(.*)$')
    local seen = tonumber(moment or string.match(fields.l or '', '^%d+$') or '') or tonumber(score)
    settle(key, trail, user, seen, cause or 'l', where or place('', ''), fields, connections, state)
  end
  at = at + 4
end
emit(ARGV[5], ARGV[6])
return offline
