#!/usr/bin/env python3
"""cluster_proxy - clients that know nothing of clusters, at one node of a cluster of real nodes and ours (`cluster-proxy yes`).

    cluster_proxy.py --server target/release/cinnabar-server --peers ~/.cache/peers [--commands 4000] [--seed 1]

Three primaries with a replica each, real and ours in turn. Two clients, one with RESP2 and one with RESP3, send the same random
commands, many at a time, to one of our nodes and to a single real server: every reply is compared, byte for byte. Meanwhile slots
move both ways. Then another of our nodes, a replica, is asked the same; then an owner is killed: whoever asks gets a clear error or
its reply, and after the failover all is as before. Exits with 1 if anything is wrong.
"""
import argparse
import os
import random
import threading
import time

from cluster_processes import AnyNode, ClusterTool, Node, scratch_folder
from wire import PATIENCE, AnyClient, request

class Single(AnyNode):
    """A server that is no node."""

    def words(self):
        return ["--port", self.port, "--save", "", "--dir", self.folder, "--bind", "127.0.0.1"]


class Cluster:
    def __init__(self, options, folder):
        self.tool = ClusterTool(options.peers)
        real = os.path.join(options.peers, "newest/bin/valkey-server")
        ours = (options.server, "--cluster-proxy", "yes")
        kinds = [(real,), ours, (options.server,), ours, (real,), (real,)]
        self.nodes = [AnyNode(kind, os.path.join(folder, str(at)), "--bind", "127.0.0.1", "--cluster-databases", 4, *words)
                      for at, (kind, *words) in enumerate(kinds)]
        self.single = Single(real, os.path.join(folder, "single"))
        self.tool.create(self.nodes)
        for node in self.nodes:
            node.until("the cluster", Node.is_up)
            node.until("its data", lambda node: node.role() == b"master" or node.is_synced())

    def stop(self):
        for node in (*self.nodes, self.single):
            node.kill()


class Raw:
    """Sends requests together and reads their replies as bytes."""

    def __init__(self, port, resp):
        self.client, self.port = AnyClient(port), port
        if resp == 3:
            self.client("HELLO", "3")

    def ask(self, requests):
        self.client.socket.sendall(b"".join(request(words) for words in requests))
        return [self.reply() for _ in requests]

    def reply(self):
        line = self.client.file.readline()
        if not line.endswith(b"\r\n"):
            raise SystemExit(f"port {self.port} closed the connection")
        kind, rest = line[:1], line[1:-2]
        if rest == b"-1" or kind not in b"$=*%~>":
            return line
        if kind in b"$=":
            return line + self.client.file.read(int(rest) + 2)
        return line + b"".join(self.reply() for _ in range(int(rest) * (2 if kind == b"%" else 1)))


