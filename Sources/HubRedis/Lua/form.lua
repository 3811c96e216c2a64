-- In front of all scripts that read a channel's record: whether what stands in it has a hub's form. Anything else is somebody else's, and an
-- error before the first write (decisions 0114, 0301).
local function isMark(text) return #text == 8 and string.find(text, '^[a-z0-9]+$') ~= nil end

-- As a hub writes it: digits without leading zeros, 15 at most. No channel gets so far, and there Lua's numbers are exact by a margin.
local function isOffset(text) return #text < 16 and (text == '0' or string.find(text, '^[1-9]%d*$') ~= nil) end

-- Whether a record (`e`, `s` and `g`, in this order) is whole; one that lost a field isn't.
local function isWhole(meta)
  local epoch, offset, tag = meta[1], meta[2], meta[3]
  if epoch and not isMark(epoch) or offset and not isOffset(offset) or tag and tag ~= '' and not isMark(tag) then
    error('FOREIGN the meta key holds a hash that is not a hub\'s')
  end
  return epoch and offset
end
