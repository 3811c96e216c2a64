-- In front of the scripts that read a partition's meta key: what stands in it, in one order. A hash that isn't a hub's is an error.
local function partitionMarks(key)
  local marks = redis.call('HMGET', key, 'e', 's', 'g', 'sw', 'ho', 'wa', 'x', 'v')
  if not (marks[1] or marks[2] or marks[4] or marks[5] or marks[6] or marks[8]) and redis.call('EXISTS', key) == 1 then
    error('FOREIGN the partition\'s meta key holds a hash that is not a hub\'s')
  end
  return marks
end
