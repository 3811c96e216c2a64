-- Connections up, changed, restored and down, of users of one partition.
-- ARGV: 1 lease, 2 user ttl, 3 tombstone ttl (ms each), 4 new epoch, 5 tag, 6 rules of hooks, then for each operation (its user's record in KEYS):
--       kind '+', 'r' or '-', connection, value ('+', 'r': what the record keeps of it; '-': grace in ms), version floor, user
-- Reply: the version of each user after its operation; '!' and the error for one that was refused, because memory is full or the user's record
-- is somebody else's. Nothing of it has happened then.
local lease, userTTL, tombstoneTTL = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local versions = {}
hookRules(ARGV[6], KEYS[6], KEYS[7])

local function up(key, connection, value, floor, user, isRestore)
  local fields, connections, state = record(key, connection, value)
  if not fields then return '!' .. connections end
  -- ZADD is the first write: refused when memory is full, and then nothing of this operation has happened.
  local added = redis.pcall('ZADD', LEASES, text(now + lease), user .. '|' .. connection)
  if type(added) == 'table' and added.err then return '!' .. added.err end
  redis.call('HSET', key, 'c:' .. connection, value)
  redis.call('PEXPIRE', key, userTTL)
  redis.call('ZREM', GRACE, user)
  if fields.s == state then return fields.v or '0' end
  local v = version(fields, floor)
  local at = now
  -- Never seen, and invisible from the start: there's nothing to tell, and no moment to name.
  local isSilent = not fields.s and (isRestore or state == 'offline')
  if not fields.s and state == 'offline' then at = 0 end
  redis.call('HSET', key, 's', state, 'v', text(v), 't', text(at))
  if not isSilent then event(user, fields.s, state, v, at) end
  return text(v)
end

local function down(key, connection, grace, floor, user)
  local fields, connections, state, isKnown = record(key, connection, nil)
  redis.call('ZREM', LEASES, user .. '|' .. connection)
  -- Somebody else's: the connection isn't in it.
  if not fields then return '0' end
  if isKnown then redis.call('HDEL', key, 'c:' .. connection) end
  if not isKnown then return fields.v or '0' end
  if connections == 0 then
    if not fields.s or fields.s == 'offline' then
      redis.call('PEXPIRE', key, tombstoneTTL)
      return fields.v or '0'
    end
    if grace > 0 then
      redis.call('HSET', key, 'l', text(now))
      redis.call('ZADD', GRACE, text(now + grace), user)
      return fields.v
    end
    -- A clean leave is told at once, but not while others may still have to register again.
    if now < (tonumber(MARKS[5] or '') or 0) or now < (tonumber(MARKS[6] or '') or 0) then
      redis.call('HSET', key, 'l', text(now))
      redis.call('ZADD', GRACE, text(now), user)
      return fields.v
    end
  end
  if fields.s == state then return fields.v end
  local v = version(fields, floor)
  redis.call('HSET', key, 's', state, 'v', text(v), 't', text(now))
  if connections == 0 then redis.call('PEXPIRE', key, tombstoneTTL) end
  event(user, fields.s, state, v, now)
  return text(v)
end

local at = 7
for i = 8, #KEYS do
  local kind, connection, value, floor, user = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
  if kind == '-' then
    versions[#versions + 1] = down(KEYS[i], connection, tonumber(value), floor, user)
  else
    versions[#versions + 1] = up(KEYS[i], connection, value, floor, user, kind == 'r')
  end
  at = at + 5
end
emit(ARGV[4], ARGV[5])
return versions
