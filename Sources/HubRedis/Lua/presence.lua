-- Shared by apply and expire, put in front of both: time, a user's record, the feed, the trail. In front of it: hookqueue and partition.
-- KEYS: 1 leases, 2 grace, 3 partition meta, 4 feed stream, 5 feed channel, 6 queue of hooks, 7 its counts, then for each operation its user's
-- record and trail
local LEASES, GRACE, META, STREAM, FEED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- The first operation's record.
local FIRST = 8

-- `..` and tostring keep 14 digits only; a version has 16.
local function text(number) return string.format('%.0f', number) end

local clock = redis.call('TIME')
local micros = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local now = math.floor(micros / 1000)

-- All keys are looked at before the first write: what isn't a hub's is an error then, and everything is left as it was.
local MARKS = partitionMarks(META)
redis.call('ZSCORE', LEASES, '')
redis.call('ZSCORE', GRACE, '')

local STATES = {online = true, away = true, offline = true}

-- Of one user, so many that are awaited are told apart.
local AWAITED_MAX = 4

local function letter(value) return string.sub(value, 1, 1) end
local function isInvisible(value) return value and letter(value) == 'i' end

-- What others are shown: what the connections that count add up to, where one that is awaited counts like one that is there. While nobody is
-- there and somebody is awaited, it's what they were told.
local function shown(told, real, awaited)
  if #awaited == 0 or real == 'online' then return real end
  if real == 'offline' then return told or 'offline' end
  for i = 1, #awaited do
    if letter(awaited[i].value) == 'o' then return 'online' end
  end
  return real
end

