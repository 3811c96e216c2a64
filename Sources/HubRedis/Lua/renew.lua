-- After a command link was lost: is what was acknowledged over it still there? Where it was taken back the channel gets a new epoch, and whoever
-- stood before it is told, on whichever node, connected or not (decision 0250). What survived is kept: its places are the same in the new epoch.
-- Follows form.lua. KEYS: 1 meta, 2 stream, 3 dedup of what was acknowledged, 4 live channel, 5 generation
-- ARGV: 1 epoch, 2 offset, 3 tag that were acknowledged, 4 how long ago (ms), 5 '1': its message id must still be remembered,
--       6 new epoch, 7 new tag, 8 meta ttl (ms)
-- Reply: {'stands'}; {'told'}: the epoch is over, and whoever stood in it is told anyway; {'unknown'}: nothing tells; {'renewed', 'offset:epoch:tag'}
-- Redis's own clock on both sides of each comparison: what the node says is a span.
local clock = redis.call('TIME')
local now = math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)
local acknowledged = now - tonumber(ARGV[4])
local function text(number) return string.format('%.0f', number) end

-- When the generation that holds now was made; nil: there's none. Its first letter says for how long that was (origin.lua), so what's left of it
-- tells when.
local function made()
  local word = redis.call('GET', KEYS[5])
  if not word then return nil end
  local left = redis.call('PTTL', KEYS[5])
  if left < 0 or not isMark(word) then error('FOREIGN the generation key does not hold a generation') end
  return now + left - tonumber(text(302400000 * (1 + (string.byte(word) - 48) / 75)))
end

local meta = redis.call('HMGET', KEYS[1], 'e', 's', 'g', 'a', 'o')
local epoch, offset, tag = meta[1], tonumber(meta[2] or ''), meta[3] or ''
local place = tonumber(ARGV[2])

if isWhole(meta) then
  if epoch ~= ARGV[1] then
    -- An older one is what was before; so is one that doesn't say. One that began since: a channel that began anew, or another node was first.
    local began = tonumber(meta[4] or '') or 0
    if began >= acknowledged then
      if meta[5] then return {'told'} end
      -- Who stood at the origin that it began from isn't told by that, and may have stood there before the acknowledgement, if the generation
      -- is that old: where an old master went on acknowledging after its successor was asked. One that ended since doesn't say how old it was.
      local origin = made()
      -- A script's clock and its keys' may differ by one.
      if origin and origin >= acknowledged and origin <= began + 1 then return {'told'} end
    end
  elseif offset == place then
    if tag == ARGV[3] then return {'stands'} end
  elseif offset > place then
    local entry = redis.call('XRANGE', KEYS[2], text(place) .. '-0', text(place) .. '-0', 'COUNT', 1)[1]
    if entry then
      if entry[2][1] ~= 'g' then return redis.error_reply('FOREIGN the stream holds an entry that is not a hub\'s') end
      if entry[2][2] == ARGV[3] then return {'stands'} end
    else
      -- Trimmed, or the namespace keeps no history: the message id was written together with it.
      local known = redis.call('GET', KEYS[3])
      local mine = ARGV[2] .. ':' .. ARGV[1] .. ':' .. ARGV[3] .. ':'
      if known and string.sub(known, 1, #mine) == mine then return {'stands'} end
      if ARGV[5] ~= '1' then return {'unknown'} end
    end
  end
  -- The first write: refused when memory is full, and nothing has happened yet.
  redis.call('HSET', KEYS[1], 'e', ARGV[6], 'a', text(now), 'o', epoch, 'n', text(offset))
else
  -- A record that isn't whole begins anew with the next publication, and a stream without a record is nobody's continuation.
  if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('EXISTS', KEYS[2]) == 1 then return {'told'} end
  -- It had begun, and is as if it never had. Who stands at the origin of a generation that was made since can't have stood there before.
  local origin = made()
  if not origin or origin >= acknowledged then return {'told'} end
  offset, tag = 0, ARGV[7]
  -- Renewed, so that no other node's look does it once more; from itself, since nothing goes on into it.
  redis.call('HSET', KEYS[1], 'e', ARGV[6], 's', '0', 'g', tag, 'a', text(now), 'o', ARGV[6], 'n', '0')
end
redis.call('PEXPIRE', KEYS[1], ARGV[8])
local position = text(offset) .. ':' .. ARGV[6] .. ':' .. tag
redis.call('PUBLISH', KEYS[4], 'N:' .. position)
return {'renewed', position}
