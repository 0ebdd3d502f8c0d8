"""coredis: one server, with TLS, and a cluster, in one event loop."""
import asyncio
import os
import ssl

import coredis

env = os.environ


async def one(client):
    async with client:
        await client.flushall()
        value = bytes(range(256)) * 400
        assert await client.set("bytes", value) and await client.get("bytes") == value
        assert sorted(await asyncio.gather(*(client.incr("n") for _ in range(100)))) == list(range(1, 101))
        await client.hset("h", {"a": "1", "b": "2"})
        assert await client.hgetall("h") == {b"a": b"1", b"b": b"2"}
        await client.zadd("z", {"one": 1, "half": 0.5})
        assert await client.zscore("z", "half") == 0.5
        assert await client.eval("return {KEYS[1], ARGV[1]}", keys=["k"], args=["v"]) == [b"k", b"v"]
        try:
            await client.lpush("h", ["1"])
            raise AssertionError("a list in a hash")
        except coredis.exceptions.WrongTypeError:
            pass
        assert len([key async for key in client.scan_iter()]) == 4


async def main():
    await one(coredis.Redis(host="127.0.0.1", port=int(env["PORT"])))
    tls = ssl.create_default_context(cafile=env["CA"])
    await one(coredis.Redis(host="127.0.0.1", port=int(env["TLS_PORT"]), ssl_context=tls))
    cluster = coredis.RedisCluster(host="127.0.0.1", port=int(env["CLUSTER_PORT"]))
    async with cluster:
        for number in range(200):
            await cluster.set(f"key:{number}", str(number))
        values = await cluster.mget([f"key:{number}" for number in range(200)])
        assert list(values) == [b"%d" % number for number in range(200)]


asyncio.run(main())
