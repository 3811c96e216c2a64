-- Connections up, changed, restored and down, of users of one partition.
-- ARGV: 1 lease, 2 user ttl, 3 tombstone ttl (ms each), 4 new epoch, 5 tag, 6 trail ttl (ms; 0: no trail), 7 step of versions (µs), 8 rules of
--       hooks, 9 hold (ms), then for each operation (its user's record and trail in KEYS): kind, connection, value, version floor, user
-- Kinds: '+' up, 's' up with a state that the client asked for (with a 'k' behind: of a connection that was acknowledged before, so that it's
-- back where it isn't there; with an 'n' behind that: its node has seen the store lose data), 'r' restored, '-' lost, 'x' left by a goodbye.
-- Value: of '+', 's' and 'r' how many ms the connection has been there, a semicolon, and what the record keeps of it but for the last, when it came; of '-' and 'x' grace in ms and, behind a colon, how many ms ago it
-- ended, if any. Of an end that was written before, and may be lost, also :version:last seen of the offline that was told of it, if it was. Behind
-- an @ what this clock said when the call was made, as its node reckons, and behind a colon the grace of one that comes late. Of one that was
-- acknowledged and counted, behind a semicolon 0, 1 where its node has seen the store lose data, or 2 where the end is written again (3: and its
-- user was told otherwise since), a semicolon, and a value as of '+'.
-- Reply: the version of each user after its operation; '!' and the error for one that was refused, because memory is full or the user's record
-- is somebody else's. Nothing of it has happened then.
local lease, userTTL, tombstoneTTL, trailTTL, step = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[6], tonumber(ARGV[7])
local versions = {}
hookRules(ARGV[8], KEYS[6], KEYS[7])

-- Where data were lost: until when others may have to register again, so that nobody is declared offline by the ends of those who have.
local function othersUntil()
  if not MARKS[4] then return now + tonumber(ARGV[9]) end
  local warm = tonumber(MARKS[6] or '')
  return warm and warm > now and warm or nil
end

-- Of ms: so long nodes take at most to write their connections again once the store is back.
local REGISTER_MS = 7000

local idly = {o = 'b', a = 'd', i = 'i'}

local function up(key, trail, kind, connection, sent, floor, user)
  local age, value = string.match(sent, '^(%d+);(.*)$')
  local fields, connections, state, held, real, awaited = record(key, connection, value)
  if not fields then return '!' .. connections end
  -- Since when it's there: as the record says, or so long ago as its node has had it. By this clock alone, whatever its node's says.
  local since = held and string.sub(held, 2, #value) == string.sub(value, 2) and string.match(held, '^%d+$', #value + 1)
  value = value .. (since or text(now - tonumber(age)))
  -- ZADD is the first write: refused when memory is full, and then nothing of this operation has happened.
  local added = redis.pcall('ZADD', LEASES, text(now + lease), user .. '|' .. connection)
  if type(added) == 'table' and added.err then return '!' .. added.err end
  redis.call('HSET', key, 'c:' .. connection, value)
  redis.call('PEXPIRE', key, userTTL)
  local isHidden, wasShown = isInvisible(value), held and not isInvisible(held)
  local isKnown = string.find(kind, 'k', 2, true)
  local notBefore = string.find(kind, 'n', 2, true) and othersUntil()
  kind = string.sub(kind, 1, 1)
  if #awaited > 0 and not isHidden and not wasShown and kind ~= 'r' then comeBack(key, user, value, awaited) end
  if real ~= 'offline' then
    redis.call('ZREM', GRACE, user)
    if isHidden and wasShown then keepEnd(key, fields.l, now, 'i', connection, value) end
  elseif not fields.s then
    -- Nobody has ever seen this user, or the record was lost since; nobody does now, so there's no state to keep, as there's none of who is gone.
    return text(floor)
  elseif fields.s == 'offline' then
    return fields.v
  elseif wasShown then
    -- Turning invisible is leaving. One that's written again was invisible before: the record is an older one, and others may be missing in it.
    if kind == 'r' then notBefore = othersUntil() or now + math.min(tonumber(ARGV[9]), REGISTER_MS) end
    if isToldLater(key, user, 'i', connection, value, awaited, now, fields.l, notBefore) then return fields.v end
  elseif #awaited > 0 or isInGrace(user) then
    -- Whose last connection that counts may still come back: an invisible one is no coming back.
    return fields.v
  end
  -- Behind what the node knows, the record has lost its last changes: watchers, who know them, would pass over what it says from now on.
  local isBehind = not isHidden and fields.s == state and floor > (tonumber(fields.v or '') or 0)
  if fields.s == state and not isBehind then return fields.v or '0' end
  local v = version(fields, floor, step)
  local at = isBehind and tonumber(fields.t or '') or now
  redis.call('HSET', key, 's', state, 'v', text(v), 't', text(at))
  if state == 'offline' and fields.l then redis.call('HDEL', key, 'l') end
  local cause
  if isBehind then
    cause = 'r'
  elseif kind == 'r' then
    cause = fields.s and 'h' or 'r'
  elseif not held then
    cause = isKnown and (fields.s and 'h' or 'r') or 'c'
  elseif kind == 's' then
    cause = letter(value)
  else
    cause = idly[letter(value)]
  end
  note(trail, trailTTL, cause, state, v, now, '', place(connection, value))
  -- A record that was lost is no transition; but once others had their time to register again, watchers may have been told that the user is gone.
  if fields.s or kind ~= 'r' then
    event(user, fields.s, state, v, at)
  elseif not othersUntil() then
    event(user, state, state, v, at)
  end
  return text(v)
end

local function down(key, trail, kind, connection, value, floor, user)
  local graceText, ago, told, toldAt, sent, late, known = string.match(value, '^(%d+):?(%d*):?(%d*):?(%d*)@?(%d*):?(%d*);?(.*)$')
  local grace, ended = tonumber(graceText), now - (tonumber(ago) or 0)
  told, sent = tonumber(told), tonumber(sent)
  -- This Redis stood still meanwhile: it ended that much earlier, and nobody could say elsewhere that they're back.
  if sent and now - sent > 1000 then
    ended = ended - (now - sent)
    if grace == 0 then grace = tonumber(late) end
  end
  local fields, connections, state, held, real, awaited = record(key, connection, nil)
  redis.call('ZREM', LEASES, user .. '|' .. connection)
  -- Somebody else's: the connection isn't in it.
  if not fields then return '0' end
  local cause = kind == 'x' and 'x' or 'l'
  local loss, age, was = string.match(known, '^(%d);(%d+);(.*)$')
  local isRepeated = loss == '2' or loss == '3'
  local notBefore = (not held or loss ~= '0') and was and othersUntil() or nil
  if not held then
    -- Only where the partition's data are new does a connection that's missing say that it was lost.
    if not notBefore or fields.s == 'offline' then return fields.v or '0' end
    local since = text(now - tonumber(age))
    held = was .. since
    if fields.s and isRepeated then
      keepEnd(key, fields.l, ended, cause, connection, held)
      return fields.v
    elseif not fields.s then
      -- Whoever was told that the user is gone knows it.
      if told then return '0' end
      fields.s, fields.v = letter(held) == 'o' and 'online' or 'away', text(version(fields, floor, step))
      redis.call('HSET', key, 's', fields.s, 'v', fields.v, 't', since)
      if isRepeated and (kind == 'x' or now - ended >= grace) then grace = 0 end
    end
  end
  redis.call('HDEL', key, 'c:' .. connection)
  local before = fields.s or 'offline'
  if real == 'offline' and before == 'offline' then
    if connections == 0 then redis.call('PEXPIRE', key, tombstoneTTL) end
    return fields.v or '0'
  end
  -- Redis has lost what was told: it's what holds, unless the record has moved on. Who has heard it passes over the repetition.
  if real == 'offline' and told and told > (tonumber(fields.v or '') or 0) then
    while #awaited > 0 do awaitNoMore(key, user, awaited, #awaited) end
    redis.call('ZREM', GRACE, user)
    redis.call('HSET', key, 's', 'offline', 'v', text(told), 't', toldAt)
    redis.call('HDEL', key, 'l')
    if connections == 0 then redis.call('PEXPIRE', key, tombstoneTTL) end
    if step > 1 and told > (top or 0) then top, isTopNew = told, true end
    note(trail, trailTTL, cause, 'offline', told, ended, '', place(connection, held))
    event(user, fields.s, 'offline', told, tonumber(toldAt))
    return text(told)
  end
  -- Beside others: it was told then, and is lost.
  if loss == '3' and real ~= 'offline' then grace = 0 end
  if isInvisible(held) then
    -- It isn't the one that is waited for.
    if real == 'offline' and (#awaited > 0 or isInGrace(user)) then return fields.v end
  elseif grace > 0 and before ~= 'offline' then
    -- Whoever else is there may go, or be away, before it's back: it counts until then.
    await(key, userTTL, user, cause, connection, held, awaited, grace, ended, fields.l)
    if real == 'offline' and notBefore then redis.call('ZADD', GRACE, text(notBefore), user) end
    return fields.v
  elseif real == 'offline' and isToldLater(key, user, cause, connection, held, awaited, ended, fields.l, notBefore) then
    return fields.v
  end
  local at, where = now, place(connection, held)
  if real ~= 'offline' then
    if not isInvisible(held) then keepEnd(key, fields.l, ended, cause, connection, held) end
  elseif not isInvisible(held) then
    at, cause, where = lastEnd(fields.l, ended, cause, connection, held)
  end
  if fields.s == state then return fields.v end
  local v = version(fields, floor, step)
  redis.call('HSET', key, 's', state, 'v', text(v), 't', text(at))
  if state == 'offline' and fields.l then redis.call('HDEL', key, 'l') end
  if connections == 0 then redis.call('PEXPIRE', key, tombstoneTTL) end
  note(trail, trailTTL, cause, state, v, now, '', where)
  event(user, fields.s, state, v, at)
  return text(v)
end

local at = 10
for i = FIRST, #KEYS, 2 do
  local kind, connection, value, floor, user = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4]
  if kind == '-' or kind == 'x' then
    versions[#versions + 1] = down(KEYS[i], KEYS[i + 1], kind, connection, value, floor, user)
  else
    versions[#versions + 1] = up(KEYS[i], KEYS[i + 1], kind, connection, value, floor, user)
  end
  at = at + 5
end
emit(ARGV[4], ARGV[5])
return versions
