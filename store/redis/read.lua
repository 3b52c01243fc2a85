-- Reads one room, as of one moment.
--
-- ARGV 8 room - 9 r (the numbers), a (everybody) or u (the users that follow)
-- Answers {epoch, feed sequence, version, members, leases, settling (us),
--          {user, record}...}
local room = ARGV[8]
local m = load_room(room)
local v = m.version
if m.members == 0 then v = math.max(version, 1) end
local answers = {epoch, seq, v, m.members, m.leases, settling()}
if ARGV[9] == 'a' then
  local all = redis.call('HGETALL', P .. 'u:' .. room)
  for i = 1, #all, 2 do answers[#answers + 1] = {all[i], all[i + 1]} end
elseif ARGV[9] == 'u' then
  for i = 10, #ARGV do
    local raw = redis.call('HGET', P .. 'u:' .. room, ARGV[i])
    if raw then answers[#answers + 1] = {ARGV[i], raw} end
  end
end
if not head[1] then save() end -- a read only observes, unless it began the epoch
return answers
