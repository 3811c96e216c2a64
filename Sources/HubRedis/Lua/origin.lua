-- In front of publish, retry, history and tip, behind form.lua: where channels of a partition stand of which there's nothing.

-- The generation of the partition's data: a word that is lost with them. It's made when it's first asked for, and holds for 3.5 to 7 days (so that
-- not all partitions' end at once), never longer than the record that a channel leaves behind its last publication (7 days): under one
-- generation, a channel without a record has never begun. '': memory is full, and nothing can be proved of an empty channel now.
local function generation(key, fresh)
  local word = redis.call('GET', key)
  if not word then
    local span = 302400000 * (1 + (string.byte(fresh) - 48) / 75)
    local made = redis.pcall('SET', key, fresh, 'PX', string.format('%.0f', span))
    return made.err and '' or fresh
  end
  if not isMark(word) then error('FOREIGN the generation key does not hold a generation') end
  return word
end

-- Where there's no whole record (isWhole has looked at it): whether the channel has begun all the same, so that something of it is left. What
-- isn't a hub's is an error: a hash without our fields, a stream whose last entry isn't a publication.
local function begun(meta, metaKey, streamKey)
  local isAny = meta[1] or meta[2] or meta[3]
  if not isAny and redis.call('EXISTS', metaKey) == 1 then error('FOREIGN the meta key holds a hash that is not a hub\'s') end
  if redis.call('EXISTS', streamKey) == 0 then return isAny end
  local last = redis.call('XREVRANGE', streamKey, '+', '-', 'COUNT', 1)[1]
  if last and not (string.find(last[1], '^%d+%-0$') and #last[2] == 6 and last[2][1] == 'g' and last[2][5] == 'd') then
    error('FOREIGN the stream key holds a stream that is not a hub\'s')
  end
  return true
end
