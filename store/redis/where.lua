-- Tells where users of rooms of this partition are now, for the index. It changes
-- nothing.
--
-- ARGV 8... three values a user: room, user, age of the evidence (us)
-- Answers {epoch, people}
for i = 8, #ARGV, 3 do
  local room, user, age = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local rec, unknown = load(room, user)
  local m = load_room(room)
  local v = m.members > 0 and m.version or math.max(version, 1)
  if rec then
    note_person(m, user, rec, fold(rec)[1], v, age)
  elseif not unknown then
    people[#people + 1] = {room, user, v, 0, age, 0}
  end
end
if not head[1] then save() end
return {epoch, people}