def command(rand, prefix):
    """Returns a command that a single server and a cluster answer alike, whatever ran before."""
    def key(kind):
        return f"{prefix}{kind}{rand.randrange(40)}"
    text, hash_, list_, zset, set_, stream = (key(kind) for kind in ("text", "hash", "list", "zset", "set", "stream"))
    word, number = f"v{rand.randrange(1000)}", rand.randrange(-3, 9)
    keys = [key("text") for _ in range(rand.randrange(1, 6))]
    return rand.choice([
        ("SET", text, word * rand.choice((1, 1, 1, 900))), ("GET", text), ("GET", text), ("GETDEL", text), ("APPEND", text, word), ("STRLEN", text),
        ("INCR", key("n")), ("INCRBYFLOAT", key("f"), "0.5"), ("DECRBY", key("n"), number), ("SETRANGE", text, 3, word), ("GETRANGE", text, 0, 4),
        ("SET", text, word, "NX", "GET"), ("PERSIST", text), ("EXPIRE", text, 1000), ("TYPE", key(rand.choice(("text", "hash", "list")))),
        ("HSET", hash_, word, number), ("HGET", hash_, word), ("HINCRBY", hash_, "a", number), ("HLEN", hash_), ("HMGET", hash_, word, "a"),
        ("HSET", key("one"), "f", word), ("HGETALL", key("one")), ("LPUSH", list_, word, number), ("RPOP", list_), ("LRANGE", list_, 0, number),
        ("LMPOP", 1, list_, "LEFT"), ("LINDEX", list_, number), ("ZADD", zset, number, word), ("ZSCORE", zset, word), ("ZRANGE", zset, 0, number, "WITHSCORES"),
        ("ZINCRBY", zset, "1.5", word), ("SADD", set_, number, word), ("SISMEMBER", set_, number), ("SCARD", set_), ("XLEN", stream),
        ("XADD", stream, f"{rand.randrange(9)}-1", "f", word), ("XRANGE", stream, "-", "+", "COUNT", 2), ("GET", list_), ("LPUSH", text, 1),
        ("SETBIT", key("bits"), number + 3, 1), ("BITCOUNT", key("bits")), ("PFADD", key("hll"), word), ("PFCOUNT", key("hll")),
        ("EVAL", "return redis.call('incr', KEYS[1]) + ARGV[1]", 1, key("n"), 7), ("EVAL_RO", "return {KEYS[1], ARGV[1]}", 1, text, word),
        ("MGET", *keys), ("MGET", *keys), ("MSET", *(part for name in keys for part in (name, word))), ("DEL", *keys), ("UNLINK", text), ("EXISTS", *keys, *keys),
        ("TOUCH", *keys), ("MGET", text, list_, "nothing"), ("GET",), ("NOSUCH", text), ("INCRBY", text, "x"), ("PING",), ("ECHO", word),
        ("MSET", text, word, list_), ("SORT", list_, "ALPHA"), ("COPY", text, text), ("OBJECT", "REFCOUNT", "none" + text), ("DUMP", "none" + text),
    ])


def requests(rand, prefix):
    if rand.random() < 0.1:
        tag = f"{{{prefix}{rand.randrange(9)}}}"
        return [("MULTI",), ("INCR", tag), ("SET", tag + "b", rand.randrange(9)), ("MGET", tag, tag + "b"), rand.choice([("EXEC",), ("EXEC",), ("DISCARD",)])]
    return [command(rand, prefix) for _ in range(rand.choice((1, 1, 2, 5, 30)))]


class Stream(threading.Thread):
    """A client of each server; stops at the first difference."""

    def __init__(self, cluster, port, resp, seed, count):
        super().__init__(daemon=True)
        self.pair, self.random, self.left = [Raw(port, resp), Raw(cluster.single.port, resp)], random.Random(seed), count
        self.prefix, self.wrong, self.asked = f"r{resp}-{seed}:", None, 0

    def run(self):
        while self.left > 0 and not self.wrong:
            asked = requests(self.random, self.prefix)
            told, expected = (client.ask(asked) for client in self.pair)
            for words, one, other in zip(asked, told, expected):
                if one != other and not self.wrong:
                    self.wrong = f"{words}: {one[:300]!r} instead of {other[:300]!r}"
            self.left -= len(asked)
            self.asked += len(asked)


def compare(cluster, port, options, meanwhile, endless=False):
    streams = [Stream(cluster, port, resp, options.seed + port, 10 ** 9 if endless else options.commands) for resp in (2, 3, 2)]
    for at, stream in enumerate(streams):
        stream.prefix += str(at)
        stream.start()
    try:
        meanwhile()
    finally:
        if endless:
            for stream in streams:
                stream.left = 0
    for stream in streams:
        stream.join(PATIENCE * 4)
        if stream.is_alive():
            raise SystemExit(f"{stream.prefix} waits for a reply after {stream.asked} commands")
        if stream.wrong:
            raise SystemExit(stream.wrong)
    return sum(stream.asked for stream in streams)


