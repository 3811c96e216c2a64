-- Shared by apply and expire, put in front of both: time, a user's record, the feed, the trail.
-- KEYS: 1 leases, 2 grace, 3 partition meta, 4 feed stream, 5 feed channel, then for each operation its user's record and trail
local LEASES, GRACE, META, STREAM, FEED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- The first operation's record.
local FIRST = 6

-- `..` and tostring keep 14 digits only; a version has 16.
local function text(number) return string.format('%.0f', number) end

local clock = redis.call('TIME')
local micros = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local now = math.floor(micros / 1000)

-- What stands in a user's record: its fields, how many connections, the state that they add up to, and the value of the field `without`,
-- which is about to go and doesn't count. An invisible connection counts as one but adds nothing.
local function record(key, without)
  local all = redis.call('HGETALL', key)
  local fields, connections, state, gone = {}, 0, 'offline', nil
  for i = 1, #all, 2 do
    local name, value = all[i], all[i + 1]
    if name == without then
      gone = value
    elseif string.sub(name, 1, 2) == 'c:' then
      connections = connections + 1
      local first = string.sub(value, 1, 1)
      if first == 'o' then state = 'online' elseif first == 'a' and state == 'offline' then state = 'away' end
    else
      fields[name] = value
    end
  end
  return fields, connections, state, gone
end

-- The next version of a record: it only grows, whatever Redis's clock does and whatever was lost. `step` (microseconds): it tells no more of
-- the time than last seen does. Of a record that is new, or was lost, it tells the time, so as to be above all that went before.
local function version(fields, floor, step)
  local known = tonumber(fields.v or '')
  local v = (known or 0) + 1
  local moment = micros
  if known and step > 1 then moment = micros - micros % step end
  if moment > v then v = moment end
  if floor + 1 > v then v = floor + 1 end
  return v
end

local events, eventCount = {}, 0

-- One entry of a feed publication: state, version, ms of the change, length of the user id, the id.
local function event(user, state, v, at)
  eventCount = eventCount + 1
  events[eventCount] = state .. ':' .. text(v) .. ':' .. text(at) .. ':' .. #user .. ':' .. user
end

-- Who and where a connection is, for the trail: its id, then what its field keeps behind the state's letter (node, device, since).
local function place(connection, value) return #connection .. ':' .. connection .. string.sub(value or '', 3) end

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

-- Publishes all events of this call as one feed publication, with a position like a channel's.
local function emit(newEpoch, tag)
  if eventCount == 0 then return end
  local meta = redis.call('HMGET', META, 'e', 's', 'g')
  local epoch, previous = meta[1], meta[3] or ''
  local offset = tonumber(meta[2] or '')
  if not epoch or #epoch ~= 8 or not offset then
    epoch, offset, previous = newEpoch, 0, ''
    redis.call('DEL', STREAM)
  end
  local place = text(offset + 1)
  local payload = table.concat(events)
  local added = redis.pcall('XADD', STREAM, 'MAXLEN', '~', '1000', place .. '-0', 'g', tag, 'p', previous, 'd', payload)
  if added.err then
    epoch, place, previous = newEpoch, '1', ''
    redis.call('DEL', STREAM)
    redis.call('XADD', STREAM, 'MAXLEN', '~', '1000', '1-0', 'g', tag, 'p', '', 'd', payload)
  end
  redis.call('HSET', META, 'e', epoch, 's', place, 'g', tag)
  redis.call('PUBLISH', FEED, place .. ':' .. epoch .. ':' .. previous .. ':' .. tag .. ':' .. payload)
end
