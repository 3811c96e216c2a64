-- Charges a user's budgets with what was spent already, and says by how much time each is overdrawn.
-- KEYS: 1 the user's budgets. ARGV: 1 the longest overdraft (us), then for each: 2 its field, 3 what was spent, 4 what may be spent at once (us)
-- Reply: {us overdrawn, …}. A field holds when the budget was last empty, as if it had filled steadily since.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local function text(number) return string.format('%.0f', number) end
local most = now + tonumber(ARGV[1])

-- What can't be ours isn't touched: a hash without our fields.
local known = redis.call('HMGET', KEYS[1], 'm', 'b', 's', 'c')
if not (known[1] or known[2] or known[3] or known[4]) and redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FOREIGN the key of a user\'s budgets holds a hash that is not a hub\'s')
end
local empty = {m = known[1], b = known[2], s = known[3], c = known[4]}

local reply, fields, longest = {}, {}, 0
for i = 2, #ARGV, 3 do
  local at = math.max(tonumber(empty[ARGV[i]] or '') or 0, now - tonumber(ARGV[i + 2])) + tonumber(ARGV[i + 1])
  -- Also where the clock went back: nobody is locked out for longer.
  at = math.min(at, most)
  fields[#fields + 1] = ARGV[i]
  fields[#fields + 1] = text(at)
  reply[#reply + 1] = text(math.max(at - now, 0))
  longest = math.max(longest, tonumber(ARGV[i + 2]))
end
redis.call('HSET', KEYS[1], unpack(fields))
-- By then every budget is full again, those that aren't among these too: bursts of one configuration differ by a second at most.
redis.call('PEXPIRE', KEYS[1], text(math.ceil((tonumber(ARGV[1]) + longest) / 1000) + 1000))
return reply
