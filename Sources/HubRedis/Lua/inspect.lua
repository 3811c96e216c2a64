-- All that's known of a user, at one moment. Writes nothing. Follows partition.lua.
-- KEYS: 1 record, 2 leases, 3 grace, 4 trail, 5 partition meta. ARGV: 1 user, 2 how many entries of the trail ('0': none)
-- Reply: {now, {field, value, …}, {deadline or '' for each field that is a connection, in order}, deadline of the grace or '', {entry, …},
--         warm until ('': never swept), hold until or ''}
local clock = redis.call('TIME')
local all = redis.call('HGETALL', KEYS[1])
-- Nobody is registered where one of the partition's keys is somebody else's: nothing is known then, least of all that a user is offline.
redis.call('ZSCORE', KEYS[2], '')
local marks = partitionMarks(KEYS[5])
local deadlines, isOurs, isKept = {}, true, false
for i = 1, #all, 2 do
  if all[i] == 's' then isKept = true end
  if all[i] ~= 'l' and string.sub(all[i], 1, 2) ~= 'c:' then isOurs = false end
end
-- Without a state it has connections alone (presence.lua): invisible ones of a user whom nobody ever saw.
if not isKept and not isOurs then return redis.error_reply('FOREIGN the user\'s record is a hash that is not a hub\'s') end
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'c:' then
    deadlines[#deadlines + 1] = redis.call('ZSCORE', KEYS[2], ARGV[1] .. '|' .. string.sub(all[i], 3)) or ''
  end
end
local trail = {}
if ARGV[2] ~= '0' then trail = redis.call('LRANGE', KEYS[4], -tonumber(ARGV[2]), -1) end
local now = math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)
return {string.format('%.0f', now), all, deadlines, redis.call('ZSCORE', KEYS[3], ARGV[1]) or '', trail, marks[6] or '', marks[5] or ''}
