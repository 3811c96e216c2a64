-- Appends a publication to its channel's history, gives it the next position and hands it out, all or nothing.
-- KEYS: 1 meta, 2 stream, 3 dedup, 4 live channel
-- ARGV: 1 new epoch, 2 tag, 3 history size, 4 history ttl, 5 meta ttl, 6 dedup ttl (ms each), 7 fingerprint, 8 publication
-- Reply: {0, 'offset:epoch:tag'}, or {1, what the dedup key holds} for a repeated message id.
local known = redis.call('GET', KEYS[3])
if known then return {1, known} end

local meta = redis.call('HMGET', KEYS[1], 'e', 's', 'g')
local epoch, previous = meta[1], meta[3] or ''
local offset = tonumber(meta[2] or '')
local isNew = not epoch or #epoch ~= 8 or not offset
if isNew then epoch, offset, previous = ARGV[1], 0, '' end
local size = tonumber(ARGV[3])
local place = string.format('%.0f', offset + 1)

-- HSET is the first write: when memory is full it's refused, and nothing has happened yet.
redis.call('HSET', KEYS[1], 'e', epoch, 's', place, 'g', ARGV[2])
if isNew then redis.call('DEL', KEYS[2]) end
if size > 0 then
  local added = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], place .. '-0', 'g', ARGV[2], 'p', previous, 'd', ARGV[8])
  if added.err then
    -- The stream is ahead of the meta key: one of them was rolled back alone. The channel begins anew, and says so by its epoch.
    epoch, place, previous = ARGV[1], '1', ''
    redis.call('DEL', KEYS[2])
    redis.call('HSET', KEYS[1], 'e', epoch, 's', place)
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '1-0', 'g', ARGV[2], 'p', '', 'd', ARGV[8])
  end
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PUBLISH', KEYS[4], place .. ':' .. epoch .. ':' .. previous .. ':' .. ARGV[2] .. ':' .. ARGV[8])
local position = place .. ':' .. epoch .. ':' .. ARGV[2]
redis.call('SET', KEYS[3], position .. ':' .. ARGV[7], 'PX', ARGV[6])
return {0, position}
