"""Stock clients against a running server: redis-py, then the command-line tools of Valkey and Redis, unmodified.

    clients.py 127.0.0.1:6379 --peers ~/.cache/peers

The server is flushed. Every value that a client reports is asserted; the first that is wrong ends the program.
"""
import argparse
import os
import re
import subprocess
import time

import redis


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="HOST:PORT of the server")
    parser.add_argument("--peers", help="folder that fetch-peers filled; without it only redis-py is tried")
    args = parser.parse_args()
    host, port = args.address.rsplit(":", 1)
    port = int(port)
    passed = 0
    for protocol in (2, 3):
        for check in CHECKS:
            client = redis.Redis(host=host, port=port, protocol=protocol, socket_timeout=10)
            client.flushall()
            check(client)
            client.close()
            passed += 1
    if args.peers:
        for tool in tools_of(args.peers):
            tool(host, port)
            passed += 1
    print("clients.py: %d checks passed" % passed)


def equal(found, expected):
    if found != expected:
        raise AssertionError("expected %r, found %r" % (expected, found))


def raises(text, call, *args):
    try:
        found = call(*args)
    except redis.ResponseError as error:
        equal(str(error), text)
    else:
        raise AssertionError("expected error %r, found %r" % (text, found))


# ---- redis-py --------------------------------------------------------------------------------------------------------


def connection(client):
    equal(client.ping(), True)
    equal(client.echo("hello"), b"hello")
    equal(client.client_setname("smoke"), True)
    equal(client.client_getname() in ("smoke", b"smoke"), True)
    equal(client.info("server")["tcp_port"], client.connection_pool.connection_kwargs["port"])


def alone(client):
    """Checks commands by which libraries look for replicas, a cluster and modules."""
    equal(client.role(), [b"master", 0, []])
    equal(client.wait(0, 10), 0)
    equal(client.wait(1, 10), 0)
    equal([module[b"name"] for module in client.module_list()], [b"lua"])
    raises("This instance has cluster support disabled", client.execute_command, "CLUSTER SLOTS")


def strings(client):
    binary = bytes(range(256)) + b"\r\n"
    equal(client.set("k", binary), True)
    equal(client.get("k"), binary)
    equal(client.get("missing"), None)
    equal(client.set("k", "new", nx=True), None)
    equal(client.set("k", "new", xx=True, get=True), binary)
    equal(client.append("k", "er"), 5)
    equal(client.strlen("k"), 5)
    equal(client.getrange("k", 1, -2), b"ewe")
    equal(client.setrange("k", 3, "ton"), 6)
    equal(client.getdel("k"), b"newton")
    equal(client.exists("k"), 0)
    equal(client.mset({"a": "1", "b": "2"}), True)
    equal(client.mget("a", "missing", "b"), [b"1", None, b"2"])
    equal(client.msetnx({"b": "3", "c": "3"}), False)
    equal(client.exists("c"), 0)
    client.set("x", "ohmytext")
    client.set("y", "mynewtext")
    equal(client.execute_command("LCS", "x", "y"), b"mytext")


def counters(client):
    equal(client.incr("n"), 1)
    equal(client.incrby("n", 41), 42)
    equal(client.decr("n", 2), 40)
    equal(float(client.incrbyfloat("n", 0.5)), 40.5)
    raises("value is not an integer or out of range", client.incr, "n")
    client.set("n", 2**63 - 1)
    raises("increment or decrement would overflow", client.incr, "n")


def bits(client):
    equal(client.setbit("b", 7, 1), 0)
    equal(client.setbit("b", 100, 1), 0)
    equal(client.getbit("b", 100), 1)
    equal(client.bitcount("b"), 2)
    equal(client.bitpos("b", 1), 7)
    equal(client.bitop("NOT", "c", "b"), 13)
    equal(client.bitcount("c"), 102)
    equal(client.bitfield("f").set("u8", 0, 255).incrby("u8", 0, 10, "SAT").get("u4", 4).execute(), [0, 255, 15])


def keys(client):
    client.mset({"a": "1", "b": "2"})
    equal(client.type("a"), b"string")
    equal(client.rename("a", "z"), True)
    raises("no such key", client.rename, "a", "y")
    equal(sorted(client.keys("*")), [b"b", b"z"])
    equal(client.copy("z", "y"), True)
    equal(client.dbsize(), 3)
    equal(client.unlink("y", "missing"), 1)
    equal(client.touch("z", "b", "missing"), 2)
    equal(client.randomkey() in (b"z", b"b"), True)
    equal(client.delete("z", "b"), 2)
    equal(client.dbsize(), 0)


def scans(client):
    expected = {b"key:%d" % i for i in range(5000)}
    client.mset({key: "v" for key in expected})
    client.mset({"other:%d" % i: "v" for i in range(100)})
    equal(set(client.scan_iter(match="key:*", count=100)), expected)
    equal(set(client.scan_iter(match="key:*", count=7, _type="string")), expected)
    equal(list(client.scan_iter(_type="hash")), [])


def deadlines(client):
    client.set("k", "v")
    equal(client.ttl("k"), -1)
    equal(client.ttl("missing"), -2)
    equal(client.expire("k", 100), True)
    equal(client.ttl("k"), 100)
    equal(client.expire("k", 50, gt=True), False)
    equal(client.expire("k", 50, lt=True), True)
    equal(client.persist("k"), True)
    equal(client.ttl("k"), -1)
    equal(client.expireat("k", 4102444800), True)
    equal(client.expiretime("k"), 4102444800)
    equal(client.getex("k", persist=True), b"v")
    client.set("short", "v", px=30)
    equal(client.pttl("short") in range(0, 31), True)
    until = time.monotonic() + 5
    while client.get("short") is not None and time.monotonic() < until:
        time.sleep(0.005)
    equal(client.get("short"), None)


