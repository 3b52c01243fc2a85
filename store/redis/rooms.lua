-- Lists rooms with members, in the order of their names.
--
-- ARGV 8 and 9 between which names, as ZRANGEBYLEX takes them - 10 how many
-- Answers {epoch, settling (us), {room, members, mode}...}
local answers = {epoch, settling()}
for i, room in ipairs(redis.call('ZRANGEBYLEX', P .. 'r', ARGV[8], ARGV[9], 'LIMIT', 0, tonumber(ARGV[10]))) do
  local m = load_room(room)
  answers[2 + i] = {room, m.members, m.mode}
end
if not head[1] then save() end
return answers