def whole(cluster, port):
    """Checks commands on all keys."""
    ours, single = AnyClient(port), AnyClient(cluster.single.port)

    def same(*words, by=lambda reply: reply):
        one, other = (by(client(*words)) for client in (ours, single))
        if one != other and not self.wrong:
            raise SystemExit(f"{words}: {str(one)[:500]} instead of {str(other)[:500]}")

    def scan(client, *words):
        names, cursor = [], b"0"
        while True:
            _, cursor, page = client("SCAN", cursor.lstrip(b"$"), *words)
            names += page[1:]
            if cursor == b"$0":
                return sorted(names)
    same("DBSIZE")
    same("KEYS", "*", by=lambda reply: sorted(reply[1:]))
    for words in ((), ("COUNT", 100), ("MATCH", "*text*"), ("TYPE", "list")):
        # A scan may return a key twice while tables change their size, and here none does.
        if sorted(set(scan(ours, *words))) != sorted(set(scan(single, *words))):
            raise SystemExit(f"SCAN {words} finds other keys")
    assert ours("RANDOMKEY") in single("KEYS", "*")
    same("SCAN", "x")
    same("SCAN", "0", "NOSUCH")
    for db in (3, 0):
        same("SELECT", db)
        same("SET", "in-a-database", db)
        same("GET", "in-a-database")
        same("MGET", "in-a-database", "b", "c")
        same("DBSIZE")


def refusals(cluster, port):
    """Commands that bind their connection are refused as without a proxy, or work; none hangs, and later ones are answered."""
    names = [f"key{n}" for n in range(12)]
    single = AnyClient(cluster.single.port)
    for name in names:
        client = AnyClient(port)
        client("DEL", name)
        is_elsewhere = client("WATCH", name).startswith(b"-MOVED ")
        expected = b"-MOVED" if is_elsewhere else None
        for words in (("BLPOP", name, "0.05"), ("XREAD", "BLOCK", "50", "STREAMS", name, "0"), ("SSUBSCRIBE", name)):
            reply = AnyClient(port)(*words)
            if isinstance(reply, bytes) and reply.startswith(b"-MOVED") != is_elsewhere:
                raise SystemExit(f"{words}: {reply}, and WATCH is told {expected}")
        assert client("XREAD", "STREAMS", name, "0") == single("XREAD", "STREAMS", name, "0")
        assert client("UNWATCH") == b"+OK" and client("GET", name) == b"$-1"
    client = AnyClient(port)
    assert client("MSETNX", "a", 1, "b", 2).startswith(b"-CROSSSLOT"), "it could not be one step"
    assert client("RENAME", "a", "b").startswith(b"-CROSSSLOT")
    assert client("MULTI") == b"+OK" and client("SET", "a", 1) == b"+QUEUED" and client("SET", "b", 1) == b"+QUEUED"
    assert client("EXEC").startswith(b"-CROSSSLOT")
    quiet = AnyClient(port)
    quiet.socket.sendall(b"".join(request(words) for words in (
        ("CLIENT", "REPLY", "SKIP"), ("SET", "a", 1), ("GET", "a"), ("CLIENT", "REPLY", "OFF"), ("SET", "b", 2), ("SET", "c", 3), ("GET", "c"),
        ("CLIENT", "REPLY", "ON"), ("MGET", "a", "b", "c"))))
    assert [quiet.read() for _ in range(3)] == [b"$1", b"+OK", [b"*", b"$1", b"$2", b"$3"]]
    script = "return redis.call('set', KEYS[1], ARGV[1])"
    sha = client("SCRIPT", "LOAD", script)[1:]
    for name in names:
        assert client("EVALSHA", sha, 1, name, 5) == b"+OK" and client("GET", name) == b"$5"
    library = "#!lua name=lib\nredis.register_function('put', function(keys, args) return redis.call('set', keys[1], args[1]) end)"
    assert client("FUNCTION", "LOAD", library) == b"$lib" and client("SCRIPT", "EXISTS", sha, "0" * 40) == [b"*", b":1", b":0"]
    for name in names:
        assert client("FCALL", "put", 1, name, 5) == b"+OK" and client("GET", name) == b"$5"
    assert client("FUNCTION", "LOAD", library) == single("FUNCTION", "LOAD", library).replace(b"$lib", b"-ERR Library 'lib' already exists")
    assert client("FUNCTION", "DELETE", "lib") == b"+OK" and single("FUNCTION", "DELETE", "lib") == b"+OK"
    client("CLIENT", "CAPA", "moved")
    assert any(client("GET", name).startswith(b"-MOVED") for name in names)
    assert client("MGET", *names).startswith(b"-CROSSSLOT")
    # Users: rights are checked at the proxy.
    admin = AnyClient(port)
    assert admin("ACL", "SETUSER", "reader", "on", "nopass", "~key*", "+get", "+mget") == b"+OK"
    reader = AnyClient(port)
    reader("AUTH", "reader", "x")
    assert all(reader("GET", name) == b"$5" and reader("SET", name, 1).startswith(b"-NOPERM") for name in names)
    assert reader("MGET", "key1", "other").startswith(b"-NOPERM") and reader("MGET", *names) == [b"*", *[b"$5"] * len(names)]
    subscriber = AnyClient(port)
    assert subscriber("SUBSCRIBE", "c")[1] == b"$subscribe" and all(subscriber("GET", name).startswith(b"-ERR Can't execute") for name in names)
    for name in names:
        AnyClient(port)("DEL", name)
    assert single("DEL", *names, "a", "b", "c") is not None and AnyClient(port)("DEL", "a", "b", "c") is not None


