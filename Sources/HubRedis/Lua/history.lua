-- Reads a page of a channel's history; writes nothing but a generation that's missing. Follows chain.lua. KEYS: 1 meta, 2 stream, 3 generation
-- ARGV: 1 new generation, 2 the first offset that counts, 3 the last, 4 from which time on, 5 before which time ('': any; ms since 1970),
--       6 '1': the newest first, 7 publications, 8 their bytes at most, 9 offset and 10 tag of the place before which ('': none), and where a
--       position is to be continued 11 epoch, 12 offset, 13 tag
-- Reply: {epoch, offset, tag of the tip, '' or why the position isn't continued, '1' when more lie behind ('0': another publication stands
-- at the place before which), then id offset, tag, previous tag, publication for each}. Cost: one read of the stream for each chunk of up
-- to 256 entries, and one entry for a place before which; a time by halving, each step one entry.

-- The first offset from a time on, as if times grew with offsets.
local function place(time)
  local first = entries(1, tip.offset, 1)[1]
  if not first then return tip.offset + 1 end
  local low, high = entry(first), tip.offset + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = entries(middle, high - 1, 1)[1]
    if not found then
      high = middle
    else
      local offset, _, _, body = entry(found)
      local at, stamp = head(body), 0
      for i = at + 7, at, -1 do stamp = stamp * 256 + (string.byte(body, i) or 0) end
      if stamp < time then low = offset + 1 else high = middle end
    end
  end
  return low
end

local low, high = tonumber(ARGV[2]), math.min(tonumber(ARGV[3]), tip.offset)
local failure = ''
if ARGV[11] then
  failure = judge(ARGV[11], tonumber(ARGV[12]), ARGV[13]) or ''
  -- Nothing that's kept is known to the asker for sure.
  if failure ~= '' then low = 1 end
end
if ARGV[4] ~= '' then low = math.max(low, place(tonumber(ARGV[4]))) end
if ARGV[5] ~= '' then high = math.min(high, place(tonumber(ARGV[5])) - 1) end

local reply = {tip.epoch, text(tip.offset), tip.tag, failure, ''}
if ARGV[10] ~= '' then
  local offset = tonumber(ARGV[9])
  local found, stands = entries(offset, math.min(offset, tip.offset), 1)[1], offset == tip.offset and tip.tag
  if found then
    local _, tag = entry(found)
    stands = tag
  end
  -- Where it isn't kept any more nobody knows.
  if stands and stands ~= ARGV[10] then
    reply[5] = '0'
    return reply
  end
end
local isReverse, limit, room = ARGV[6] == '1', tonumber(ARGV[7]), tonumber(ARGV[8])
local count, bytes, chunk, last = 0, 0, 8, #reply
while low <= high do
  -- One more than fits tells whether more lie behind.
  local found = entries(low, high, math.min(chunk, limit - count + 1), isReverse)
  if #found == 0 then break end
  for i = 1, #found do
    local offset, tag, previous, body = entry(found[i])
    if count == limit or (count > 0 and bytes + #body > room) then
      reply[5] = '1'
      return reply
    end
    count, bytes = count + 1, bytes + #body
    reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = string.sub(found[i][1], 1, -3), tag, previous, body
    last = last + 4
    if isReverse then high = offset - 1 else low = offset + 1 end
  end
  -- Small ones by the hundred, large ones one by one: what is read and then doesn't fit was read for nothing.
  chunk = math.max(1, math.min(256, math.floor((room - bytes) / (bytes / count + 1)) + 1))
end
return reply
