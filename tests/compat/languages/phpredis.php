<?php
// phpredis: one server, with TLS, and a cluster.
function equal($found, $expected) {
    if ($found !== $expected) throw new Exception(json_encode($found) . " is not " . json_encode($expected));
}

function one(Redis $client) {
    equal($client->flushAll(), true);
    $value = str_repeat(implode(array_map("chr", range(0, 255))), 400);
    equal($client->set("bytes", $value), true);
    equal($client->get("bytes"), $value);
    $pipe = $client->multi(Redis::PIPELINE);
    for ($n = 0; $n < 1000; $n++) $pipe->incr("n");
    equal($pipe->exec()[999], 1000);
    equal($client->multi()->incr("n")->incr("n")->exec(), [1001, 1002]);
    $client->hMSet("h", ["a" => 1, "b" => 2]);
    equal($client->hGetAll("h"), ["a" => "1", "b" => "2"]);
    equal($client->zAdd("z", 1, "one", 0.5, "half"), 2);
    equal($client->zRange("z", 0, -1, true), ["half" => 0.5, "one" => 1.0]);
    equal($client->eval("return {KEYS[1], ARGV[1]}", ["k", "v"], 1), ["k", "v"]);
    equal($client->lPush("h", 1), false);
    equal(str_starts_with($client->getLastError(), "WRONGTYPE"), true);
    $client->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
    $keys = [];
    $cursor = null;
    while ($some = $client->scan($cursor)) array_push($keys, ...$some);
    sort($keys);
    equal($keys, ["bytes", "h", "n", "z"]);
}

$client = new Redis();
$client->connect("127.0.0.1", (int) getenv("PORT"));
one($client);
$secure = new Redis();
$tls = ["stream" => ["cafile" => getenv("CA"), "peer_name" => "localhost"]];
$secure->connect("tls://127.0.0.1", (int) getenv("TLS_PORT"), 10, null, 0, 10, $tls);
one($secure);
$cluster = new RedisCluster(null, ["127.0.0.1:" . getenv("CLUSTER_PORT")]);
for ($n = 0; $n < 200; $n++) equal($cluster->set("key:$n", $n), true);
for ($n = 0; $n < 200; $n++) equal($cluster->get("key:$n"), "$n");
equal(count($cluster->_masters()), 3);
