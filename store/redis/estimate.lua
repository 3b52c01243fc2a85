-- Takes down whom a node has in rooms that hold no leases, and tells what the
-- others have.
--
-- ARGV 8 node - 9 how long to believe it (us) - 10... three values a room: name of
--      the key, what to do (s: set, d: delete, r: only read), sketch
-- Answers {epoch, {sketch of another node...}...}
local node, believed = ARGV[8], tonumber(ARGV[9])
local answers = {epoch}
for i = 10, #ARGV, 3 do
  local key = P .. 'g:' .. ARGV[i]
  local told = {}
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'hash' and kind ~= 'none' then
    told[1] = false
  else
    if ARGV[i + 1] == 's' then
      redis.call('HSET', key, node, struct.pack('>BI8c0', 1, now, ARGV[i + 2]))
      redis.call('PEXPIRE', key, int(believed / 500))
    elseif ARGV[i + 1] == 'd' then
      redis.call('HDEL', key, node)
    end
    local all = redis.call('HGETALL', key)
    for k = 1, #all, 2 do
      local value = all[k + 1]
      if #value >= 9 and string.byte(value) == 1 then
        local age = now - struct.unpack('>I8', value, 2)
        if age > believed or age < -believed then
          redis.call('HDEL', key, all[k])
        elseif all[k] ~= node then
          told[#told + 1] = string.sub(value, 10)
        end
      elseif all[k] ~= node then
        told[#told + 1] = false -- a layout of another release
      end
    end
  end
  answers[#answers + 1] = told
end
if not head[1] then save() end
return answers
