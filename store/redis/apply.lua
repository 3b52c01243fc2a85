-- Carries out a batch of operations, in order.
--
-- ARGV 8 most connections of a user in a room - 9... seventeen values an operation:
--      kind, room, user, connection, generation, info, status, data, expected
--      version of data, ttl, age, resume only (1) or late (2) or both (3), grace, reason, since in
--      ms, claim (times in us), above and below how many members the room is to
--      change its mode if it is new: "200 150"
--      - the grace of a kick is its ban
-- Answers {epoch, {code, generation, version of the room, stale, member}..., people};
--      who is banned: {'banned', how long still (us), now (us), 0, ''}
local MOST = tonumber(ARGV[8])
local WIDTH = 17

local function text(s) return s ~= '' and s or false end

local function op(i)
  local a = 8 + (i - 1) * WIDTH
  return {
    kind = ARGV[a + 1], room = ARGV[a + 2], user = ARGV[a + 3], connection = ARGV[a + 4],
    generation = tonumber(ARGV[a + 5]), info = text(ARGV[a + 6]), status = tonumber(ARGV[a + 7]),
    data = text(ARGV[a + 8]), expected = tonumber(ARGV[a + 9]), ttl = tonumber(ARGV[a + 10]),
    age = tonumber(ARGV[a + 11]), resume_only = ARGV[a + 12] == '1' or ARGV[a + 12] == '3', late = ARGV[a + 12] == '2' or ARGV[a + 12] == '3', grace = tonumber(ARGV[a + 13]),
    reason = tonumber(ARGV[a + 14]), since = tonumber(ARGV[a + 15]), claim = tonumber(ARGV[a + 16]), modes = ARGV[a + 17],
  }
end

local function answer(m, user, rec, generation)
  if not rec or #rec[LEASES] == 0 then return {'', generation or 0, m.version, 0, ''} end
  return {'', generation or 0, m.version, 0, cmsgpack.pack(member(user, rec, fold(rec)))}
end

local function refuse(code) return {code, 0, 0, 0, ''} end

