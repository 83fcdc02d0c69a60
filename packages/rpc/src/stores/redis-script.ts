/** @file What the Redis store does inside the server: each operation as one atomic step, by the server's own clock. */
import { createHash } from 'node:crypto';

/**
 * KEYS: 1 values (hash: key → bytes) · 2 owners (hash: key → lease) · 3 deadlines (sorted set: lease → ms) · 4 times to live (hash: lease → ms)
 * · 5 the keys, in order (sorted set) · 6 the beginning of the names of the sets that hold the keys of each lease.
 * ARGV: 1 the channel of changes · 2 the operation · its arguments.
 *
 * Every step first ends the leases whose time is up. What a renewal says of its holder's age is told to nobody. A change is published as 'p' or 'd', a mark as 'm', with a big-endian u32 length, the key, the value.
 * All keys share a hash tag, so that a cluster keeps them together.
 */
export const REDIS_SCRIPT = `
local values, owners, deadlines, ttls, names, sets = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, op = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function publish(kind, key, value)
  redis.call('PUBLISH', channel, kind .. struct.pack('>I4', #key) .. key .. value)
end
local function disown(key)
  local owner = redis.call('HGET', owners, key)
  if owner then
    redis.call('SREM', sets .. owner, key)
    redis.call('HDEL', owners, key)
  end
end
local function put(key, value, lease)
  if lease ~= '' and not redis.call('ZSCORE', deadlines, lease) then return false end
  disown(key)
  redis.call('HSET', values, key, value)
  redis.call('ZADD', names, 0, key)
  if lease ~= '' then
    redis.call('HSET', owners, key, lease)
    redis.call('SADD', sets .. lease, key)
  end
  publish('p', key, value)
  return true
end
local function drop(key)
  disown(key)
  if redis.call('HDEL', values, key) == 0 then return 0 end
  redis.call('ZREM', names, key)
  publish('d', key, '')
  return 1
end
local function revoke(lease)
  for _, key in ipairs(redis.call('SMEMBERS', sets .. lease)) do drop(key) end
  redis.call('DEL', sets .. lease)
  redis.call('HDEL', ttls, lease)
  return redis.call('ZREM', deadlines, lease)
end

-- A Redis whose memory is full takes nothing that may need more, unless the script has changed something already: leases would end with all who hold them.
local function renewed(lease)
  if redis.call('ZREM', deadlines, lease) == 0 then return false end
  redis.call('ZADD', deadlines, now + redis.call('HGET', ttls, lease), lease)
  return true
end

local function plain(text)
  local sign, digits = string.match(text, '^(%-?)(%d+)$')
  if not digits or #digits > 19 then return text end
  local bare = string.match(digits, '^0*(%d+)$')
  return bare == '0' and bare or sign .. bare
end

for _, lease in ipairs(redis.call('ZRANGEBYSCORE', deadlines, '-inf', now)) do revoke(lease) end

if op == 'tick' then
  return {1}
elseif op == 'mark' then
  publish('m', ARGV[3], '')
  return {1}
elseif op == 'get' then
  local value = redis.call('HGET', values, ARGV[3])
  if value then return {1, value} end
  return {0}
elseif op == 'set' then
  if put(ARGV[3], ARGV[4], ARGV[5]) then return {1} end
  return redis.error_reply('BACKWIRE the lease is gone')
elseif op == 'add' then
  -- HINCRBY takes no zeros before a number, and no zero with a sign; other stores do.
  local given = redis.call('HGET', values, ARGV[3])
  local number = given and plain(given)
  if number ~= given then redis.call('HSET', values, ARGV[3], number) end
  local counted = redis.pcall('HINCRBY', values, ARGV[3], ARGV[4])
  if type(counted) == 'table' then
    if number ~= given then redis.call('HSET', values, ARGV[3], given) end
    return counted
  end
  redis.call('ZADD', names, 0, ARGV[3])
  local sum = redis.call('HGET', values, ARGV[3])
  publish('p', ARGV[3], sum)
  return {1, sum}
elseif op == 'cas' then
  local key, some, expected = ARGV[3], ARGV[4], ARGV[5]
  local current = redis.call('HGET', values, key)
  if (some == '1' and current == expected) or (some == '0' and not current) then
    if put(key, ARGV[6], ARGV[7]) then return {1, ARGV[6]} end
    return redis.error_reply('BACKWIRE the lease is gone')
  end
  if current then return {0, current} end
  return {0}
elseif op == 'delete' then
  return {drop(ARGV[3])}
elseif op == 'list' then
  -- Somebody with another version of this script does not keep the names.
  if redis.call('ZCARD', names) ~= redis.call('HLEN', values) then
    redis.call('DEL', names)
    for _, key in ipairs(redis.call('HKEYS', values)) do redis.call('ZADD', names, 0, key) end
  end
  local prefix, found = ARGV[3], {1}
  -- No text has the byte 255.
  local from = prefix == '' and '-' or '[' .. prefix
  local to = prefix == '' and '+' or '(' .. prefix .. '\\255'
  for _, key in ipairs(redis.call('ZRANGEBYLEX', names, from, to)) do
    found[#found + 1] = key
    found[#found + 1] = redis.call('HGET', values, key)
  end
  return found
elseif op == 'grant' then
  redis.call('ZADD', deadlines, now + ARGV[4], ARGV[3])
  redis.call('HSET', ttls, ARGV[3], ARGV[4])
  return {1}
elseif op == 'renew' then
  return {renewed(ARGV[3]) and 1 or 0}
elseif op == 'hold' then
  local lease, key = ARGV[3], ARGV[4]
  if not renewed(lease) then return {0} end
  if redis.call('HGET', owners, key) ~= lease then disown(key) end
  redis.call('HSET', values, key, ARGV[5])
  redis.call('ZADD', names, 0, key)
  redis.call('HSET', owners, key, lease)
  redis.call('SADD', sets .. lease, key)
  return {1}
elseif op == 'revoke' then
  return {revoke(ARGV[3])}
end
return redis.error_reply('BACKWIRE unknown operation')
`;

/** What the server calls it by. */
export const REDIS_SCRIPT_SHA = createHash('sha1').update(REDIS_SCRIPT).digest('hex');
