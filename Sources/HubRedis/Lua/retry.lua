-- Settles a retry whose message id may be forgotten already; where it turns out to be new, publish.lua publishes it, which follows.
-- Follows origin.lua and chain.lua. KEYS, ARGV 1 to 8: as for publish; 9 epoch, 10 offset ('': not known), 11 tag of where the sender knew the channel to be
-- Reply: as publish, or {2, ''}: it can't be told. Cost: a look at each entry behind that position.
if not redis.call('GET', KEYS[3]) then
  if ARGV[10] == '' or judge(ARGV[9], tonumber(ARGV[10]), ARGV[11]) then return {2, ''} end
  -- Sender, id, and content: class, format and payload.
  local function parts(body)
    local at, places = head(body)
    local function field(i) return string.sub(body, places[i][1], places[i][2]) end
    return field(1), field(3), string.sub(body, 2, 2) .. string.sub(body, at + 8)
  end
  local user, message, content = parts(ARGV[8])
  local next = tonumber(ARGV[10]) + 1
  while next <= tip.offset do
    local found = entries(next, tip.offset, 16)
    -- A hole in what's kept may be where it was.
    if #found == 0 then return {2, ''} end
    for i = 1, #found do
      local offset, tag, _, body = entry(found[i])
      if offset ~= next then return {2, ''} end
      local sender, name, said = parts(body)
      if sender == user and name == message then
        -- No fingerprint is '00000000': another content under the same id.
        local fingerprint = said == content and ARGV[7] or '00000000'
        return {1, text(next) .. ':' .. tip.epoch .. ':' .. tag .. ':' .. fingerprint}
      end
      next = next + 1
    end
  end
end
