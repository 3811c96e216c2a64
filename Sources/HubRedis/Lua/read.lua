-- Moves a user's read position in a channel forwards; hands it out only when it moved.
-- KEYS: 1 meta, 2 read positions, 3 live channel
-- ARGV: 1 user, 2 offset, 3 ttl (ms), 4 publication, 5 users of a channel at most
-- Reply: the offset that counts now. A position belongs to an epoch: one of an earlier epoch doesn't count, but for what went on into this one.
local meta = redis.call('HMGET', KEYS[1], 'e', 'o', 'n', 's')
if not (meta[1] and #meta[1] == 8 and tonumber(meta[4] or '')) and redis.call('EXISTS', KEYS[1]) == 1 then
  -- No whole record: one of ours that's broken has fields of our form.
  local epoch, offset = meta[1], meta[4]
  if not (epoch or offset) or epoch and not string.find(epoch, '^[a-z0-9]+$') or offset and not string.find(offset, '^%d+$') then
    return redis.error_reply('FOREIGN the meta key holds a hash that is not a hub\'s')
  end
end
local epoch = meta[1] or ''
-- What a position counts for; nil: nothing.
local function counted(offset, of)
  if of == epoch then return tonumber(offset) end
  -- Of the epoch before (renew.lua): as far as its messages survived.
  if of == meta[2] then return math.min(tonumber(offset), tonumber(meta[3] or '') or 0) end
end
local known = redis.call('HGET', KEYS[2], ARGV[1])
-- Whose hash it is shows in what stands there, before a user is added: a position is digits, a colon, an epoch.
if not known then
  local some = redis.call('HSCAN', KEYS[2], '0', 'COUNT', 10)[2]
  for i = 2, #some, 2 do
    if not string.find(some[i], '^%d+:[a-z2-7]*$') then
      return redis.error_reply('FOREIGN the read positions are not a hub\'s')
    end
  end
end
if known then
  local offset, of = string.match(known, '^(%d+):(.*)$')
  if not offset then return redis.error_reply('FOREIGN the read positions are not a hub\'s') end
  local last = counted(offset, of)
  if last and last >= tonumber(ARGV[2]) then return string.format('%.0f', last) end
elseif redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[5]) then
  -- Those of an earlier epoch make room: some of them, from a place that changes with each call.
  local isFull = true
  local some = redis.call('HSCAN', KEYS[2], redis.call('TIME')[2], 'COUNT', 100)[2]
  for i = 1, #some, 2 do
    local offset, of = string.match(some[i + 1], '^(%d+):(.*)$')
    if not offset or not counted(offset, of) then
      redis.call('HDEL', KEYS[2], some[i])
      isFull = false
    end
  end
  if isFull then return redis.error_reply('READERS the channel has as many readers as it may') end
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ':' .. epoch)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('PUBLISH', KEYS[3], 'E:' .. ARGV[4])
return ARGV[2]
