-- All that's known of a user, at one moment. Writes nothing.
-- KEYS: 1 record, 2 leases, 3 grace, 4 trail, 5 partition meta. ARGV: 1 user, 2 how many entries of the trail ('0': none)
-- Reply: {now, {field, value, …}, {deadline or '' for each field that is a connection, in order}, deadline of the grace or '', {entry, …},
--         warm until ('': never swept), hold until or ''}
local clock = redis.call('TIME')
local all = redis.call('HGETALL', KEYS[1])
local deadlines = {}
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'c:' then
    deadlines[#deadlines + 1] = redis.call('ZSCORE', KEYS[2], ARGV[1] .. '|' .. string.sub(all[i], 3)) or ''
  end
end
local trail = {}
if ARGV[2] ~= '0' then trail = redis.call('LRANGE', KEYS[4], -tonumber(ARGV[2]), -1) end
-- Somebody else's, of another type: nothing is known of it.
local meta = redis.pcall('HMGET', KEYS[5], 'wa', 'ho')
if meta.err then meta = {} end
local now = math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)
return {string.format('%.0f', now), all, deadlines, redis.call('ZSCORE', KEYS[3], ARGV[1]) or '', trail, meta[1] or '', meta[2] or ''}