local function ban_name(o) return struct.pack('>I2c0c0', #o.room, o.room, o.user) end

local function grant(o)
  local banned = tonumber(redis.call('ZSCORE', P .. 'k', ban_name(o)) or 0)
  if banned > clock then return {'banned', banned - clock, now, 0, ''} end
  local m = load_room(o.room)
  local rec, unknown = load(o.room, o.user)
  if unknown then return refuse('layout') end
  local i, old
  if rec then i, old = find(rec, o.connection) end
  if o.resume_only and not old then return refuse('gone') end
  if o.late and old and (old[9] or 0) > o.claim then return {'', 0, m.version, 1, cmsgpack.pack(member(o.user, rec, fold(rec)))} end
  if rec and not old and #rec[LEASES] >= MOST then return refuse('connections') end

  local v = next_version()
  local l = {o.connection, v, o.ttl, 3, false, 0, LIVE, o.generation ~= 0, o.claim}
  local deadline = clock + o.ttl - o.age
  local was
  if rec then was = fold(rec) else rec = {THIS, o.info, o.since > 0 and o.since or math.floor(now / 1000), v, 1, clock, false, {}} end
  if old then
    l[4], l[5], l[6] = old[4], old[5], old[6]
    local name = pack(o.room, o.user, old)
    if old[7] == LIVE and old[3] == l[3] then
      deadline = math.max(deadline, tonumber(redis.call('ZSCORE', P .. 'l', name) or 0))
    end
    redis.call('ZREM', P .. 'l', name)
    -- A node that still holds the old one is not to take the end of this one for a loss.
    redis.call('ZADD', P .. 'e', int(clock + LEASE), ended_name(old[1], old[2], TAKEN))
    rec[LEASES][i] = l
  else
    table.insert(rec[LEASES], l)
    m.leases = m.leases + 1
  end
  if o.status > 0 then l[4] = o.status end
  -- A device that repeats what it has set must not win over one that changed.
  if o.data and o.data ~= l[5] then l[5], l[6] = o.data, v end
  redis.call('ZADD', P .. 'l', int(deadline), pack(o.room, o.user, l))

  if was then
    local same = not o.info or o.info == rec[INFO]
    if o.info then rec[INFO] = o.info end
    publish(m, o.user, rec, was, same, false, v)
  else
    m.members = m.members + 1
    if m.members == 1 then
      redis.call('ZADD', P .. 'r', 0, o.room)
      local above, below = string.match(o.modes, '^(%d+) (%d+)$')
      m.above, m.below = tonumber(above), tonumber(below)
    end
    store(o.room, o.user, rec)
    if change(m, v, {member(o.user, rec, fold(rec))}, false, false, false) then
      switch(m)
    elseif m.mode == COUNTS then
      redis.call('ZADD', P .. 'z:' .. o.room, int(v), o.user)
    end
    note_person(m, o.user, rec, fold(rec)[1], v, o.age)
  end
  store(o.room, o.user, rec)
  store_room(m)
  touch(o.room)
  return answer(m, o.user, rec, v)
end

-- named is the lease that an operation names, or what to answer instead.
local function named(o)
  local rec, unknown = load(o.room, o.user)
  if unknown then return nil, refuse('layout') end
  local i, l
  if rec then i, l = find(rec, o.connection) end
  if not l then return nil, refuse('gone') end
  if o.generation ~= 0 and o.generation ~= l[2] then return nil, {'', 0, 0, 1, ''} end
  return rec, i, l
end

local function set(o)
  local rec, i, l = named(o)
  if not rec then return i end
  if o.expected >= 0 and o.expected ~= l[6] then return refuse('changed') end
  local m, was = load_room(o.room), fold(rec)
  if o.status > 0 then l[4] = o.status end
  local v
  if o.data and o.data ~= l[5] then
    v = next_version()
    l[5], l[6] = o.data, v
  end
  publish(m, o.user, rec, was, true, false, v)
  store(o.room, o.user, rec)
  store_room(m)
  return answer(m, o.user, rec)
end

local function finish(m, o, rec)
  if #rec[LEASES] > 0 then store(o.room, o.user, rec) end
  store_room(m)
  return answer(m, o.user, rec)
end

local function close(o)
  local rec, i, l = named(o)
  if not rec then return i end
  if l[7] == CLOSING then return {'', 0, 0, 1, ''} end
  local m = load_room(o.room)
  if o.grace <= 0 then
    drop(m, o.user, rec, i, 2)
    return finish(m, o, rec)
  end
  local was, name = fold(rec), pack(o.room, o.user, l)
  local deadline = math.min(tonumber(redis.call('ZSCORE', P .. 'l', name) or clock), clock + o.grace)
  redis.call('ZREM', P .. 'l', name)
  l[7] = CLOSING
  redis.call('ZADD', P .. 'l', int(deadline), pack(o.room, o.user, l))
  publish(m, o.user, rec, was, true, false)
  return finish(m, o, rec)
end

local function finish_lease(o)
  local rec, i = named(o)
  if not rec then return i end
  local m = load_room(o.room)
  drop(m, o.user, rec, i, o.reason)
  return finish(m, o, rec)
end

local function finish_user(o)
  local rec, unknown = load(o.room, o.user)
  if not rec then return refuse(unknown and 'layout' or 'absent') end
  local m = load_room(o.room)
  while #rec[LEASES] > 0 do drop(m, o.user, rec, #rec[LEASES], o.reason) end
  if o.grace > 0 then
    redis.call('ZADD', P .. 'k', 'GT', int(clock + o.grace), ban_name(o))
    redis.call('EXPIRE', P .. 'k', 2 * DAY)
  end
  return finish(m, o, rec)
end

local kinds = {g = grant, s = set, c = close, e = finish_lease, k = finish_user}

local answers = {epoch}
for i = 1, (#ARGV - 8) / WIDTH do
  local o = op(i)
  answers[i + 1] = kinds[o.kind](o)
end
answers[#answers + 1] = people
save()
redis.call('EXPIRE', KEYS[1], DAY)
redis.call('EXPIRE', P .. 'l', DAY)
redis.call('EXPIRE', P .. 'r', DAY)
redis.call('EXPIRE', P .. 'e', DAY)
return answers
