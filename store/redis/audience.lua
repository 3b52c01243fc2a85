-- Puts sketches in the place of those that the caller knows. What else is there is
-- told, for the caller to merge: a script does not read sketches.
--
-- ARGV 8 how long to keep them (s) - 9... three values a room: name of the key,
--      SHA-1 of what it is known to hold ("" for nothing), the sketch
-- Answers {epoch, now (s), {index, what is there (false: no sketch)}...}
local answers = {epoch, math.floor(now / 1000000)}
for i = 9, #ARGV, 3 do
  local key, expected, sketch = P .. 'h:' .. ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local current = redis.pcall('GET', key)
  if type(current) == 'table' then
    answers[#answers + 1] = {(i - 6) / 3, false}
  elseif current and current ~= sketch and redis.sha1hex(current) ~= expected then
    answers[#answers + 1] = {(i - 6) / 3, current}
  else
    redis.call('SET', key, sketch, 'EX', tonumber(ARGV[8]))
  end
end
if not head[1] then save() end
return answers