def pipelines(client):
    pipeline = client.pipeline(transaction=False)
    for i in range(10000):
        pipeline.set("p:%d" % i, i)
        pipeline.incrby("p:%d" % i, 1)
    equal(pipeline.execute(), [reply for i in range(10000) for reply in (True, i + 1)])
    pipeline = client.pipeline(transaction=False)
    pipeline.get("p:1").execute_command("NOSUCH").get("p:2")
    replies = pipeline.execute(raise_on_error=False)
    equal([replies[0], replies[2]], [b"2", b"3"])
    equal(isinstance(replies[1], redis.ResponseError), True)


def databases(client):
    client.set("k", "zero")
    client.execute_command("SELECT", 1)
    equal(client.get("k"), None)
    client.set("k", "one")
    client.execute_command("SWAPDB", 0, 1)
    equal(client.get("k"), b"zero")
    client.execute_command("SELECT", 0)
    equal(client.get("k"), b"one")
    raises("DB index is out of range", client.execute_command, "SELECT", 100000)


def sorted_sets(client):
    equal(client.zadd("z", {"one": 1, "two": 2.5, "three": 3}), 3)
    equal(client.zscore("z", "two"), 2.5)
    equal(client.zrank("z", "three"), 2)
    equal(client.zrange("z", 0, -1), [b"one", b"two", b"three"])
    equal([(name, score) for name, score in client.zrange("z", 1, 1, withscores=True)], [(b"two", 2.5)])
    equal(client.zrem("z", "two"), 1)
    equal(client.zcard("z"), 2)
    raises("WRONGTYPE Operation against a key holding the wrong kind of value", client.get, "z")


# `databases` works on one connection of its own: SELECT belongs to a connection, and a pool hands out any.
def on_one_connection(check):
    def run(client):
        kwargs = client.connection_pool.connection_kwargs
        one = redis.Redis(host=kwargs["host"], port=kwargs["port"], protocol=kwargs["protocol"], single_connection_client=True)
        check(one)
        one.close()

    return run


CHECKS = [connection, alone, strings, counters, bits, keys, scans, deadlines, pipelines, on_one_connection(databases), sorted_sets]


# ---- the tools of Valkey and Redis -----------------------------------------------------------------------------------


def tools_of(peers):
    """Returns the tools that are installed; the newest of Valkey and Redis are optional, as fetch-newest is."""
    folders = [("valkey", "valkey"), ("redis", "redis")]
    for vendor in ("valkey", "redis"):
        if os.path.exists(os.path.join(peers, "newest", "bin", vendor + "-cli")):
            folders.append(("newest", vendor))
    for folder, vendor in folders:
        path = os.path.join(peers, folder, "bin", vendor)
        yield lambda host, port, path=path: command_line(path + "-cli", host, port)
        yield lambda host, port, path=path: benchmark(path + "-benchmark", host, port)


def run(*command, stdin=None):
    done = subprocess.run(command, input=stdin, stdin=None if stdin else subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError("%s ended with %d: %s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return done.stdout


def command_line(cli, host, port):
    base = (cli, "-h", host, "-p", str(port))
    equal(run(*base, "FLUSHALL"), "OK\n")
    equal(run(*base, "set", "greeting", "hello world"), "OK\n")
    equal(run(*base, "get", "greeting"), "hello world\n")
    equal(run(*base, "--no-raw", "get", "greeting"), '"hello world"\n')
    equal(run(*base, "--no-raw", "expire", "greeting", "100"), "(integer) 1\n")
    equal(run(*base, "ttl", "greeting"), "100\n")
    equal(run(*base, "--no-raw", "incr", "greeting"), "(error) ERR value is not an integer or out of range\n")
    equal(run(*base, "-3", "--no-raw", "mget", "greeting", "missing"), '1) "hello world"\n2) (nil)\n')
    equal(run(*base, "-n", "1", "dbsize"), "0\n")
    equal(run(*base, stdin="incr n\nincrby n 9\n"), "1\n10\n")
    equal(run(*base, "-x", "set", "from-stdin", stdin="a\nb"), "OK\n")
    equal(run(*base, "get", "from-stdin"), "a\nb\n")
    equal(sorted(run(*base, "--scan").split()), ["from-stdin", "greeting", "n"])
    mass = "".join("*3\r\n$3\r\nSET\r\n$%d\r\nm:%d\r\n$1\r\nv\r\n" % (len("m:%d" % i), i) for i in range(1000))
    equal("errors: 0, replies: 1000" in run(*base, "--pipe", stdin=mass), True)
    equal(run(*base, "dbsize"), "1003\n")


def benchmark(tool, host, port):
    base = (tool, "-h", host, "-p", str(port))
    tests = ("set", "get", "incr", "mset")
    for load in (("-n", "20000", "-P", "16", "-c", "50"), ("-n", "5000", "-P", "1", "-c", "50", "-3"),
                 ("-n", "20000", "-P", "16", "-c", "50", "--threads", "2", "-r", "10000")):
        out = run(*base, "-t", ",".join(tests), "--csv", *load)
        rates = dict(re.findall(r'^"(\w+)[^"]*","([\d.]+)"', out, re.MULTILINE))
        equal(sorted(rates), ["GET", "INCR", "MSET", "SET"])
        equal(all(float(rate) > 0 for rate in rates.values()), True)
        equal("error" in out.lower(), False)


if __name__ == "__main__":
    main()
