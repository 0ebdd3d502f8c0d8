"""valkey-py: one server, with TLS, and a cluster."""
import os

import valkey

env = os.environ
plain = {"host": "127.0.0.1", "port": int(env["PORT"])}
secure = {"host": "127.0.0.1", "port": int(env["TLS_PORT"]), "ssl": True, "ssl_ca_certs": env["CA"]}
for options in (plain, secure):
    for protocol in (2, 3):
        client = valkey.Valkey(**options, protocol=protocol)
        client.flushall()
        value = bytes(range(256)) * 400
        assert client.set("bytes", value) and client.get("bytes") == value
        with client.pipeline(transaction=True) as pipe:
            for _ in range(1000):
                pipe.incr("n")
            assert pipe.execute()[-1] == 1000
        client.hset("h", mapping={"a": 1, "b": 2})
        assert client.hgetall("h") == {b"a": b"1", b"b": b"2"}
        client.zadd("z", {"one": 1, "half": 0.5})
        assert [tuple(pair) for pair in client.zrange("z", 0, -1, withscores=True)] == [(b"half", 0.5), (b"one", 1.0)]
        assert client.register_script("return {KEYS[1], ARGV[1]}")(keys=["k"], args=["v"]) == [b"k", b"v"]
        try:
            client.lpush("h", 1)
            raise AssertionError("a list in a hash")
        except valkey.ResponseError as error:
            assert str(error).startswith("WRONGTYPE")
        messages = client.pubsub()
        messages.subscribe("news")
        assert messages.get_message(timeout=10)["type"] == "subscribe"
        assert client.publish("news", "hello") == 1
        assert messages.get_message(timeout=10)["data"] == b"hello"
        assert len(list(client.scan_iter())) == 4
cluster = valkey.ValkeyCluster(host="127.0.0.1", port=int(env["CLUSTER_PORT"]))
for number in range(200):
    cluster.set(f"key:{number}", number)
assert [cluster.get(f"key:{number}") for number in range(200)] == [b"%d" % number for number in range(200)]
assert cluster.delete(*(f"key:{number}" for number in range(200))) == 200