-- What stands in a user's record: its fields, how many connections, what others are to be shown, what stands of `connection` (nil when it isn't
-- there), what the connections add up to without those that are awaited, and these (name, value).
-- It counts with `value` in place of what stands there, or not at all (nil). An invisible one is a connection, but counts for nobody: `real` is
-- offline exactly where nobody that counts is there. One that counted and ended without a goodbye is awaited for the grace, under its name behind
-- a tilde, with a deadline among the leases; behind two where it said goodbye, and that was told late.
-- nil and an error: the key holds something else.
local function record(key, connection, value)
  local all = redis.pcall('HGETALL', key)
  if all.err then return nil, all.err end
  local fields, connections, real, held, awaited, isOurs = {}, 0, 'offline', nil, {}, true
  local function add(text)
    connections = connections + 1
    local first = letter(text)
    if first == 'o' then real = 'online' elseif first == 'a' and real == 'offline' then real = 'away' end
  end
  for i = 1, #all, 2 do
    local name = all[i]
    if string.sub(name, 1, 2) ~= 'c:' then
      fields[name] = all[i + 1]
      if name ~= 'l' then isOurs = false end
    elseif string.sub(name, 3) == connection then
      held = all[i + 1]
    elseif string.sub(name, 3, 3) == '~' then
      awaited[#awaited + 1] = {name = string.sub(name, 3), value = all[i + 1]}
    else
      add(all[i + 1])
    end
  end
  if not isOurs and not STATES[fields.s or ''] then return nil, 'FOREIGN the user\'s record is a hash that is not a hub\'s' end
  if value then add(value) end
  return fields, connections, shown(fields.s, real, awaited), held, real, awaited
end

-- Set by an end that is told with the next sweep, or later: until then nobody declares the user offline.
local function isInGrace(user) return redis.call('ZSCORE', GRACE, user) end

-- The largest version of the partition, where versions are rounded. It begins with the partition's first sweep (find), whose moment is nobody's.
local top = tonumber(MARKS[8] or '')
local isTopNew = false

-- The next version of a record: it only grows, whatever Redis's clock does and whatever was lost. `step` (microseconds): it tells no more of
-- the time than last seen does. A record that is new may have been there and be lost: it begins above all that the partition has seen, and
-- above the one version more that nodes give by themselves to who has no record (decision 0036).
local function version(fields, floor, step)
  local known = tonumber(fields.v or '')
  local v = (known or 0) + 1
  local moment = micros
  if step > 1 and (known or top) then
    moment = micros - micros % step
    if not known then v = top + 2 end
  end
  if moment > v then v = moment end
  if floor + 1 > v then v = floor + 1 end
  if step > 1 and v > (top or 0) then top, isTopNew = v, true end
  return v
end

local events, eventUsers, eventCount = {}, {}, 0

-- One entry of a feed publication: state, version, ms of the change, length of the user id, the id. BEFORE: the state until then, if known.
local function event(user, before, state, v, at)
  eventCount = eventCount + 1
  eventUsers[eventCount] = user
  events[eventCount] = state .. ':' .. text(v) .. ':' .. text(at) .. ':' .. #user .. ':' .. user
  if hooks and before ~= state then
    hook(state == 'offline' and 'f' or (before or 'offline') == 'offline' and 'n' or 's', state, text(v), text(at), user)
  end
end

-- Who and where a connection is, for the trail: its id, then what its field keeps behind the state's letter (node, device, since).
local function place(connection, value)
  connection = string.match(connection, '^~*(.*)$')
  return #connection .. ':' .. connection .. string.sub(value or '', 3)
end

-- What its client calls the device; '' where that's one that a hub made up (DeviceName), which is another one with each connection.
local function device(value)
  local length, rest = string.match(value, '^.;(%d+):(.*)$')
  if not length then return '' end
  length, rest = string.match(string.sub(rest, length + 1), '^(%d+):(.*)$')
  local name = length and string.sub(rest, 1, length) or ''
  return #name == 15 and string.find(name, '^device%-[a-z0-9]+$') and '' or name
end

-- Of those that are awaited and for which `matches` is true of what is kept of them, the place of the one that ended first; nil: none.
local function earliest(user, awaited, matches)
  local place, least
  for i = 1, #awaited do
    if matches(awaited[i].value) then
      local deadline = tonumber(redis.call('ZSCORE', LEASES, user .. '|' .. awaited[i].name) or '') or 0
      if not place or deadline < least then place, least = i, deadline end
    end
  end
  return place
end

local function awaitNoMore(key, user, awaited, place)
  local name = table.remove(awaited, place).name
  redis.call('ZREM', LEASES, user .. '|' .. name)
  redis.call('HDEL', key, 'c:' .. name)
end

-- Of the ends of connections that counted the last one: when, its cause, its place, and whether it's this one. Ends come in any order, as a node may
-- be late. `last`: the one that the record keeps, where a time to come was written by a clock that has gone back.
local function lastEnd(last, ended, cause, connection, value)
  local moment, letter, where = string.match(last or '', '^(%d+);(%l)(.*)$')
  moment = tonumber(moment or '')
  if moment and moment > ended and moment <= now then return moment, letter, where, false end
  return ended, cause, place(connection, value), true
end

local function keepEnd(key, last, ended, cause, connection, value)
  local moment, letter, where, isThis = lastEnd(last, ended, cause, connection, value)
  if isThis then redis.call('HSET', key, 'l', text(moment) .. ';' .. letter .. where) end
end

-- `connection`, which counted, has ended, at `ended`, and its grace begins. Beyond what is told apart, one goes that makes no difference to the state any
-- more: the first of its own kind, which this one outlasts, or else the first of all, which others outlast.
local function await(key, ttl, user, cause, connection, value, awaited, grace, ended, last)
  if #awaited >= AWAITED_MAX then
    local kind = letter(value)
    local place = earliest(user, awaited, function(other) return letter(other) == kind end)
    awaitNoMore(key, user, awaited, place or earliest(user, awaited, function() return true end))
  end
  local name = (cause == 'x' and '~~' or '~') .. connection
  redis.call('HSET', key, 'c:' .. name, value)
  keepEnd(key, last, ended, cause, connection, value)
  -- Nobody renews the record of somebody who is only awaited, and a grace may be longer than a lease.
  redis.call('PEXPIRE', key, ttl)
  redis.call('ZADD', LEASES, text(now + grace), user .. '|' .. name)
end

-- One that comes ends the waiting for one: of its device, and of a state that it has itself. What others are shown stays the same by that.
local function comeBack(key, user, value, awaited)
  local mine = device(value)
  local function ofState(kind)
    return earliest(user, awaited, function(other) return letter(other) == kind and device(other) == mine end)
  end
  local found = letter(value) == 'o' and ofState('o') or ofState('a')
  if found then awaitNoMore(key, user, awaited, found) end
end

-- The last that counted is gone, by a goodbye or because it's invisible now: is that to be told later? It is where one is awaited, and while
-- others may still have to register again: until `notBefore`, where it's known that data were lost.
local function isToldLater(key, user, cause, connection, value, awaited, ended, last, notBefore)
  local isHeld = notBefore or now < (tonumber(MARKS[5] or '') or 0) or now < (tonumber(MARKS[6] or '') or 0)
  if #awaited == 0 and not isHeld then return false end
  keepEnd(key, last, ended, cause, connection, value)
  if #awaited == 0 or notBefore then redis.call('ZADD', GRACE, text(notBefore or now), user) end
  return true
end

-- Notes a transition and its cause in the user's trail, for explain: state's letter (o, a, f), cause's letter, version, ms, length of the
-- sweeper's name, that name, place. Kept: at least the last 50. A key of that name which isn't ours is left alone: nothing depends on the trail.
local function note(key, ttl, cause, state, v, at, by, where)
  if ttl == '0' then return end
  local letter = state == 'offline' and 'f' or string.sub(state, 1, 1)
  local length = redis.pcall('RPUSH', key, letter .. cause .. text(v) .. ':' .. text(at) .. ':' .. #by .. ':' .. by .. where)
  if type(length) ~= 'number' then return end
  if length > 60 then redis.call('LTRIM', key, -50, -1) end
  redis.call('PEXPIRE', key, ttl)
end

-- At the end of a call: keeps the largest version, and publishes all events as one feed publication, with a position like a channel's. A stream key that holds something else is left
-- as it is: the feed does without, as the partition's `x` says for as long as that key is there.
local function emit(newEpoch, tag)
  if isTopNew then redis.call('HSET', META, 'v', text(top)) end
  if eventCount == 0 then return end
  local epoch, offset, previous = MARKS[1], tonumber(MARKS[2] or ''), MARKS[3] or ''
  local isNew = not epoch or #epoch ~= 8 or not offset
  local payload = table.concat(events)
  local place
  local isWithout = MARKS[7] and redis.call('EXISTS', STREAM) == 1
  if MARKS[7] and not isWithout then redis.call('HDEL', META, 'x') end
  if not isNew then place = text(offset + 1) end
  if not isNew and not isWithout then
    local added = redis.pcall('XADD', STREAM, 'MAXLEN', '~', '1000', place .. '-0', 'g', tag, 'p', previous, 'd', payload)
    isNew = added.err and string.find(added.err, 'equal or smaller', 1, true)
  end
  if isNew then
    epoch, place, previous = newEpoch, '1', ''
    local last = redis.pcall('XREVRANGE', STREAM, '+', '-', 'COUNT', 1)
    local entry = not last.err and last[1]
    if not last.err and (not entry or string.find(entry[1], '^%d+%-0$') and #entry[2] == 6 and entry[2][1] == 'g' and entry[2][5] == 'd') then
      redis.call('DEL', STREAM)
      redis.call('XADD', STREAM, 'MAXLEN', '~', '1000', '1-0', 'g', tag, 'p', '', 'd', payload)
    else
      redis.call('HSET', META, 'x', '1')
    end
  end
  redis.call('HSET', META, 'e', epoch, 's', place, 'g', tag)
  redis.call('PUBLISH', FEED, place .. ':' .. epoch .. ':' .. previous .. ':' .. tag .. ':' .. payload)
  -- The same for whoever watches this user alone (presence.feeds): in the slot of the feed, whose name ends in pf.
  local prefix = string.sub(FEED, 1, -3) .. 'uf:'
  for i = 1, eventCount do redis.call('PUBLISH', prefix .. eventUsers[i], events[i]) end
end
