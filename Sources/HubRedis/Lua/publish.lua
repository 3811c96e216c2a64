-- Appends a publication to its channel's history, gives it the next position and hands it out, all or nothing.
-- Follows form.lua and origin.lua. KEYS: 1 meta, 2 stream, 3 dedup, 4 live channel, 5 generation
-- ARGV: 1 new epoch (and new generation), 2 tag, 3 history size, 4 history ttl, 5 meta ttl, 6 dedup ttl (ms each), 7 fingerprint, 8 publication
-- Reply: {0, 'offset:epoch:tag'}, or {1, what the dedup key holds} for a repeated message id; {3, that} when the channel isn't any more what it
-- was then: it began anew, or lies before that place.
-- A key that holds something else than a hub's is an error, before anything is written.
local known = redis.call('GET', KEYS[3])
local meta = redis.call('HMGET', KEYS[1], 'e', 's', 'g')
local isNew = not isWhole(meta)
if known then
  local place, epoch = string.match(known, '^(%d+):([^:]*):')
  if place and meta[1] and epoch ~= meta[1] then
    -- Of the epoch before, what survived has the same place in this one (renew.lua).
    local before = redis.call('HMGET', KEYS[1], 'o', 'n')
    if epoch == before[1] and tonumber(place) <= (tonumber(before[2] or '') or 0) then
      return {1, place .. ':' .. meta[1] .. string.sub(known, #place + #epoch + 2, 64)}
    end
  end
  local holds = not place or epoch == meta[1] and tonumber(place) <= (tonumber(meta[2] or '') or 0)
  -- Ours are short; of somebody else's the beginning is enough to see that.
  return {holds and 1 or 3, string.sub(known, 1, 64)}
end
local epoch, previous = meta[1], meta[3] or ''
local offset = tonumber(meta[2] or '')
local size = tonumber(ARGV[3])
local place

-- The first write decides: when memory is full it's refused, and nothing has happened yet.
if not isNew then
  place = string.format('%.0f', offset + 1)
  if size > 0 then
    local added = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], place .. '-0', 'g', ARGV[2], 'p', previous, 'd', ARGV[8])
    if added.err then
      -- The stream is ahead of the meta key: one of them was rolled back alone. The channel begins anew, and says so by its epoch.
      if not string.find(added.err, 'equal or smaller', 1, true) then return added end
      isNew = true
    end
  end
end
if isNew then
  -- What can't be ours isn't touched.
  local isLeft = begun(meta, KEYS[1], KEYS[2])
  epoch, place, previous = ARGV[1], '1', ''
  -- After the origin, unless something is left of an earlier life: then whoever stands there may have missed it.
  if not isLeft then previous = generation(KEYS[5], ARGV[1]) end
end
redis.call('HSET', KEYS[1], 'e', epoch, 's', place, 'g', ARGV[2])
if isNew then
  -- When the epoch began, for renew.lua; and nothing of another one goes on into it.
  local clock = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'a', string.format('%.0f', math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)))
  redis.call('HDEL', KEYS[1], 'o', 'n')
  redis.call('DEL', KEYS[2])
  if size > 0 then
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '1-0', 'g', ARGV[2], 'p', previous, 'd', ARGV[8])
  end
end
if size > 0 then redis.call('PEXPIRE', KEYS[2], ARGV[4]) end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PUBLISH', KEYS[4], place .. ':' .. epoch .. ':' .. previous .. ':' .. ARGV[2] .. ':' .. ARGV[8])
local position = place .. ':' .. epoch .. ':' .. ARGV[2]
redis.call('SET', KEYS[3], position .. ':' .. ARGV[7], 'PX', ARGV[6])
return {0, position}
