#!/usr/bin/env python3
"""replicas - Cinnabar as a replica of real servers: what they have it has, whatever happens to the link.

    replicas.py --server target/release/cinnabar-server --peers ~/.cache/peers [--commands 200000] [--seed 1] [--quick] [--reverse] [--chain]

Every real server among the peers is a primary, and with --itself a Cinnabar, too. Random commands of all families run on it, in transactions and
scripts and in several databases, while the link is cut from both ends, too late for what the primary has kept at times, and while the
replica is restarted. Now and then the primary rests, and both must have the same data. With --quick each primary has one replica, of another kind
than the next primary's. With --reverse the real servers are the replicas, and Cinnabar is the primary.

With --chain three servers of which Cinnabar is one follow each other, and change their places: the second leads, the first follows its own replica,
and in the end all three follow each other in a circle until one is told to lead.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

from wire import Client, free_port

PEERS = ["newest/bin/valkey-server", "newest/bin/redis-server", "matching/bin/valkey-server", "valkey/bin/valkey-server", "redis/bin/redis-server"]
ROUNDS = 8
PATIENCE = 60


class Failed(Exception):
    pass


class Server:
    environment = None

    def __init__(self, binary, scratch, *options):
        self.binary, self.options, self.port = binary, options, free_port()
        self.folder, self.log = os.path.join(scratch, str(self.port)), os.path.join(scratch, f"log-{self.port}")
        os.mkdir(self.folder)
        self.start()

    def start(self, *more):
        command = [self.binary, "--port", str(self.port), "--enable-debug-command", "yes", "--dir", self.folder,
                   "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *self.options, *more]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(400):
            try:
                self.client = Client(self.port)
                if not isinstance(self.client("PING"), bytes) or b"LOADING" not in self.client("PING"):
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise Failed(f"{self.binary} does not start")

    def __call__(self, *words):
        return self.client(*words)

    def info(self, section="replication"):
        lines = self("INFO", section).decode("latin-1").split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def stop(self):
        """Asks again: a server that writes the base of its log does not end."""
        for _ in range(PATIENCE):
            self.process.terminate()
            try:
                return self.process.wait(1)
            except subprocess.TimeoutExpired:
                pass
        self.process.kill()
        raise Failed("the server does not end")

    def restart(self):
        self.stop()
        self.start()


def until(what, holds):
    end = time.time() + PATIENCE
    while not holds():
        if time.time() > end:
            raise Failed(f"in vain: {what}")
        time.sleep(0.02)


KEYS = [f"key:{number}" for number in range(60)]


def some(rng, count=3):
    return [f"e{rng.randrange(40)}" for _ in range(rng.randrange(1, count + 1))]


def commands(rng):
    """One random command, or several that belong together."""
    key = lambda kind: f"{kind}:{rng.randrange(12)}"
    number = lambda most=100: rng.randrange(most)
    s, l, h, z, t, x = (key(kind) for kind in ("string", "list", "hash", "zset", "set", "stream"))
    text = "v" * number(200) + str(number(1000))
    choices = [
        ["SET", s, text], ["SET", s, number()], ["SET", s, text, "PX", rng.choice([1, 50, 100000])], ["APPEND", s, text], ["SETRANGE", s, number(), "xyz"],
        ["INCR", key("number")], ["INCRBYFLOAT", key("float"), "0.1"], ["GETDEL", s], ["GETEX", s, "EX", 100], ["MSET", key("string"), 1, key("string"), 2],
        ["SETBIT", key("bits"), number(2000), 1], ["BITOP", "XOR", key("bits"), key("bits"), key("bits")], ["BITFIELD", key("bits"), "INCRBY", "u5", number(), 3],
        ["PFADD", key("hll"), *some(rng)], ["PFMERGE", key("hll"), key("hll")],
        ["LPUSH", l, *some(rng)], ["RPUSH", l, text], ["LPOP", l], ["RPOP", l, 2], ["LINSERT", l, "BEFORE", "e1", "new"], ["LREM", l, 1, "e2"], ["LTRIM", l, 0, 80],
        ["LMOVE", l, key("list"), "LEFT", "RIGHT"], ["LSET", l, 0, "set"], ["LMPOP", 2, l, key("list"), "LEFT"], ["BLPOP", l, 0.01], ["BLMOVE", l, key("list"), "LEFT", "LEFT", 0.01],
        ["SADD", t, *some(rng, 8)], ["SADD", t, number()], ["SREM", t, *some(rng)], ["SPOP", t], ["SPOP", t, 3], ["SMOVE", t, key("set"), "e3"],
        ["SUNIONSTORE", key("set"), t, key("set")], ["SINTERSTORE", key("set"), t, key("set")], ["SDIFFSTORE", key("set"), t, key("set")],
        ["HSET", h, f"f{number(20)}", text], ["HDEL", h, f"f{number(20)}"], ["HINCRBY", h, "n", 3], ["HINCRBYFLOAT", h, "d", "1.5"], ["HSETNX", h, f"f{number(20)}", 1],
        ["ZADD", z, number(), f"e{number(40)}", number(1000) / 8, f"e{number(40)}"], ["ZINCRBY", z, 1.5, f"e{number(40)}"], ["ZREM", z, *some(rng)], ["ZPOPMIN", z], ["ZPOPMAX", z, 2],
        ["ZUNIONSTORE", key("zset"), 2, z, key("zset")], ["ZRANGESTORE", key("zset"), z, 0, 10], ["ZREMRANGEBYRANK", z, 0, 1], ["BZPOPMIN", z, 0.01],
        ["GEOADD", key("geo"), rng.uniform(-100, 100), rng.uniform(-60, 60), f"p{number(20)}"], ["GEOSEARCHSTORE", key("zset"), key("geo"), "FROMLONLAT", 0, 0, "BYRADIUS", 5000, "km"],
        ["XADD", x, "*", "f", text], ["XADD", x, "MAXLEN", "~", 50, "*", "a", 1, "b", 2], ["XTRIM", x, "MAXLEN", 20], ["XGROUP", "CREATE", x, f"g{number(3)}", "0", "MKSTREAM"],
        ["XREADGROUP", "GROUP", f"g{number(3)}", f"c{number(3)}", "COUNT", 3, "STREAMS", x, ">"], ["XAUTOCLAIM", x, f"g{number(3)}", f"c{number(3)}", 0, "0", "COUNT", 2],
        ["XGROUP", "DELCONSUMER", x, f"g{number(3)}", f"c{number(3)}"], ["XSETID", x, "9999999999999-1"], ["XDEL", x, "1-1"],
        ["EXPIRE", rng.choice([s, l, h, z, t, x]), rng.choice([1, 1000])], ["PEXPIRE", s, rng.choice([1, 30])], ["PERSIST", s], ["RENAME", s, key("string")], ["COPY", l, key("list"), "REPLACE"],
        ["DEL", rng.choice([s, l, h, z, t, x])], ["UNLINK", rng.choice([s, l, h])], ["MOVE", s, number(3)], ["SORT", l, "ALPHA", "STORE", key("list")], ["PUBLISH", "channel", text],
        ["EVAL", "for n = 1, 5 do redis.call('rpush', KEYS[1], ARGV[1] .. n) end redis.call('spop', KEYS[2]) return redis.call('incr', KEYS[3])", 3, l, t, key("number"), text[:20]],
        ["EVAL", "return redis.call('set', KEYS[1], redis.call('time')[2])", 1, s], ["SELECT", number(4)], ["GET", s], ["TOUCH", s],
    ]
    chance = rng.random()
    if chance < 0.05:
        return [["MULTI"], *(rng.choice(choices[:-2]) for _ in range(rng.randrange(1, 6))), ["EXEC"]]
    if chance < 0.002 + 0.05:
        return [rng.choice([["FLUSHDB"], ["SWAPDB", 0, 1], ["FLUSHALL"], ["SET", "large", "x" * 300_000], ["FUNCTION", "LOAD", "REPLACE", "#!lua name=lib\nredis.register_function('f', function() return 1 end)"]])]
    return [rng.choice(choices)]


def fields_that_expire(rng):
    h = f"hash:{rng.randrange(12)}"
    return [["HEXPIRE", h, rng.choice([1, 1000]), "FIELDS", 1, f"f{rng.randrange(20)}"], ["HPERSIST", h, "FIELDS", 1, f"f{rng.randrange(20)}"]]


def write(client, rng, count, has_field_ttl):
    for _ in range(count):
        batch = fields_that_expire(rng) if has_field_ttl and rng.random() < 0.03 else commands(rng)
        for words in batch:
            client(*words)


def is_up(replica):
    role = replica("ROLE")
    return isinstance(role, list) and len(role) == 5 and role[3] == b"connected"


def same(primary, replica):
    """Waits until both have the same data."""
    def is_even():
        return is_up(replica) and primary.info()["master_repl_offset"] == replica("ROLE")[4][1:].decode()

    primary("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    until("the replica catches up", is_even)
    digests = primary("DEBUG", "DIGEST"), replica("DEBUG", "DIGEST")
    if digests[0] != digests[1]:
        time.sleep(0.3)
        until("the replica catches up", is_even)
        digests = primary("DEBUG", "DIGEST"), replica("DEBUG", "DIGEST")
    primary("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    different = differing(primary, replica) if digests[0] != digests[1] else []
    if different:
        raise Failed(f"{len(different)} keys differ: {different[:3]}")


def content(server, key):
    """Returns the content of a key, in a form that is the same for all servers."""
    kind = server("TYPE", key)[1:]
    expiry = server("PEXPIRETIME", key)
    pairs = lambda flat: list(zip(flat[::2], flat[1::2]))
    if kind == b"string":
        return expiry, server("GET", key)
    if kind == b"list":
        return expiry, server("LRANGE", key, 0, -1)
    if kind == b"set":
        return expiry, sorted(server("SMEMBERS", key))
    if kind == b"zset":
        return expiry, [(member, float(score)) for member, score in pairs(server("ZRANGE", key, 0, -1, "WITHSCORES"))]
    if kind == b"hash":
        fields = dict(pairs(server("HGETALL", key)))
        times = server("HPEXPIRETIME", key, "FIELDS", len(fields), *fields) if fields else []
        return expiry, fields, dict(zip(fields, times)) if isinstance(times, list) else None
    if kind == b"stream":
        return expiry, server("XRANGE", key, "-", "+"), [dict(pairs(group)).get(b"last-delivered-id") for group in server("XINFO", "GROUPS", key)]
    return expiry, kind


def differing(primary, replica):
    """Returns keys with different contents, whatever their digests: some digests include the texts of numbers."""
    found = []
    for db in range(4):
        primary("SELECT", db)
        replica("SELECT", db)
        keys = set(primary("KEYS", "*")) | set(replica("KEYS", "*"))
        for key in sorted(keys):
            if primary("DEBUG", "DIGEST-VALUE", key) != replica("DEBUG", "DIGEST-VALUE", key):
                contents = content(primary, key), content(replica, key)
                if contents[0] != contents[1]:
                    found.append((db, key, *contents))
    primary("SELECT", 0)
    replica("SELECT", 0)
    return found


def disturb(rng, primary, replica, how):
    if how == "primary cuts":
        primary("CLIENT", "KILL", "TYPE", "replica")
    elif how == "replica cuts":
        replica("CLIENT", "KILL", "TYPE", "master")
    elif how == "full sync":
        primary("CLIENT", "KILL", "TYPE", "replica")
        primary("CONFIG", "SET", "repl-backlog-size", 16384)
        primary("DEBUG", "CHANGE-REPL-ID")
        primary("CLIENT", "KILL", "TYPE", "replica")
    elif how == "other primary":
        replica("REPLICAOF", "NO", "ONE")
        replica("REPLICAOF", "127.0.0.1", primary.port)
    elif how == "restart":
        replica.restart()


DISTURBANCES = ["nothing", "primary cuts", "replica cuts", "full sync", "other primary", "restart", "primary cuts", "full sync"]


def follow(binary, peer, scratch, args, options):
    rng = random.Random(args.seed)
    primary = Server(binary if args.reverse else peer, scratch, "--save", "")
    follower = peer if args.reverse else binary
    replica = Server(follower, scratch, "--save", "", "--replicaof", f"127.0.0.1 {primary.port}", *options)
    try:
        has_field_ttl = all(isinstance(server("HPERSIST", "none", "FIELDS", 1, "f"), list) for server in (primary, replica))
        until("the first sync", lambda: is_up(replica))
        refused = replica("SET", "k", "v")
        if refused != b"-READONLY You can't write against a read only replica.":
            raise Failed(f"a write is answered {refused}")
        writer = Client(primary.port)
        for step in range(ROUNDS):
            write(writer, rng, args.commands // ROUNDS // 2, has_field_ttl)
            disturb(rng, primary, replica, DISTURBANCES[step % len(DISTURBANCES)])
            write(writer, rng, args.commands // ROUNDS // 2, has_field_ttl)
            same(primary, replica)
        replica("REPLICAOF", "NO", "ONE")
        if replica("SET", "own", "x") != b"+OK":
            raise Failed("a primary refuses a write")
        counts = primary.info("stats")
        return f"full {counts['sync_full']}, partial {counts['sync_partial_ok']}"
    finally:
        for server in (primary, replica):
            server.stop()


def chain(binaries, scratch, args):
    """Three servers in a row, which change their places."""
    rng = random.Random(args.seed)
    servers = []
    try:
        for binary in binaries:
            servers.append(Server(binary, scratch, "--save", ""))
        first, second, third = servers
        point = lambda replica, primary: replica("REPLICAOF", "127.0.0.1", primary.port)
        count = args.commands // 6
        point(second, first)
        point(third, second)
        until("the chain", lambda: is_up(second) and is_up(third))
        for cut in (second, third, first):
            write(Client(first.port), rng, count, False)
            cut("CLIENT", "KILL", "TYPE", "replica")
            cut("CLIENT", "KILL", "TYPE", "primary")
            write(Client(first.port), rng, count, False)
            same(first, second)
            same(first, third)
        # A primary follows its replica.
        second("REPLICAOF", "NO", "ONE")
        point(first, second)
        lead(second, [first, third], rng, count)
        # No server leads, and nothing is lost by it.
        point(second, third)
        time.sleep(1.5)
        if any(server("PING") != b"+PONG" for server in servers):
            raise Failed("a server in a circle does not answer")
        third("REPLICAOF", "NO", "ONE")
        point(first, third)
        lead(third, [first, second], rng, count)
        return "full " + ", ".join(server.info("stats")["sync_full"] for server in servers)
    finally:
        for server in servers:
            server.stop()


def lead(primary, replicas, rng, count):
    until("all follow the new primary", lambda: all(is_up(replica) for replica in replicas))
    write(Client(primary.port), rng, count, False)
    for replica in replicas:
        same(primary, replica)


def chains(binary, peers):
    """Returns the rows of servers: any server of a row can lead any other one."""
    newest, older = (os.path.join(peers, PEERS[number]) for number in (0, 2))
    if not os.path.exists(newest):
        return []
    others = [newest, older if os.path.exists(older) else newest]
    return [[binary, *others], [others[0], binary, others[1]], [*others, binary], [binary, others[0], binary]]


OPTIONS = [("disk", []), ("flush-before-load", ["--repl-diskless-load", "flush-before-load"]), ("swapdb, threads", ["--repl-diskless-load", "swapdb", "--threads", "4"]), ("aof", ["--appendonly", "yes"])]

# Options that other servers have, too.
REVERSED = ("disk", "aof")


def passes(label, run):
    """Runs it in a folder of its own and prints what it returns, or how it failed and the ends of the servers' logs."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            print(f"{label}: {run(scratch)}", flush=True)
            return True
        except (Failed, EOFError, OSError) as error:
            print(f"{label}: {type(error).__name__} {error}", flush=True)
            for log in sorted(os.listdir(scratch)):
                if log.startswith("log-"):
                    with open(os.path.join(scratch, log), errors="replace") as file:
                        print(f"--- {log}", *file.read().splitlines()[-25:], sep="\n")
            return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--commands", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--itself", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--reverse", action="store_true")
    parser.add_argument("--chain", action="store_true")
    args = parser.parse_args()
    binary, peers = os.path.abspath(args.server), os.path.abspath(os.path.expanduser(args.peers))
    failed = 0
    found = [os.path.join(peers, peer) for peer in PEERS if os.path.exists(os.path.join(peers, peer))] + ([binary] if args.itself else [])
    named = lambda path: "cinnabar" if path == binary else os.path.relpath(path, peers)
    runs = []
    if args.chain:
        for row in chains(binary, peers):
            runs.append((" -> ".join(map(named, row)), lambda scratch, row=row: chain(row, scratch, args)))
    else:
        for number, peer in enumerate(found):
            kinds = [kind for kind in OPTIONS if not args.reverse or kind[0] in REVERSED]
            for name, options in [kinds[number % len(kinds)]] if args.quick else kinds:
                run = lambda scratch, peer=peer, options=options: follow(binary, peer, scratch, args, options)
                runs.append((f"cinnabar -> {named(peer)}, {name}" if args.reverse else f"{named(peer)} -> {name}", run))
    for label, run in runs:
        if args.only in label:
            failed += not passes(label, run)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
