-- In front of publish, retry, history and tip: where channels of a partition stand of which there's nothing.

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
  if not string.find(word, '^[a-z0-9]+$') or #word ~= 8 then error('FOREIGN the generation key does not hold a generation') end
  return word
end
