-- Lists the members of a channel; writes nothing.
-- ARGV: 1 cursor, 2 about how many, 3 all at once if there are no more than this
-- Reply: {sequence, begun, occupancy, next cursor ('0': no more), {user, devices, …}}
if not q then return {'0', '0', 0, '0', {}} end
if ARGV[1] == '0' and occupancy <= tonumber(ARGV[3]) then
  return {text(q), begun, occupancy, '0', redis.call('HGETALL', USERS)}
end
local step = redis.call('HSCAN', USERS, ARGV[1], 'COUNT', ARGV[2])
return {text(q), begun, occupancy, step[1], step[2]}
