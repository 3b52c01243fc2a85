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
  local known = redis.call('HMGET', key, field, 's')
  local old = known[1] and cmsgpack.unpack(known[1])
  local news = {}
  -- Most notes repeat what is believed, and only prolong it. The user is put together
  -- anew when the old time is over: the sweep finds that there is a newer one.
  local repeated = old and v == old[2] and status == old[3] and old[4] > clock
  if not old or v > old[2] or v == old[2] and status == old[3] then
    local believed = clock + tonumber(ARGV[i + 5])
    if old and v == old[2] then believed = math.max(believed, old[4]) end
    news = {field, cmsgpack.pack({1, v, status, believed})}
    if not repeated then changed[user] = true end
  end
  local seen = math.floor((now - tonumber(ARGV[i + 4])) / 1000)
  if seen > tonumber(known[2] or 0) then news[#news + 1], news[#news + 2] = 's', int(seen) end
  if #news > 0 then redis.call('HSET', key, unpack(news)) end
  if not repeated then redis.call('EXPIRE', key, SEEN_KEPT) end
end
for user in pairs(changed) do refold(user) end
save()
redis.call('EXPIRE', KEYS[1], DAY)
return {epoch}
