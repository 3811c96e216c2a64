-- Shared by apply and expire, put in front of both: time, a user's record, the feed.
-- KEYS: 1 leases, 2 grace, 3 partition meta, 4 feed stream, 5 feed channel, then user records
local LEASES, GRACE, META, STREAM, FEED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- `..` and tostring keep 14 digits only; a version has 16.
local function text(number) return string.format('%.0f', number) end

local clock = redis.call('TIME')
local micros = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local now = math.floor(micros / 1000)

-- What stands in a user's record: its fields, how many connections, and the state that they add up to. An invisible one counts as a
-- connection but adds nothing.
local function record(key)
  local all = redis.call('HGETALL', key)
  local fields, connections, state = {}, 0, 'offline'
  for i = 1, #all, 2 do
    local name, value = all[i], all[i + 1]
    if string.sub(name, 1, 2) == 'c:' then
      connections = connections + 1
      local first = string.sub(value, 1, 1)
      if first == 'o' then state = 'online' elseif first == 'a' and state == 'offline' then state = 'away' end
    else
      fields[name] = value
    end
  end
  return fields, connections, state
end

-- The next version of a record: it only grows, whatever Redis's clock does and whatever was lost.
local function version(fields, floor)
  local v = (tonumber(fields.v or '') or 0) + 1
  if micros > v then v = micros end
  if floor + 1 > v then v = floor + 1 end
  return v
end

local events, eventUsers, eventCount = {}, {}, 0

-- One entry of a feed publication: state, version, ms of the change, length of the user id, the id.
local function event(user, state, v, at)
  eventCount = eventCount + 1
  eventUsers[eventCount] = user
  events[eventCount] = state .. ':' .. text(v) .. ':' .. text(at) .. ':' .. #user .. ':' .. user
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
  -- The same for whoever watches this user alone (presence.feeds): in the slot of the feed, whose name ends in pf.
  local prefix = string.sub(FEED, 1, -3) .. 'uf:'
  for i = 1, eventCount do redis.call('PUBLISH', prefix .. eventUsers[i], events[i]) end
end
