#!/usr/bin/env python3
"""rdb_files - RDB files go both ways: what one server wrote every other one loads, and then holds the same.

    rdb_files.py --server target/release/cinnabar-server --peers ~/.cache/peers

For every real server among the peers: keys of every type and encoding are made there, saved, and loaded by Cinnabar; and made in Cinnabar,
saved, and loaded there. All is read out by commands (and what DUMP answers is restored on the other side). The files of the
suite's assets are loaded by Cinnabar and the server that the suite belongs to. valkey-check-rdb must pass ours, cinnabar-check-rdb theirs.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

from wire import Client, free_port

PEERS = {"newest/bin/redis-server": "redis 8", "newest/bin/valkey-server": "valkey 9", "matching/bin/valkey-server": "valkey 8.1",
          "valkey/bin/valkey-server": "valkey 8.0", "redis/bin/redis-server": "redis 7.0"}
# Its version of the format is older than what is written here.
READS_OLDER_ONLY = {"redis 7.0"}
ASSETS = ["encodings.rdb", "hash-ziplist.rdb", "hash-zipmap.rdb", "list-quicklist.rdb", "zset-ziplist.rdb", "scriptbackup.rdb"]


class Failed(Exception):
    """An error reply."""


class Replies(Client):
    """Reads replies as Python values: texts, numbers, an error as an exception."""

    def line(self, kind, rest):
        if kind == b"-":
            raise Failed(rest.decode())
        return int(rest) if kind == b":" else rest


class Server:
    """A server of its own in a folder; ends with the block."""

    def __init__(self, program, folder, *options):
        self.port = free_port()
        self.log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--dir", folder, "--save", "", *options], stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        for _ in range(200):
            try:
                client = Replies(self.port)
                client("DBSIZE")
                return client
            except (OSError, EOFError, Failed):
                time.sleep(0.05)
            if self.process.poll() is not None:
                break
        self.__exit__()
        with open(self.log.name, encoding="utf-8") as log:
            raise RuntimeError("the server does not start:\n" + log.read()[-2000:])

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


def fill(c):
    """Writes keys of every type and encoding that the server can make."""
    def attempt(*words):
        try:
            return c(*words)
        except Failed:
            return None  # a command that this server does not have

    for name, value in [("int8", -3), ("int16", 30000), ("int32", -2000000000), ("int64", 2**62), ("empty", ""), ("short", "word"),
                        ("binary", bytes(range(256))), ("compressible", "x" * 5000), ("long", os.urandom(70000)), ("big", b"ab" * 900000)]:
        c("SET", "string:" + name, value)
    c("SET", "deadline", "later", "PX", 100000000)
    c("SETEX", "deadline:list", 90000, "x")
    for name, count, size in [("one", 1, 3), ("small", 40, 8), ("large", 9000, 30), ("elements", 20, 9000)]:
        words = ["%d-%s" % (n, "y" * size) for n in range(count)]
        numbers = [n * n * (-1) ** n for n in range(count)]
        for start in range(0, count, 500):
            some, few = words[start:start + 500], numbers[start:start + 500]
            c("RPUSH", "list:" + name, *some, *few)
            c("SADD", "set:" + name, *some)
            c("SADD", "ints:" + name, *few)
            c("HSET", "hash:" + name, *[x for w, n in zip(some, few) for x in (w, n)])
            c("ZADD", "zset:" + name, *[x for w, n in zip(some, few) for x in (n / 4, w)])
    c("SADD", "ints:wide", 2**40, -(2**60), 5)
    c("ZADD", "zset:odd", "inf", "up", "-inf", "down", "1.1", "a", "1e-300", "b", "-0.0", "c", 2**53 + 1, "d")
    c("PFADD", "hll", *range(2000))
    c("GEOADD", "places", "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania")
    c("SETBIT", "bits", 100001, 1)
    for n in range(700):
        c("XADD", "stream", "%d-%d" % (n + 1, n), "field", "v%d" % n, *(["other", "x"] if n % 3 else []))
    c("XDEL", "stream", "5-4", "300-299")
    c("XGROUP", "CREATE", "stream", "group", "0")
    c("XREADGROUP", "GROUP", "group", "alice", "COUNT", 30, "STREAMS", "stream", ">")
    c("XREADGROUP", "GROUP", "group", "bob", "COUNT", 10, "STREAMS", "stream", ">")
    c("XACK", "stream", "group", "3-2", "9-8")
    c("XGROUP", "CREATE", "stream", "idle", "$")
    c("XADD", "emptied", "1-1", "a", "b")
    c("XDEL", "emptied", "1-1")
    attempt("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 7 end)")
    c("SELECT", 7)
    c("SET", "elsewhere", "value")
    c("SELECT", 0)


def fill_fields(c):
    """Writes hashes with deadlines of fields, which one family of servers cannot read from the other."""
    try:
        c("HSET", "timed", "a", 1, "b", 2, "c", 3)
        c("HPEXPIREAT", "timed", 4000000000000, "FIELDS", 2, "a", "b")
        for n in range(600):
            c("HSET", "timed:large", "field%d" % n, "value")
        c("HPEXPIREAT", "timed:large", 4000000000123, "FIELDS", 3, "field1", "field7", "field500")
        return True
    except Failed:
        return False


def content(c):
    """Returns {(db, key): all that commands report about it}"""
    all_keys = {}
    for db in (0, 7):
        c("SELECT", db)
        for key in c("KEYS", "*"):
            kind = c("TYPE", key)
            at = c("PEXPIRETIME", key)
            all_keys[db, key] = (kind, at, value(c, kind, key))
    c("SELECT", 0)
    try:
        all_keys["functions"] = sorted(str(library) for library in c("FUNCTION", "LIST", "WITHCODE"))
    except Failed:
        pass
    return all_keys


def value(c, kind, key):
    if kind == b"string":
        return c("GET", key)
    if kind == b"list":
        return c("LRANGE", key, 0, -1)
    if kind == b"set":
        return sorted(c("SMEMBERS", key))
    if kind == b"zset":
        flat = c("ZRANGE", key, 0, -1, "WITHSCORES")
        return [(flat[n], float(flat[n + 1])) for n in range(0, len(flat), 2)]
    if kind == b"hash":
        flat = c("HGETALL", key)
        pairs = sorted((flat[n], flat[n + 1]) for n in range(0, len(flat), 2))
        if key.startswith(b"timed"):
            return pairs, c("HPEXPIRETIME", key, "FIELDS", len(pairs), *[name for name, _ in pairs])
        return pairs
    if kind == b"stream":
        pending = []
        for group in c("XINFO", "GROUPS", key):
            named = dict(zip(group[::2], group[1::2]))
            shown = [named[field] for field in (b"name", b"consumers", b"pending", b"last-delivered-id")]
            rows = c("XPENDING", key, named[b"name"], "-", "+", 1000)
            pending.append((shown, [(row[0], row[1], row[3]) for row in rows]))
        return c("XRANGE", key, "-", "+"), pending, dict(zip(*[iter(c("XINFO", "STREAM", key))] * 2))[b"last-generated-id"]
    return kind


def differences(one, two):
    return sorted(str(key) for key in one.keys() | two.keys() if one.get(key) != two.get(key))


class Run:
    def __init__(self, server, peers):
        self.server, self.peers = server, peers
        self.checks = self.wrong = 0

    def verdict(self, what, wrong):
        self.checks += 1
        if wrong:
            self.wrong += 1
            print("rdb_files: %s: %s" % (what, ", ".join(wrong[:8])))

    def both_ways(self, peer, name):
        family = "redis" if "redis" in name else "valkey"
        tool = os.path.join(os.path.dirname(peer), ("redis" if family == "redis" else "valkey") + "-check-rdb")
        for timed in (False, True):
            with tempfile.TemporaryDirectory() as theirs, tempfile.TemporaryDirectory() as ours:
                with Server(peer, theirs) as c:
                    fill(c)
                    if timed and not fill_fields(c):
                        continue
                    before = content(c)
                    c("SAVE")
                    dumps = {key: c("DUMP", key[1]) for key in before if key[0] == 0}
                with Server(self.server, theirs) as c:
                    self.verdict("written by %s, loaded here" % name, differences(before, content(c)))
                own_tool = os.path.join(os.path.dirname(self.server), "cinnabar-check-rdb")
                self.checked(own_tool, theirs, "written by %s, cinnabar-check-rdb" % name)
                if name in READS_OLDER_ONLY:
                    continue
                with Server(self.server, ours, "--rdb-version-compat", family) as c:
                    fill(c)
                    if timed:
                        fill_fields(c)
                    for key, dump in dumps.items():
                        c("RESTORE", b"from:" + key[1], 0, dump)
                    before = content(c)
                    restored = [str(key) for key in dumps if key[1] != b"deadline" and
                                value(c, before[0, b"from:" + key[1]][0], b"from:" + key[1]) != before[key][2] and "long" not in str(key)
                                and not key[1].startswith(b"timed")]
                    self.verdict("dumped by %s, restored here" % name, restored)
                    c("SAVE")
                    dumps = {key: c("DUMP", key[1]) for key in before if key[0] == 0}
                self.checked(tool, ours, "written here, %s" % os.path.basename(tool))
                with Server(peer, ours) as c:
                    self.verdict("written here, loaded by %s" % name, differences(before, content(c)))
                    refused = []
                    for key, dump in dumps.items():
                        try:
                            c("RESTORE", b"again:" + key[1], 0, dump)
                        except Failed as error:
                            refused.append("%s (%s)" % (key, error))
                    self.verdict("dumped here, restored by %s" % name, refused)

    def checked(self, tool, folder, what):
        if os.path.exists(tool):
            done = subprocess.run([tool, os.path.join(folder, "dump.rdb")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.verdict(what, [done.stdout.decode()[-500:]] if done.returncode else [])

    def assets(self):
        folder = os.path.join(self.peers, "suite", "tests", "assets")
        for name in ASSETS:
            found = []
            for program in (os.path.join(self.peers, "matching/bin/valkey-server"), self.server):
                with tempfile.TemporaryDirectory() as scratch:
                    shutil.copy(os.path.join(folder, name), os.path.join(scratch, "dump.rdb"))
                    with Server(program, scratch) as c:
                        found.append(content(c))
            self.verdict("asset " + name, differences(*found))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--server", required=True, help="cinnabar-server")
    p.add_argument("--peers", default=os.path.expanduser("~/.cache/peers"), help="the folder of the real servers")
    p.add_argument("--only", help="only the peers whose names contain this")
    args = p.parse_args()
    run = Run(os.path.abspath(args.server), args.peers)
    for path, name in PEERS.items():
        peer = os.path.join(args.peers, path)
        if os.path.exists(peer) and (args.only or "") in name:
            run.both_ways(peer, name)
    run.assets()
    print("rdb_files: %d checks, %d wrong" % (run.checks, run.wrong))
    return 1 if run.wrong or not run.checks else 0


if __name__ == "__main__":
    sys.exit(main())
