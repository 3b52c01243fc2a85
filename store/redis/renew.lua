-- Renews leases by evidence: a deadline only ever moves on. One command for many;
-- who is missing is looked at only when the number that moved is short.
--
-- ARGV 8... two values a lease: its name in the sorted set, and how long it runs
--      from now (ttl - age, us)
-- Answers {epoch, how many were seen to, {index, outcome, reason}...} for those of
-- them that were not renewed. To look at them takes longest, so it may be that not
-- all were seen to.
local LOST, REPLACED, OVER = 1, 2, 3
local CHUNK, LOOK_MOST = 100, 50

local function outcome(name)
  local _, closing, room, user, connection, generation = struct.unpack(LAYOUT, name)
  local rec, unknown = load(room, user)
  if unknown then return end -- a later release has the user now
  local i, l
  if rec then i, l = find(rec, connection) end
  if l and l[2] == generation then return OVER, 2 end -- it is closing
  if l and l[2] < generation then return LOST, 0 end -- the newer one was lost
  if l then return REPLACED, 0 end
  for reason = 1, 5 do
    if redis.call('ZSCORE', P .. 'e', ended_name(connection, generation, reason)) then return OVER, reason end
  end
  if redis.call('ZSCORE', P .. 'e', ended_name(connection, generation, TAKEN)) then return REPLACED, 0 end
  return LOST, 0
end

local answers = {epoch, 0}
local n, looked = (#ARGV - 7) / 2, 0
for from = 1, n, CHUNK do
  if looked >= LOOK_MOST then break end
  local args = {}
  local to = math.min(from + CHUNK - 1, n)
  for i = from, to do
    args[#args + 1] = int(clock + tonumber(ARGV[7 + 2 * i]))
    args[#args + 1] = ARGV[6 + 2 * i]
  end
  local moved = redis.call('ZADD', P .. 'l', 'XX', 'GT', 'CH', unpack(args))
  if moved < to - from + 1 then
    for i = from, to do
      local name = ARGV[6 + 2 * i]
      if not redis.call('ZSCORE', P .. 'l', name) then
        looked = looked + 1
        local what, reason = outcome(name)
        if what then answers[#answers + 1] = {i, what, reason} end
      end
    end
  end
  answers[2] = to
end
save()
return answers
