-- Moves a user's read position in a channel forwards; hands it out only when it moved.
-- KEYS: 1 meta, 2 read positions, 3 live channel
-- ARGV: 1 user, 2 offset, 3 ttl (ms), 4 publication
-- Reply: the offset that counts now. A position belongs to an epoch: one of an earlier epoch doesn't count.
local epoch = redis.call('HGET', KEYS[1], 'e') or ''
local known = redis.call('HGET', KEYS[2], ARGV[1])
if known then
  local offset, of = string.match(known, '^(%d+):(.*)$')
  if of == epoch and tonumber(offset) >= tonumber(ARGV[2]) then return offset end
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ':' .. epoch)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('PUBLISH', KEYS[3], 'E:' .. ARGV[4])
return ARGV[2]
