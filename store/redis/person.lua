-- Where a user of this partition is, over all rooms: a hash of the rooms, each
-- with {layout, version, status, lease time until which it is believed}, and s:
-- last seen (ms), t: the status over all, v: the version of that.
local SEEN_KEPT = 30 * DAY

-- Puts together what the rooms say, and tells what that changes. What nobody has
-- repeated in time is believed no more.
local function refold(user)
  local key = P .. 'w:' .. user
  local all = redis.call('HGETALL', key)
  local status, next, told = 0, false, 0
  for i = 1, #all, 2 do
    local field, raw = all[i], all[i + 1]
    if field == 't' then
      told = tonumber(raw)
    elseif string.sub(field, 1, 1) == 'r' then
      local at = read(raw)
      if not at then
        -- a later release's, which believes it for as long as it likes
      elseif at[4] <= clock then
        redis.call('HDEL', key, field)
      else
        status = math.max(status, at[3])
        next = math.min(next or at[4], at[4])
      end
    end
  end
  if status ~= told then
    local v = next_version()
    redis.call('HSET', key, 't', status, 'v', int(v))
    users[#users + 1] = {user, status, v}
  end
  if next then
    redis.call('ZADD', P .. 'i', int(next), user)
    redis.call('EXPIRE', P .. 'i', DAY)
    redis.call('EXPIRE', key, SEEN_KEPT)
  else
    redis.call('ZREM', P .. 'i', user)
  end
end
