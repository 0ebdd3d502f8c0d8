#!/usr/bin/env python3
"""values - compares two servers with the same data: digests of every type of value, and the newest commands of streams.

    values.py --server target/release/cinnabar-server --valkey .../valkey-server [--redis .../redis-server]

The same commands go to the server and to a Valkey, which fill several databases with every type in every encoding; DEBUG
DIGEST-VALUE of each key and DEBUG DIGEST of all must be the same, also after values were changed and taken back. The commands of
streams that only a Redis 8 has are compared with that; scenarios with what its version does not have are left out, and counted. Standard
library only.
"""
import argparse
import os
import random
import tempfile

from wire import start


def values(rng):
    """Commands that fill a database: every type, small and large, texts, numbers and bytes."""
    text = lambda: rng.choice([f"text {rng.random()}", str(rng.randrange(-10**18, 10**18)), "", bytes(rng.randrange(256) for _ in range(20))])
    score = lambda: rng.choice([rng.random() * 1e6, rng.randrange(-5, 5), "-0", "inf", "-inf", 1e300, 0.1, 3.0000000000000004])
    yield from [("SET", "string", "plain"), ("SET", "int", "-42"), ("SET", "empty", ""), ("SET", "long", "x" * 10_000), ("SETBIT", "bits", 77, 1)]
    yield from [("INCRBYFLOAT", "float", "10.5"), ("APPEND", "string", "er"), ("SET", "deadline", "v", "PXAT", 4_000_000_000_000)]
    for size in 3, 2000:
        for n in range(size):
            yield "RPUSH", f"list:{size}", text()
            yield "SADD", f"ints:{size}", rng.randrange(-2**63, 2**63)
            yield "SADD", f"set:{size}", text()
            yield "HSET", f"hash:{size}", text(), text()
            yield "ZADD", f"zset:{size}", score(), text()
            yield "XADD", f"stream:{size}", f"{n // 7 + 1}-{n % 7 + 1}", *(word for _ in range(rng.randrange(1, 4)) for word in (text(), text()))
            yield "PFADD", f"sketch:{size}", text()
            yield "GEOADD", f"places:{size}", rng.uniform(-180, 180), rng.uniform(-85, 85), text()
        yield "PEXPIREAT", f"hash:{size}", 4_000_000_000_000
        yield "XDEL", f"stream:{size}", "1-2"
        yield "LSET", f"list:{size}", 1, b"\x00\xff"
        yield "PFCOUNT", f"sketch:{size}"
    yield from [("XGROUP", "CREATE", "stream:3", "group", "0"), ("XTRIM", "stream:2000", "MAXLEN", 555), ("LPUSH", "list:3", 7)]
    yield from [("COPY", "zset:3", "copied"), ("RENAME", "copied", "renamed"), ("SUNIONSTORE", "both", "set:3", "ints:3")]


def same_digests(server, valkey):
    differences, compared = 0, 0
    for database in 0, 3, 9:
        for client in server, valkey:
            client("SELECT", database)
        for command in values(random.Random(database)):
            replies = [client(*command) for client in (server, valkey)]
            assert replies[0] == replies[1], (command, replies)
        for key in sorted(valkey("KEYS", "*")):
            found = [client("DEBUG", "DIGEST-VALUE", key) for client in (server, valkey)]
            compared += 1
            if found[0] != found[1]:
                differences += 1
                print(f"digest of {key} ({valkey('TYPE', key)}): {found[0]}, not {found[1]}")
        found = [client("DEBUG", "DIGEST") for client in (server, valkey)]
        compared += 1
        if found[0] != found[1]:
            differences += 1
            print(f"digest of everything with database {database}: {found[0]}, not {found[1]}")
    # Taken back: the digests of nothing.
    for client in server, valkey:
        client("FLUSHALL")
    assert server("DEBUG", "DIGEST") == valkey("DEBUG", "DIGEST") == b"+" + b"0" * 40, server("DEBUG", "DIGEST")
    print(f"{compared} digests, {differences} differences")
    return differences


# Each begins with an empty stream `s` of five entries, a group `g` that has read three, and a group `h` that has read all.
BEGIN = ["DEL s", *(f"XADD s 1-{n} field {n}" for n in range(1, 6)), "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 3 STREAMS s >",
         "XGROUP CREATE s h 0", "XREADGROUP GROUP h d STREAMS s >"]
