-- Refuses the tokens that a user was issued until now, and tells every node.
--
-- ARGV 8 user - 9 session, or "" for all - 10 how long to keep it (ms)
-- Answers {epoch, moment (ms)}
local user, session, kept = ARGV[8], ARGV[9], tonumber(ARGV[10])
local key, ms = P .. 'v:' .. user, math.floor(now / 1000)
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) + kept < ms then redis.call('HDEL', key, all[i]) end
end
local field = session == '' and 'a' or 's' .. session
local before = math.max(ms, tonumber(redis.call('HGET', key, field) or 0))
redis.call('HSET', key, field, int(before))
redis.call('PEXPIRE', key, int(kept))
revoked[1] = {user, session, before}
save()
redis.call('EXPIRE', KEYS[1], DAY)
return {epoch, before}
