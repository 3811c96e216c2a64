-- Takes away what was delivered of a partition's queue of hooks, holds the partition or lets it go, and reads what is next.
-- KEYS: 1 queue, 2 lease, 3 counts. ARGV: 1 incarnation, 2 lease (ms), 3 't' (goes on if it's ours, takes it if it's nobody's), 'w' (as 't',
--       and tells another who holds it that it's wanted) or 'l' (lets go), 4 limit, 5 how long events are kept (ms), 6 of the lost, how many
--       the receiver knows of, 7 how many ids are of dropped events, then ids: those, and the delivered
-- Reply: {ms now, 'u' (ours), 'w' (ours, and wanted since the last time), 'o' (another's) or 'n' (nobody's), ms left of another's lease,
--         events that wait, ms of the oldest or '', overflowed, given up, told, then for each event: id, kind, detail, version, ms, name}
local length = redis.call('XLEN', KEYS[1])
local holder = redis.call('GET', KEYS[2])
local counts = redis.call('HMGET', KEYS[3], 'x', 'z', 'y')
local left = 0
-- Behind the holder's incarnation, which has no space.
local wish = ' w'
local isWanted = holder and string.sub(holder, -#wish) == wish
if isWanted then holder = string.sub(holder, 1, -#wish - 1) end
if holder then
  left = redis.call('PTTL', KEYS[2])
  if left < 0 then return redis.error_reply('FOREIGN the lease of hooks has no end') end
end
local function text(number) return string.format('%.0f', number) end

-- A lease that only a clock which went back explains: longer than any that is taken.
local isFar = left > tonumber(ARGV[2]) + 5000
-- Memory may be full, and then the queue must be emptied all the same: the first write is one that's always allowed.
redis.call('PEXPIRE', KEYS[1], ARGV[5])
if isFar then
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  left = tonumber(ARGV[2])
end
local overflowed, given, told = tonumber(counts[1] or '') or 0, tonumber(counts[2] or '') or 0, tonumber(counts[3] or '') or 0
local known = told

local function delete(first, last)
  local count = 0
  for i = first, last, 100 do count = count + redis.call('XDEL', KEYS[1], unpack(ARGV, i, math.min(i + 99, last))) end
  return count
end
local dropped = tonumber(ARGV[7])
local gone = delete(8, 7 + dropped)
if gone > 0 then
  given = given + gone
  redis.call('HINCRBY', KEYS[3], 'z', gone)
end
length = length - gone - delete(8 + dropped, #ARGV)
told = math.min(math.max(told, tonumber(ARGV[6])), overflowed + given)
if told ~= known then redis.call('HSET', KEYS[3], 'y', text(told)) end
if gone > 0 or told ~= known then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end

local state = 'n'
if holder and holder ~= ARGV[1] then
  state = 'o'
  if ARGV[3] == 'w' and not isWanted then redis.call('SET', KEYS[2], holder .. wish, 'KEEPTTL') end
elseif ARGV[3] == 'l' then
  if holder then redis.call('DEL', KEYS[2]) end
else
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
  state = isWanted and 'w' or 'u'
end

local clock = redis.call('TIME')
local reply = {text(math.floor((tonumber(clock[1]) * 1000000 + tonumber(clock[2])) / 1000)), state, text(left), text(length), '',
  text(overflowed), text(given), text(told)}
if state == 'o' or state == 'n' or length == 0 then return reply end
local limit = tonumber(ARGV[4])
local entries = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', math.max(limit, 1))
if entries[1] then reply[5] = string.match(entries[1][1], '^(%d+)') end
for i = 1, math.min(#entries, limit) do
  local id, fields = entries[i][1], entries[i][2]
  reply[#reply + 1] = id
  -- What isn't ours to read is given up by who reads it.
  for j = 2, 10, 2 do reply[#reply + 1] = fields[j] or '' end
end
return reply
