-- What every script begins with: the partition's clock, versions and feed.
--
-- KEYS[1]  {pNN}:c
-- ARGV     1 key prefix "{pNN}:" - 2 epoch that the caller knows, or "" -
--          3 epoch to begin if there is none - 4 lease (us) -
--          5 PUBLISH or SPUBLISH, and the channel - 6 least time between two updates of a bare
--          number of connections (us) - 7 the most by which the lease clock
--          advances over a gap (us) - 8... those of the script
--
-- Every script answers {epoch, ...}; a caller with another epoch is told the
-- present one and nothing is done.
local P, LEASE, SPACING = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[6])
local DAY = 86400
local LIVE, CLOSING = 0, 1
local FULL, COUNTS = 0, 1
local EXPIRED = 3 -- a reason
local TAKEN = 6 -- stands where a reason does: a newer generation took the place of the lease

local function int(n) return string.format('%.0f', n) end

local head = redis.call('HMGET', KEYS[1], 'epoch', 'clock', 'last', 'version', 'seq', 'tick', 'settled')
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2]) -- us
local epoch = head[1]
local clock = tonumber(head[2] or 0)    -- us of lease time
local version = tonumber(head[4] or 0)
local seq = tonumber(head[5] or 0)
local tick = tonumber(head[6] or 0)     -- lease time of the last sweep
local settled = tonumber(head[7] or 0)  -- lease time until which members may be on their way back
if not epoch then
  -- Versions rise across lost memory, also those of rooms that nobody is in.
  epoch, settled, version = ARGV[3], LEASE, now
else
  -- The lease clock forgives whatever time nobody observed, and every jump.
  local passed = now - tonumber(head[3])
  clock = clock + math.min(math.max(passed, 0), tonumber(ARGV[7]))
  -- A partition without leases rests unobserved, and nobody is on the way back.
  if passed > LEASE and redis.call('EXISTS', P .. 'l') == 1 then settled = clock + LEASE end
end

-- Of this call: changes of rooms; changes of users over all rooms; revocations.
local changes, users, revoked = {}, {}, {}
-- Where users of the rooms of this partition are now, for the index: {room, user,
-- version, status or 0, age of the evidence (us), longest ttl (us)}.
local people = {}

local function save()
  if #changes + #users + #revoked > 0 then
    seq = seq + 1
    local command, channel = string.match(ARGV[5], '^(%u+) (.*)$')
    redis.call(command, channel, cmsgpack.pack({1, epoch, seq, changes, users, revoked}))
  end
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'clock', int(clock), 'last', int(now),
    'version', int(version), 'seq', int(seq), 'tick', int(tick), 'settled', int(settled))
end

local function settling() return math.max(settled - clock, 0) end

local function next_version()
  version = math.max(version + 1, now)
  return version
end

-- Whatever is kept begins with its layout. Fields may be added at the end of one;
-- what has another one is a later release's, and is left alone.
local THIS = 1

-- A lease in the sorted set: layout, closing, room, user, connection, generation.
local LAYOUT = '>BBI2c0I2c0I2c0I8'

