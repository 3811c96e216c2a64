-- Moves a user's read position in a channel forwards; hands it out only when it moved.
-- Follows form.lua. KEYS: 1 meta, 2 read positions, 3 live channel
-- ARGV: 1 user, 2 offset, 3 ttl (ms), 4 publication, 5 users of a channel at most, 6 and where it's one that a node knows to have been moved before
-- the store may have lost it, the epoch that was in
-- Reply: {offset that counts now, epoch}; {'', epoch}: what's known counts no more; {offset, epoch, 'less'}: it counts up to there now, and
-- nothing was written; the error AHEAD with the channel's offset: that isn't there. A position belongs to an epoch: one of an earlier epoch doesn't count, but for what went on into this one.
local meta = redis.call('HMGET', KEYS[1], 'e', 's', 'g', 'o', 'n')
-- One of ours that's broken has fields of our form.
if not isWhole(meta) and not (meta[1] or meta[2] or meta[3]) and redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FOREIGN the meta key holds a hash that is not a hub\'s')
end
local epoch = meta[1] or ''
-- What a position counts for; nil: nothing.
local function counted(offset, of)
  if of == epoch then return tonumber(offset) end
  -- Of the epoch before (renew.lua): as far as its messages survived.
  if of == meta[4] then return math.min(tonumber(offset), tonumber(meta[5] or '') or 0) end
end
if ARGV[6] and ARGV[6] ~= epoch then
  local left = counted(ARGV[2], ARGV[6])
  -- What's handed out names the offset, so that the node asks again.
  if left then return {string.format('%.0f', left), epoch, 'less'} end
  return {'', epoch}
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
  if last and last >= tonumber(ARGV[2]) then return {string.format('%.0f', last), epoch} end
end
-- Nobody has read what isn't there; what a node knows to have been acknowledged was.
if not ARGV[6] and tonumber(ARGV[2]) > (tonumber(meta[2] or '') or 0) then return redis.error_reply('AHEAD ' .. (meta[2] or '0')) end
if not known and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[5]) then
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
return {ARGV[2], epoch}
