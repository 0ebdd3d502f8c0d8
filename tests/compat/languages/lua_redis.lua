-- lua-redis: one server.
local redis = require 'redis'
local client = redis.connect('127.0.0.1', tonumber(os.getenv('PORT')))

local function equal(found, expected)
    if found ~= expected then error(tostring(found) .. ' is not ' .. tostring(expected), 2) end
end

client:flushall()
local value = {}
for byte = 0, 255 do value[#value + 1] = string.char(byte) end
value = table.concat(value):rep(400)
equal(client:set('bytes', value), true)
equal(client:get('bytes'), value)
local replies, count = client:pipeline(function(pipe) for _ = 1, 1000 do pipe:incr('n') end end)
equal(count, 1000)
equal(replies[1000], 1000)
replies = client:transaction(function(all) all:incr('n') all:incr('n') end)
equal(replies[2], 1002)
client:hmset('h', { a = 1, b = 2 })
local hash = client:hgetall('h')
equal(hash.a .. hash.b, '12')
client:zadd('z', 1, 'one')
equal(client:zrange('z', 0, -1)[1], 'one')
equal(client:eval('return {KEYS[1], ARGV[1]}', 1, 'k', 'v')[2], 'v')
local ok, why = pcall(client.lpush, client, 'h', 1)
equal(ok, false)
equal(why:match('WRONGTYPE'), 'WRONGTYPE')
equal(#client:keys('*'), 4)
