-- Prolongs leases of one partition and, where they are named, their users' records.
-- KEYS: 1 leases, then the user record of each member, or none. ARGV: 1 lease, 2 user ttl (ms each), then members
-- Reply: the indexes, from 0, of members whose lease or record is gone.
local missing, isMissing = {}, {}
-- Changes nothing, and is a first write that works when memory is full, after which ZADD does too.
redis.call('ZREM', KEYS[1], '')
for i = 2, #KEYS do
  -- What holds something else by now is gone for us, and gets no time to live.
  local isOthers = type(redis.pcall('HLEN', KEYS[i])) == 'table'
  if isOthers or redis.call('PEXPIRE', KEYS[i], ARGV[2]) == 0 then isMissing[i - 1] = true end
end
local clock = redis.call('TIME')
local deadline = string.format('%.0f', math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000) + tonumber(ARGV[1]))
local count = #ARGV - 2
for first = 1, count, 100 do
  local last = math.min(first + 99, count)
  local arguments = {}
  for i = first, last do
    arguments[#arguments + 1] = deadline
    arguments[#arguments + 1] = ARGV[i + 2]
  end
  if redis.call('ZADD', KEYS[1], 'XX', 'CH', unpack(arguments)) < last - first + 1 then
    -- Some are gone, or had this deadline already.
    for i = first, last do
      if not redis.call('ZSCORE', KEYS[1], ARGV[i + 2]) then isMissing[i] = true end
    end
  end
end
for i = 1, count do
  if isMissing[i] then missing[#missing + 1] = i - 1 end
end
return missing
