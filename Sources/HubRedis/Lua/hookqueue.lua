-- What backends are told of (docs/hooks.md), appended to the partition's queue in the same script as the thing itself: put in front of the
-- scripts that do that, which call hookRules once.
local hooks = nil

-- RULES: '' when nobody is told, else the letters of the kinds, how many a partition keeps, and for how long (ms): "nf:3906:90000000"
local function hookRules(rules, queue, counts)
  if rules == '' then return end
  local kinds, most, keep = string.match(rules, '^(%l*):(%d+):(%d+)$')
  hooks = {kinds = kinds, most = tonumber(most), keep = keep, queue = queue, counts = counts}
end

-- KIND: its letter. DETAIL: a user's state, a channel's occupancy. Numbers come as text.
local function hook(kind, detail, version, at, name)
  if not hooks or not string.find(hooks.kinds, kind, 1, true) then return end
  local length = redis.pcall('XLEN', hooks.queue)
  -- Somebody else's key: who reads it says so, and it stays as it is.
  if type(length) ~= 'number' then return end
  if length >= hooks.most then
    local gone = redis.call('XTRIM', hooks.queue, 'MAXLEN', '~', hooks.most)
    if gone > 0 then
      redis.pcall('HINCRBY', hooks.counts, 'x', gone)
      redis.call('PEXPIRE', hooks.counts, hooks.keep)
    end
  end
  local added = redis.pcall('XADD', hooks.queue, '*', 'k', kind, 'd', detail, 'v', version, 't', at, 'n', name)
  if type(added) == 'table' and added.err then
    -- Somebody made an entry at the end of time. What happened has happened, queued or not.
    redis.pcall('HINCRBY', hooks.counts, 'x', 1)
    redis.call('PEXPIRE', hooks.counts, hooks.keep)
  end
  if length == 0 then redis.call('PEXPIRE', hooks.queue, hooks.keep) end
end
