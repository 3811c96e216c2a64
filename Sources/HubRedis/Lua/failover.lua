-- Behind sentinels, before anything else on a link: a master that took over may lack what was acknowledged before, first messages of channels
-- among it. So channels of which there's nothing stand elsewhere from then on, and whoever stood there is told (decision 0136).
-- KEYS: 1 the last failover that's known, then the generation of each partition. ARGV: 1 the failover as the sentinels number it
-- Reply: 1 for the first node that comes with it. When memory is full the number isn't kept, and the next node does it again.
local known = redis.call('GET', KEYS[1])
if known and not tonumber(known) then return redis.error_reply('FOREIGN ' .. KEYS[1] .. ' does not hold the number of a failover') end
-- Another number, not only a larger one: sentinels that are set up anew begin to count anew.
if known == ARGV[1] then return 0 end
for i = 2, #KEYS do
  local word = redis.pcall('GET', KEYS[i])
  -- What isn't a generation isn't ours.
  if type(word) == 'string' and #word == 8 then redis.call('DEL', KEYS[i]) end
end
redis.pcall('SET', KEYS[1], ARGV[1])
return 1
