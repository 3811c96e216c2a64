-- Finds which of some keys hold something of another type than they should. Writes nothing.
-- KEYS: any of one slot. ARGV: for each key what it should be: 'h' hash, 'z' sorted set, 'x' stream, 's' string
-- Reply: the indexes, from 0, of those that aren't. Needs no rights but those that a hub has anyway (so not TYPE).
local looks = {
  h = function(key) return redis.pcall('HLEN', key) end,
  z = function(key) return redis.pcall('ZSCORE', key, '') end,
  x = function(key) return redis.pcall('XRANGE', key, '0-1', '0-1', 'COUNT', 1) end,
  s = function(key) return redis.pcall('GET', key) end,
}
local strangers = {}
for i = 1, #KEYS do
  local reply = looks[ARGV[i]](KEYS[i])
  if type(reply) == 'table' and reply.err then strangers[#strangers + 1] = i - 1 end
end
return strangers