local function pack(room, user, lease)
  return struct.pack(LAYOUT, THIS, lease[7], #room, room, #user, user, #lease[1], lease[1], lease[2])
end

local function ended_name(connection, generation, reason)
  return struct.pack('>BBI8c0', THIS, reason, generation, connection)
end

-- The record of a user in a room: {layout, info, since (ms), version of the join,
-- published connections, lease time of their last bare update, whether one waits,
-- leases}. A lease: {connection, generation, ttl (us), status, data, version of
-- data, closing, granted again after it was lost, claim}. false stands for nothing.
local INFO, SINCE, JOINED, SHOWN, SHOWN_AT, WAITS, LEASES = 2, 3, 4, 5, 6, 7, 8

-- read is a value of this layout; nil and true if it is of another one.
local function read(raw)
  local value = cmsgpack.unpack(raw)
  if type(value) == 'table' and value[1] == THIS then return value end
  return nil, true
end

-- load is the record of a user; nil if there is none, nil and true if there is one
-- of another layout.
local function load(room, user)
  local raw = redis.call('HGET', P .. 'u:' .. room, user)
  if raw then return read(raw) end
end

local function store(room, user, rec)
  redis.call('HSET', P .. 'u:' .. room, user, cmsgpack.pack(rec))
end

local function load_room(room)
  local m = redis.call('HMGET', P .. 'm:' .. room, 'version', 'members', 'leases', 'mode', 'above', 'below')
  return {name = room, version = tonumber(m[1] or 0), members = tonumber(m[2] or 0), leases = tonumber(m[3] or 0),
    mode = tonumber(m[4] or FULL), above = tonumber(m[5] or 0), below = tonumber(m[6] or 0)}
end

local function store_room(m)
  local key = P .. 'm:' .. m.name
  if m.members == 0 then
    redis.call('DEL', key, P .. 'u:' .. m.name, P .. 'z:' .. m.name)
    redis.call('ZREM', P .. 'r', m.name)
  else
    redis.call('HSET', key, 'version', int(m.version), 'members', m.members, 'leases', m.leases,
      'mode', m.mode, 'above', m.above, 'below', m.below)
  end
end

-- Keeps the keys of a room for another day.
local function touch(room)
  redis.call('EXPIRE', P .. 'm:' .. room, DAY)
  redis.call('EXPIRE', P .. 'u:' .. room, DAY)
  redis.call('EXPIRE', P .. 'z:' .. room, DAY)
end

local function find(rec, connection)
  for i, l in ipairs(rec[LEASES]) do
    if l[1] == connection then return i, l end
  end
end

-- The member that the leases make up: status, open connections, data.
local function fold(rec)
  local status, open, data, newest = 0, 0, false, 0
  for _, l in ipairs(rec[LEASES]) do
    status = math.max(status, l[4])
    if l[7] == LIVE then open = open + 1 end
    if l[6] > newest then newest, data = l[6], l[5] end
  end
  return {status, math.max(open, 1), data}
end

local function member(user, rec, f)
  return {user, rec[INFO], f[1], f[2], rec[SINCE], f[3]}
end

-- Notes where a user is, whose last evidence is that old.
local function note_person(m, user, rec, status, v, age)
  local ttl = 0
  for _, l in ipairs(rec[LEASES]) do ttl = math.max(ttl, l[3]) end
  people[#people + 1] = {m.name, user, v, status, age, ttl}
end

-- In counts mode the users of a room lie in the order of their joins, for pages.
local function order(m)
  local all = redis.call('HGETALL', P .. 'u:' .. m.name)
  for i = 1, #all, 2 do
    local rec = read(all[i + 1])
    if rec then redis.call('ZADD', P .. 'z:' .. m.name, int(rec[JOINED]), all[i]) end
  end
end

-- Publishes one change of a room, with what it does to the mode. A room in counts
-- mode names who came and went, and nothing else of them.
local function change(m, v, joined, updated, left, ended)
  local switched = false
  if m.mode == FULL and m.members > m.above then
    m.mode, switched = COUNTS, true
  elseif m.mode == COUNTS and m.members < m.below then
    m.mode, switched = FULL, true
  end
  if m.mode == COUNTS and not switched then
    for _, list in ipairs({joined or {}, updated or {}}) do
      for _, who in ipairs(list) do who[2], who[6] = false, false end
    end
  end
  changes[#changes + 1] = {m.name, m.version, v, m.members, joined, updated, left, ended, m.mode, switched}
  m.version = v
  return switched
end

-- After a change of mode the order of the joins is made, or let go of.
local function switch(m)
  if m.mode == COUNTS then order(m) else redis.call('DEL', P .. 'z:' .. m.name) end
end

-- Publishes what a change of the leases has made of the member. was is the fold
-- from before. A bare change of the number of connections may have to wait,
-- unless due. v is a version taken already, or nil. Reports whether it published.
local function publish(m, user, rec, was, same_info, due, v, ended)
  local f = fold(rec)
  if same_info and f[1] == was[1] and f[3] == was[3] then
    if f[2] == rec[SHOWN] then return false end
    if not due and clock - rec[SHOWN_AT] < SPACING then
      if not rec[WAITS] then
        rec[WAITS] = true
        redis.call('ZADD', P .. 'q', int(clock + SPACING), struct.pack('>I2c0c0', #m.name, m.name, user))
      end
      return false
    end
    rec[SHOWN_AT] = clock
  end
  rec[SHOWN] = f[2]
  change(m, v or next_version(), false, {member(user, rec, f)}, false, ended or false)
  if f[1] ~= was[1] then note_person(m, user, rec, f[1], m.version, 0) end
  return true
end

-- Ends the i-th lease of a user, and the stay with the last one.
local function drop(m, user, rec, i, reason)
  local was = fold(rec)
  local l = table.remove(rec[LEASES], i)
  redis.call('ZREM', P .. 'l', pack(m.name, user, l))
  redis.call('ZADD', P .. 'e', int(clock + LEASE), ended_name(l[1], l[2], reason))
  m.leases = m.leases - 1
  local ended = {{l[1], user, l[2], reason}}
  if #rec[LEASES] == 0 then
    redis.call('HDEL', P .. 'u:' .. m.name, user)
    if m.mode == COUNTS then redis.call('ZREM', P .. 'z:' .. m.name, user) end
    m.members = m.members - 1
    if change(m, next_version(), false, false, {{user, reason}}, ended) then switch(m) end
    note_person(m, user, rec, 0, m.version, reason == EXPIRED and l[3] or 0)
    return
  end
  if not publish(m, user, rec, was, true, false, nil, ended) then
    changes[#changes + 1] = {m.name, m.version, m.version, m.members, false, false, false, ended, m.mode, false}
  end
end

if ARGV[2] ~= '' and ARGV[2] ~= epoch then
  save()
  return {epoch, 'epoch'}
end