SHOWN = ["XLEN s", "XRANGE s - +", "XPENDING s g", "XPENDING s h", "XINFO GROUPS s"]
NEWER = [
    ["XDELEX s IDS 2 1-1 1-9"], ["XDELEX s KEEPREF IDS 1 1-2", "XPENDING s g"], ["XDELEX s DELREF IDS 2 1-2 1-3"],
    ["XDELEX s ACKED IDS 3 1-1 1-4 1-9", "XACK s g 1-1", "XACK s h 1-1", "XDELEX s ACKED IDS 1 1-1"],
    ["XDELEX s IDS 0"], ["XDELEX s IDS 3 1-1"], ["XDELEX s IDS"], ["XDELEX s IDS 1 x"], ["XDELEX s WHAT IDS 1 1-1"], ["XDELEX none IDS 2 1-1 1-2"],
    ["XDELEX s KEEPREF DELREF IDS 1 1-1"], ["XDELEX s IDS 1 1-1 DELREF"], ["XDELEX s IDS -1 1-1"],
    ["XACKDEL s g IDS 2 1-1 1-9"], ["XACKDEL s g KEEPREF IDS 1 1-2"], ["XACKDEL s g DELREF IDS 1 1-2"],
    ["XACKDEL s g ACKED IDS 2 1-1 1-2", "XACKDEL s h ACKED IDS 2 1-1 1-2"], ["XACKDEL s none IDS 1 1-1"], ["XACKDEL none g IDS 1 1-1"],
    ["XACKDEL s g IDS 2 1-1"], ["XACKDEL s g ACKED IDS 1 1-5"],
    ["XTRIM s MAXLEN = 2 KEEPREF"], ["XTRIM s MAXLEN = 2 DELREF"], ["XTRIM s MAXLEN = 2 ACKED"], ["XTRIM s MINID = 1-4 ACKED"],
    ["XACK s g 1-1 1-2", "XACK s h 1-1 1-2", "XTRIM s MAXLEN = 0 ACKED"], ["XTRIM s MAXLEN ~ 2 ACKED"], ["XTRIM s MAXLEN 2 ACKED DELREF"], ["XTRIM s KEEPREF MAXLEN 2 KEEPREF"], ["XADD s ACKED DELREF 2-1 a 1"], ["XDELEX s ACKED IDS 2 9-9 0-1"],
    ["XADD s MAXLEN = 2 DELREF 2-1 a 1"], ["XADD s ACKED MAXLEN = 2 2-1 a 1"], ["XADD s MAXLEN = 2 KEEPREF 2-1 a 1"], ["XADD s DELREF 2-1 a 1"],
    ["XREADGROUP GROUP g e CLAIM 0 STREAMS s >"], ["XREADGROUP GROUP g e COUNT 2 CLAIM 0 STREAMS s >"],
    ["XREADGROUP GROUP g e CLAIM 100000 STREAMS s >"], ["XREADGROUP GROUP g e CLAIM 100000 NOACK STREAMS s >"],
    ["XREADGROUP GROUP h e CLAIM 0 STREAMS s >", "XREADGROUP GROUP h e CLAIM 0 STREAMS s >"], ["XREADGROUP GROUP h e CLAIM 1000000 STREAMS s >"],
    ["XREADGROUP GROUP g e CLAIM 0 STREAMS s 0"], ["XREADGROUP GROUP g e CLAIM -1 STREAMS s >"], ["XREADGROUP GROUP g e CLAIM x STREAMS s >"],
    ["XDEL s 1-2", "XREADGROUP GROUP g e CLAIM 0 STREAMS s >"], ["XREADGROUP GROUP g e STREAMS s > CLAIM 0"],
    ["XADD s IDMP p one 3-1 a 1"], ["XADD s IDMP p one 3-* a 1", "XADD s IDMP p one 3-* a 2", "XADD s IDMP q one 3-* a 2"],
    ["XADD s IDMPAUTO p 3-* a 1", "XADD s IDMPAUTO p 3-* a 1", "XADD s IDMPAUTO p 3-* a 2"], ["XADD s IDMP p 3-* a 1"],
    ["XCFGSET s IDMP-DURATION 5 IDMP-MAXSIZE 7"], ["XCFGSET s"], ["XCFGSET s IDMP-DURATION 0"], ["XCFGSET none IDMP-DURATION 5"],
    ["XNACK s g SILENT IDS 1 1-1", "XREADGROUP GROUP g e CLAIM 100000 STREAMS s >"], ["XNACK s g FAIL IDS 2 1-1 1-2"], ["XNACK s g FATAL IDS 1 1-9"],
]



def shape(command, reply):
    """Returns a reply without the pending times of entries, which are third in a claimed entry, and without the lag of groups,
    which Valkey reports less often than Redis."""
    if command == "XINFO GROUPS s":
        return [group[:group.index(b"lag")] for group in reply]
    if "CLAIM" in command.split() and isinstance(reply, list):
        return [[name, [[*entry[:2], "idle", *entry[3:]] if len(entry) == 4 else entry for entry in entries]] for name, entries in reply]
    return reply


def same_streams(server, redis):
    differences, compared, left_out = 0, 0, 0
    version = [line for line in redis("INFO", "server").split(b"\r\n") if line.startswith(b"redis_version")]
    modern = tuple(map(int, version[0].split(b":")[1].split(b".")))
    for scenario in NEWER:
        words = {word for command in scenario for word in command.split()}
        since = (8, 6) if words & {"IDMP", "IDMPAUTO", "XCFGSET"} else (8, 8) if "XNACK" in words else (8, 4) if "CLAIM" in words else (8, 2)
        if modern < since:
            left_out += 1
            continue
        for command in BEGIN + scenario + SHOWN:
            replies = [shape(command, client(*command.split())) for client in (server, redis)]
            compared += command in scenario
            if replies[0] != replies[1]:
                differences += 1
                print(f"{'; '.join(scenario)}\n  {command}: {replies[0]}\n  not {replies[1]}")
    print(f"{version[0].decode()}: {compared} commands of streams, {differences} differences, {left_out} scenarios too new for it")
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--valkey", required=True)
    parser.add_argument("--redis")
    options = parser.parse_args()
    processes = []
    with tempfile.TemporaryDirectory() as scratch:
        try:
            def client(binary, *words):
                process, connection = start(os.path.abspath(binary), scratch, words)
                processes.append(process)
                return connection

            server = client(options.server, "--threads", "4")
            differences = same_digests(server, client(options.valkey))
            if options.redis and os.access(options.redis, os.X_OK):
                differences += same_streams(server, client(options.redis))
        finally:
            for process in processes:
                process.terminate()
                process.wait()
    raise SystemExit(differences > 0)


main()