TOLD = (b"-CLUSTERDOWN", b"-UNACKNOWLEDGED", b"-LOADING", b"-MASTERDOWN", b"-MOVED")


class Counter(threading.Thread):
    """Counts keys up, through an owner's death; every reply is a number or an error with its reason."""

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.client, self.random, self.ended, self.wrong, self.told, self.failures = AnyClient(port), random.Random(seed), False, None, 0, set()

    def run(self):
        while not self.ended and not self.wrong:
            asked = [("INCR", f"count{self.random.randrange(200)}") for _ in range(self.random.randrange(1, 20))]
            self.client.socket.sendall(b"".join(map(request, asked)))
            for words in asked:
                reply = self.client.read()
                if isinstance(reply, bytes) and reply[:1] == b":":
                    self.told += 1
                elif reply.startswith(TOLD):
                    self.failures.add(reply.split()[0])
                else:
                    self.wrong = f"{words}: {reply}"


def death(cluster, port, seed):
    victim = next(node for node in cluster.nodes if node.port != port and node.role() == b"master" and "valkey" in node.binary)
    heir = next(node for node in cluster.nodes if node.role() == b"slave" and node("ROLE")[3] == b":%d" % victim.port)
    counters = [Counter(port, seed + at) for at in range(4)]
    for counter in counters:
        counter.start()
    time.sleep(0.5)
    victim.kill()
    heir.until("its promotion", lambda node: node.role() == b"master", 60)
    for node in cluster.nodes:
        if node is not victim:
            node.until("the cluster", Node.is_up)
    keys = [f"count{n}" for n in range(200)]
    AnyClient(port)("MGET", *keys)
    ended = [counter.told for counter in counters]
    time.sleep(0.5)
    for counter, was in zip(counters, ended):
        counter.ended = True
        counter.join(PATIENCE)
        if counter.wrong or counter.is_alive():
            raise SystemExit(counter.wrong or "a client waits for a reply")
        assert counter.told > was, "nothing is answered after the failover"
    told = set().union(*(counter.failures for counter in counters))
    assert told, "the owner died, and nobody was told anything"
    assert AnyClient(port)("EXISTS", *keys) == b":200"
    return told


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--commands", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.peers = os.path.expanduser(options.peers)
    with scratch_folder("cluster_proxy") as folder:
        cluster = Cluster(options, folder)
        try:
            proxy, replica = cluster.nodes[1].port, cluster.nodes[3].port
            assert cluster.nodes[3].role() == b"slave"
            asked = compare(cluster, proxy, options, lambda: None)
            whole(cluster, proxy)
            refusals(cluster, proxy)

            def moves():
                for source, target in ((0, 1), (1, 2), (2, 0), (1, 0)):
                    cluster.tool.reshard(cluster.nodes[source], cluster.nodes[target], 60)
            asked += compare(cluster, proxy, options, moves, endless=True)
            asked += compare(cluster, replica, options, lambda: None)
            whole(cluster, replica)
            assert AnyClient(proxy)("FLUSHALL") == b"+OK" and AnyClient(replica)("DBSIZE") == b":0"
            told = death(cluster, proxy, options.seed)
            print(f"cluster_proxy: {asked} replies alike; when an owner died clients were told {b' '.join(sorted(told)).decode()}")
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
