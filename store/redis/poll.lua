-- Where the feed is. It also notices that another server has taken over, which
-- may lack the last writes: that is a new epoch.
--
-- Answers {epoch, feed sequence}
local replication = redis.call('INFO', 'replication')
local server = string.match(replication, 'master_replid:(%x+)') or ''
local known = redis.call('HGET', KEYS[1], 'server')
if known ~= server then
  if known then epoch, settled = ARGV[3], clock + LEASE end
  redis.call('HSET', KEYS[1], 'server', server)
end
if known ~= server or not head[1] then save() end
redis.call('EXPIRE', KEYS[1], DAY)
return {epoch, seq}
