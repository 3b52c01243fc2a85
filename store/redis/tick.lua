-- Ends what is due and publishes what waited. Any node may call it at any time:
-- removal and publication are one step, so exactly one leave comes out.
--
-- ARGV 8 most that one call sees to, of leases, updates that wait and users whose
--      places are to be put together anew - 9 least time since the last sweep (us)
-- Answers {epoch, feed sequence, how many of those are due still, swept or not, how
-- much is left that a sweep can ever end (the time to settle, too), people}
local MOST, EVERY = tonumber(ARGV[8]), tonumber(ARGV[9])

if clock - tick < EVERY and clock >= tick then
  save()
  return {epoch, seq, 0, 0, 1, {}}
end
tick = clock

local budget = MOST
local rooms = {}

local function room_of(name)
  local m = rooms[name] or load_room(name)
  rooms[name] = m
  return m
end

-- Ends a lease that is due. Reports whether it was this release's to end.
local function expire(name)
  if string.byte(name) ~= THIS then return false end
  local _, closing, room, user, connection, generation = struct.unpack(LAYOUT, name)
  local rec, unknown = load(room, user)
  if unknown then return false end
  local i, l
  if rec then i, l = find(rec, connection) end
  if l and l[2] == generation and l[8] and closing == 0 and clock < settled then
    -- Whoever has newer evidence of the client may not have been heard yet.
    redis.call('ZADD', P .. 'l', int(settled), name)
  elseif l and l[2] == generation then
    drop(room_of(room), user, rec, i, closing == 1 and 2 or 3)
    if #rec[LEASES] > 0 then store(room, user, rec) end
  else
    redis.call('ZREM', P .. 'l', name) -- a record that somebody else has removed
  end
  return true
end

-- However many leases of another release lie before them, ours are reached.
local OTHERS_MOST = 1000
local others = 0
repeat
  local due = redis.call('ZRANGEBYSCORE', P .. 'l', '-inf', int(clock), 'LIMIT', others, budget)
  local whole = #due == budget
  for _, name in ipairs(due) do
    if expire(name) then budget = budget - 1 else others = others + 1 end
  end
until not whole or budget == 0 or others >= OTHERS_MOST

-- What is due of a sorted set, as much as this call may still see to.
local function take(key)
  if budget == 0 then return {} end
  local names = redis.call('ZRANGEBYSCORE', P .. key, '-inf', int(clock), 'LIMIT', 0, budget)
  budget = budget - #names
  return names
end

for _, name in ipairs(take('q')) do
  local room, at = struct.unpack('>I2c0', name)
  local user = string.sub(name, at)
  local rec, unknown = load(room, user)
  if unknown then
    redis.call('ZADD', P .. 'q', int(clock + SPACING), name) -- for whoever wrote it
  else
    redis.call('ZREM', P .. 'q', name)
  end
  if rec and rec[WAITS] then
    rec[WAITS] = false
    publish(room_of(room), user, rec, fold(rec), true, true)
    store(room, user, rec)
  end
end
for _, m in pairs(rooms) do store_room(m) end

-- Where nobody has said for two leases that a user is, the user is not.
for _, user in ipairs(take('i')) do refold(user) end

-- What is kept of leases that have ended, and bans, are not needed for ever.
local FORGOTTEN_MOST = 1000
for _, key in ipairs({'e', 'k'}) do
  local over = math.min(redis.call('ZCOUNT', P .. key, '-inf', int(clock)), FORGOTTEN_MOST)
  if over > 0 then redis.call('ZREMRANGEBYRANK', P .. key, 0, over - 1) end
end

-- Everything expires a day after its last use, and to have members is a use: the
-- rooms are gone through in the order of their names, some of them a minute, so
-- that each is touched within twelve hours.
local KEEP_EVERY, KEEP_ROUND, KEEP_LEAST, KEEP_MOST = 60000000, 720, 50, 400
local kept = redis.call('HMGET', KEYS[1], 'kept', 'keptat')
if now - tonumber(kept[2] or 0) >= KEEP_EVERY or now < tonumber(kept[2] or 0) then
  for _, key in ipairs({'l', 'r', 'e', 'q', 'i'}) do redis.call('EXPIRE', P .. key, DAY) end
  local some = math.min(math.max(KEEP_LEAST, math.ceil(redis.call('ZCARD', P .. 'r') / KEEP_ROUND)), KEEP_MOST)
  local names = redis.call('ZRANGEBYLEX', P .. 'r', kept[1] and '(' .. kept[1] or '-', '+', 'LIMIT', 0, some)
  for _, room in ipairs(names) do touch(room) end
  if #names == some then
    redis.call('HSET', KEYS[1], 'kept', names[some], 'keptat', int(now))
  else -- the end: from the first one again
    redis.call('HDEL', KEYS[1], 'kept')
    redis.call('HSET', KEYS[1], 'keptat', int(now))
  end
end

local more = 0
if budget == 0 then
  for _, key in ipairs({'l', 'q', 'i'}) do more = more + redis.call('ZCOUNT', P .. key, '-inf', int(clock)) end
end
save()
redis.call('EXPIRE', KEYS[1], DAY)
local left = settling() > 0 and 1 or 0 -- the clock of a partition that rests stands still
for _, key in ipairs({'l', 'q', 'e', 'i', 'k'}) do left = left + redis.call('ZCARD', P .. key) end
return {epoch, seq, more, 1, left, people}
