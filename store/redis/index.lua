-- Notes where users are. What is older than what is known changes nothing.
--
-- ARGV 8... six values a note: user, room, version of the room, status or 0, age
--      of the evidence (us), how long to believe it (us)
-- Answers {epoch}
local changed = {}
for i = 8, #ARGV, 6 do
  local user, field = ARGV[i], 'r' .. ARGV[i + 1]
  local v, status = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local key = P .. 'w:' .. user
  local raw = redis.call('HGET', key, field)
  local old, unknown
  if raw then old, unknown = read(raw) end
  if not unknown and (not old or v > old[2] or v == old[2] and status == old[3]) then
    local believed = clock + tonumber(ARGV[i + 5])
    if old and v == old[2] then believed = math.max(believed, old[4]) end
    redis.call('HSET', key, field, cmsgpack.pack({THIS, v, status, believed}))
    changed[user] = true
  end
  local seen = math.floor((now - tonumber(ARGV[i + 4])) / 1000)
  if seen > tonumber(redis.call('HGET', key, 's') or 0) then redis.call('HSET', key, 's', int(seen)) end
  redis.call('EXPIRE', key, SEEN_KEPT)
end
for user in pairs(changed) do refold(user) end
save()
redis.call('EXPIRE', KEYS[1], DAY)
return {epoch}
