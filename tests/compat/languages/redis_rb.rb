# redis-rb: one server, with TLS, and a cluster.
require "redis"

def equal(found, expected)
  raise "#{found.inspect} is not #{expected.inspect}" unless found == expected
end

def one(options)
  client = Redis.new(host: "127.0.0.1", **options)
  client.flushall
  value = (0..255).map(&:chr).map(&:b).join * 400
  equal(client.set("bytes", value), "OK")
  equal(client.get("bytes").b, value)
  equal(client.pipelined { |pipe| 1000.times { pipe.incr("n") } }.last, 1000)
  equal(client.multi { |all| 2.times { all.incr("n") } }, [1001, 1002])
  client.hset("h", "a", 1, "b", 2)
  equal(client.hgetall("h"), { "a" => "1", "b" => "2" })
  client.zadd("z", [[1, "one"], [0.5, "half"]])
  equal(client.zrange("z", 0, -1, with_scores: true), [["half", 0.5], ["one", 1.0]])
  equal(client.eval("return {KEYS[1], ARGV[1]}", ["k"], ["v"]), %w[k v])
  begin
    client.lpush("h", 1)
    raise "a list in a hash"
  rescue Redis::CommandError => error
    equal(error.message.start_with?("WRONGTYPE"), true)
  end
  heard = nil
  listener = Redis.new(host: "127.0.0.1", **options)
  listener.subscribe("news") do |on|
    on.subscribe { client.publish("news", "hello") }
    on.message { |_, text| heard = text; listener.unsubscribe }
  end
  equal(heard, "hello")
  equal(client.scan_each.to_a.sort, %w[bytes h n z])
end

one(port: ENV["PORT"].to_i)
one(port: ENV["TLS_PORT"].to_i, ssl: true, ssl_params: { ca_file: ENV["CA"] })
cluster = Redis.new(cluster: ["redis://127.0.0.1:#{ENV["CLUSTER_PORT"]}"])
200.times { |n| cluster.set("key:#{n}", n) }
200.times { |n| equal(cluster.get("key:#{n}"), n.to_s) }
