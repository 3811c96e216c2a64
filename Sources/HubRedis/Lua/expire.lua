-- Second phase of a sweep: ends the leases and the grace that find saw due, if they still are.
-- ARGV: 1 find's now, 2 gap max, 3 lease, 4 tombstone ttl (ms each), 5 new epoch, 6 tag, 7 trail ttl (ms; 0: no trail), 8 the sweeper's name,
--       9 step of versions (µs), 10 rules of hooks, then for each entry (its user's record and trail in KEYS): kind 'l', 'n' (a lease whose node
--       no longer announces itself) or 'g', score as find gave it, connection ('' for grace), user
-- Reply: how many users went offline. Nothing happens when the sweeper was away too long since its find: what it saw is old.
local age = now - tonumber(ARGV[1])
if age < 0 or age > tonumber(ARGV[2]) then return 0 end
local lease, tombstoneTTL, trailTTL, sweeper, step = tonumber(ARGV[3]), ARGV[4], ARGV[7], ARGV[8], tonumber(ARGV[9])
local offline = 0
hookRules(ARGV[10], KEYS[6], KEYS[7])

-- `connection` has ended; '': it's a goodbye that had to wait. `at`: when an offline user was last seen. A record that's somebody else's is left
-- as it is, and its user is offline.
local function settle(key, trail, user, connection, at, cause)
  local fields, connections, state, held, real, awaited = record(key, connection, nil)
  local isOurs = fields ~= nil
  if not isOurs then fields, connections, state, real, awaited = {}, 0, 'offline', 'offline', {} end
  local where = place(connection, held)
  if held then redis.call('HDEL', key, 'c:' .. connection) end
  -- What the last close left: ms;cause and place.
  local moment, left, from = string.match(fields.l or '', '^(%d+);(%l)(.*)$')
  moment = tonumber(moment or string.match(fields.l or '', '^%d+$') or '')
  local tildes = #string.match(connection, '^~*')
  local wasAwaited = tildes > 0
  local isEnd = held and not wasAwaited and not isInvisible(held)
  -- Somebody else may still come back, or have to register again: what was told holds until then.
  local isTooEarly = real == 'offline' and (#awaited > 0 or connection ~= '' and (tonumber(isInGrace(user) or '') or 0) > now)
  if isEnd and (real ~= 'offline' or isTooEarly) then keepEnd(key, fields.l, at, cause, connection, held) end
  if isTooEarly then return end
  -- Lost, or left, when that happened, not now.
  if wasAwaited then cause = tildes > 1 and 'x' or 'l' end
  if connection == '' or wasAwaited and state == 'offline' then
    at, cause, where = moment or at, left or cause, from or where
  elseif isEnd and state == 'offline' then
    at, cause, where = lastEnd(fields.l, at, cause, connection, held)
  end
  if state == 'offline' then
    local isHidden = isInvisible(held)
    -- The goodbye of one that counted is told by itself.
    if isHidden and fields.s and fields.s ~= 'offline' and isInGrace(user) then return end
    redis.call('ZREM', GRACE, user)
    -- Told already, or never seen at all.
    if fields.s == 'offline' or isHidden and not fields.s then
      if connections == 0 then redis.call('PEXPIRE', key, tombstoneTTL) end
      return
    end
    -- A record that was lost comes here too: watchers still show the user as online, so they're told.
    local v = version(fields, 0, step)
    if isOurs then
      redis.call('HSET', key, 's', 'offline', 'v', text(v), 't', text(at))
      redis.call('HDEL', key, 'l')
      if connections == 0 then redis.call('PEXPIRE', key, tombstoneTTL) end
    end
    note(trail, trailTTL, cause, 'offline', v, now, sweeper, where)
    event(user, fields.s, 'offline', v, at)
    offline = offline + 1
  elseif fields.s ~= state then
    local v = version(fields, 0, step)
    redis.call('HSET', key, 's', state, 'v', text(v), 't', text(now))
    note(trail, trailTTL, cause, state, v, now, sweeper, where)
    event(user, fields.s, state, v, now)
  end
end

local at = 11
for i = FIRST, #KEYS, 2 do
  local kind, score, connection, user = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local key, trail = KEYS[i], KEYS[i + 1]
  if kind ~= 'g' then
    local member = user .. '|' .. connection
    if redis.call('ZSCORE', LEASES, member) == score and tonumber(score) <= now then
      redis.call('ZREM', LEASES, member)
      -- Last proven alive when it was last refreshed.
      settle(key, trail, user, connection, tonumber(score) - lease, kind == 'n' and 'n' or 'e')
    end
  elseif redis.call('ZSCORE', GRACE, user) == score and tonumber(score) <= now then
    redis.call('ZREM', GRACE, user)
    settle(key, trail, user, '', tonumber(score), 'l')
  end
  at = at + 4
end
emit(ARGV[5], ARGV[6])
return offline
