-- Reads one room, as of one moment.
--
-- ARGV 8 room - 9 r (the numbers), a (everybody, or a sample in counts mode),
--      p (a page: cursor and length follow) or u (the users that follow)
-- Answers {epoch, feed sequence, version, members, leases, settling (us), mode,
--          {user, record}...}
local room = ARGV[8]
local m = load_room(room)
local v = m.version
if m.members == 0 then v = math.max(version, 1) end
local answers = {epoch, seq, v, m.members, m.leases, settling(), m.mode}
local SAMPLE = 12

-- Tells of the users from the i-th on.
local function tell(users, i)
  while i <= #users do
    local last = math.min(i + 199, #users)
    local raw = redis.call('HMGET', P .. 'u:' .. room, unpack(users, i, last))
    for n = 1, last - i + 1 do
      if raw[n] then answers[#answers + 1] = {users[i + n - 1], raw[n]} end
    end
    i = last + 1
  end
end

local want = ARGV[9]
if want == 'u' then
  tell(ARGV, 10)
elseif want == 'a' and m.mode == COUNTS then
  tell(redis.call('ZRANGE', P .. 'z:' .. room, 0, SAMPLE - 1), 1)
elseif want == 'p' and m.mode == COUNTS then
  -- One more than asked for tells that there is another page.
  local from = ARGV[10] == '0' and '+inf' or '(' .. ARGV[10]
  tell(redis.call('ZREVRANGEBYSCORE', P .. 'z:' .. room, from, '-inf', 'LIMIT', 0, tonumber(ARGV[11]) + 1), 1)
elseif want ~= 'r' then
  local all = redis.call('HGETALL', P .. 'u:' .. room)
  for i = 1, #all, 2 do answers[#answers + 1] = {all[i], all[i + 1]} end
end
if not head[1] then save() end -- a read only observes, unless it began the epoch
return answers
