-- Tells where users are, over all rooms. It changes nothing.
--
-- ARGV 8... users
-- Answers {epoch, settling (us), {version, last seen (ms), room, status...}...}
local answers = {epoch, settling()}
for i = 8, #ARGV do
  local all = redis.call('HGETALL', P .. 'w:' .. ARGV[i])
  local told = {0, 0}
  for j = 1, #all, 2 do
    local field, raw = all[j], all[j + 1]
    if field == 'v' then told[1] = tonumber(raw)
    elseif field == 's' then told[2] = tonumber(raw)
    elseif string.sub(field, 1, 1) == 'r' then
      local at = read(raw)
      if at and at[3] > 0 and at[4] > clock then
        told[#told + 1] = string.sub(field, 2)
        told[#told + 1] = at[3]
      end
    end
  end
  answers[#answers + 1] = told
end
if not head[1] then save() end
return answers
