<?php
// Predis: one server, with TLS, and a cluster.
require "Predis/Autoloader.php";
Predis\Autoloader::register();

function equal($found, $expected) {
    if ($found !== $expected) throw new Exception(json_encode($found) . " is not " . json_encode($expected));
}

function one($client) {
    $client->flushall();
    $value = str_repeat(implode(array_map("chr", range(0, 255))), 400);
    equal((string) $client->set("bytes", $value), "OK");
    equal($client->get("bytes"), $value);
    $replies = $client->pipeline(function ($pipe) { for ($n = 0; $n < 1000; $n++) $pipe->incr("n"); });
    equal($replies[999], 1000);
    equal($client->transaction(function ($all) { $all->incr("n"); $all->incr("n"); }), [1001, 1002]);
    $client->hmset("h", ["a" => 1, "b" => 2]);
    equal($client->hgetall("h"), ["a" => "1", "b" => "2"]);
    equal($client->zadd("z", ["one" => 1, "half" => 0.5]), 2);
    equal($client->zrange("z", 0, -1), ["half", "one"]);
    equal($client->eval("return {KEYS[1], ARGV[1]}", 1, "k", "v"), ["k", "v"]);
    try {
        $client->lpush("h", [1]);
        throw new Exception("a list in a hash");
    } catch (Predis\Response\ServerException $error) {
        equal($error->getErrorType(), "WRONGTYPE");
    }
    $keys = iterator_to_array(new Predis\Collection\Iterator\Keyspace($client), false);
    sort($keys);
    equal($keys, ["bytes", "h", "n", "z"]);
}

one(new Predis\Client(["host" => "127.0.0.1", "port" => getenv("PORT")]));
$tls = ["cafile" => getenv("CA"), "peer_name" => "localhost"];
one(new Predis\Client(["scheme" => "tls", "host" => "127.0.0.1", "port" => getenv("TLS_PORT"), "ssl" => $tls]));
$cluster = new Predis\Client(["tcp://127.0.0.1:" . getenv("CLUSTER_PORT")], ["cluster" => "redis"]);
for ($n = 0; $n < 200; $n++) $cluster->set("key:$n", $n);
for ($n = 0; $n < 200; $n++) equal($cluster->get("key:$n"), "$n");
