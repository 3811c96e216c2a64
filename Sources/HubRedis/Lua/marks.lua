-- Lists read positions of a channel; writes nothing. Follows form.lua.
-- KEYS: 1 meta, 2 read positions. ARGV: 1 whose own comes first, 2 how many at most (at least 1)
-- Reply: {user, offset, …}. A position of an earlier epoch doesn't count, but for what went on into this one (renew.lua).
local meta = redis.call('HMGET', KEYS[1], 'e', 's', 'g', 'o', 'n')
isWhole(meta)
local epoch, before, survived = meta[1] or '', meta[4], tonumber(meta[5] or '') or 0
local room = tonumber(ARGV[2])
local marks = {}
local function add(user, value)
  local offset, of = string.match(value, '^(%d+):(.*)$')
  if room < 1 or of ~= epoch and of ~= before then return end
  if of ~= epoch and tonumber(offset) > survived then offset = string.format('%.0f', survived) end
  room = room - 1
  marks[#marks + 1] = user
  marks[#marks + 1] = offset
end

local own = redis.call('HGET', KEYS[2], ARGV[1])
if own then add(ARGV[1], own) end
local cursor = '0'
-- A small hash comes whole with the first step; of a large one some are enough, wherever they lie.
for _ = 1, 10 do
  local step = redis.call('HSCAN', KEYS[2], cursor, 'COUNT', ARGV[2])
  cursor = step[1]
  for i = 1, #step[2], 2 do
    if step[2][i] ~= ARGV[1] then add(step[2][i], step[2][i + 1]) end
  end
  if cursor == '0' or room < 1 then break end
end
return marks
