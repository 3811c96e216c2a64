-- The common beginning of history, retry and tip: where a channel stands, what is kept of it, whether that continues a position.
-- Follows origin.lua. KEYS: 1 meta, 2 stream, the last one generation. ARGV: 1 new generation
local function text(number) return string.format('%.0f', number) end
local function id(offset) return text(offset) .. '-0' end

local meta = redis.call('HMGET', KEYS[1], 'e', 's', 'g', 'o')
local tip = {epoch = '', offset = 0, tag = ''}
if isWhole(meta) then
  tip = {epoch = meta[1], offset = tonumber(meta[2]), tag = meta[3] or ''}
elseif not begun(meta, KEYS[1], KEYS[2]) then
  -- Where something is left, the channel did begin: then it stands nowhere that could be continued.
  tip.tag = generation(KEYS[#KEYS], ARGV[1])
end

-- An entry of ours: its offset, tag, previous tag and publication; or an error, since others may have written into the stream. What lies past
-- the tip is never looked at.
local function entry(raw)
  local name, fields = raw[1], raw[2]
  local offset = string.sub(name, -2) == '-0' and tonumber(string.sub(name, 1, -3))
  if not offset or #fields ~= 6 or fields[1] ~= 'g' or fields[3] ~= 'p' or fields[5] ~= 'd' then
    error('FOREIGN the stream holds an entry that is not a hub\'s')
  end
  return offset, fields[2], fields[4], fields[6]
end

-- Up to `count` entries from offset `low` to offset `high`, or backwards from `high`.
local function entries(low, high, count, isReverse)
  if low > high then return {} end
  if isReverse then return redis.call('XREVRANGE', KEYS[2], id(high), id(low), 'COUNT', count) end
  return redis.call('XRANGE', KEYS[2], id(low), id(high), 'COUNT', count)
end

-- nil, or why it can't be proved that nothing is missing behind a position (redis-design §4; RecoveryFailure.judge).
local function judge(epoch, offset, tag)
  local isOrigin = epoch == '' and offset == 0
  if isOrigin then
    -- Something that came after it was taken back (renew.lua), though the first messages are still there.
    if tag == '' or meta[4] then return 'epochChanged' end
    if tip.offset == 0 then return tag ~= tip.tag and 'epochChanged' or nil end
  else
    if epoch == tip.epoch and offset == tip.offset and tag == tip.tag then return nil end
    if epoch ~= tip.epoch then return 'epochChanged' end
    if offset > tip.offset then return 'ahead' end
    if offset == tip.offset then return 'rolledBack' end
  end
  local first = entries(offset + 1, tip.offset, 1)[1]
  if not first then return 'trimmed' end
  local place, _, previous = entry(first)
  if place ~= offset + 1 then return 'trimmed' end
  if previous ~= tag then return isOrigin and 'epochChanged' or 'rolledBack' end
  return nil
end

-- Where the fields of a publication lie (PublicationCodec): the place of its time, and what it's known by.
local function head(body)
  local places, at = {}, 3
  for i = 1, 3 do
    places[i] = {at + 1, at + (string.byte(body, at) or 0)}
    at = places[i][2] + 1
  end
  return at, places
end
