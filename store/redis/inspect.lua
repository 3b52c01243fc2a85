-- Tells everything that is known of a room, for people. It writes nothing.
--
-- The last arguments: room - user, or "" for all - most users to name
-- Answers {epoch, version, mode, members, leases, settling (us),
--          {user, record, how long each lease still runs (us)...}...}
local n = #ARGV
local room, user, most = ARGV[n - 2], ARGV[n - 1], tonumber(ARGV[n])
if not head[1] then return {'', 0, 'full', 0, 0, 0} end
local m = load_room(room)
local v = m.version
if m.members == 0 then v = math.max(version, 1) end
local answers = {epoch, v, m.mode == COUNTS and 'counts' or 'full', m.members, m.leases, settling()}

local function tell(name, raw)
  local told, rec = {name, raw}, read(raw)
  for i, l in ipairs(rec and rec[LEASES] or {}) do
    told[2 + i] = tonumber(redis.call('ZSCORE', P .. 'l', pack(room, name, l)) or clock) - clock
  end
  answers[#answers + 1] = told
end

local key = P .. 'u:' .. room
if user ~= '' then
  local raw = redis.call('HGET', key, user)
  if raw then tell(user, raw) end
elseif m.members <= most then
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do tell(all[i], all[i + 1]) end
else
  -- A large room is not read whole: that would hold up everybody else.
  local some = redis.call('HSCAN', key, 0, 'COUNT', most)[2]
  for i = 1, math.min(#some, 2 * most), 2 do tell(some[i], some[i + 1]) end
end
return answers
